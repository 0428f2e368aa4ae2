//! Snapshots when a thread panics. Each program is a child of this one: panic hooks are the
//! process's.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::panic;
use std::path::PathBuf;
use std::process::Output;
use std::thread;

use probe_runtime::{Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::scenario;
use probe_tests::turn::turn;

#[probe(args(*))]
#[inline(never)]
fn divided(number: u64, by: u64) -> u64 {
    number / by
}

fn recorder() -> Trace {
    divided(1, 1);
    Trace::recorder().snapshot_on_panic(path())
}

fn path() -> PathBuf {
    env::var_os("TRACE_FILE").unwrap().into()
}

extern "C" fn aborts() {
    divided(4, 0);
}

/// Panics in one of these ways.
pub fn play(way: &str) {
    panic::set_hook(Box::new(|_| println!("the program's hook")));
    let attach = |trace: Trace| select("**::panics::divided kind=entry").unwrap().attach(trace);
    match way {
        "aborts" => {
            let _trace = attach(recorder()).unwrap();
            divided(3, 1);
            aborts();
        }
        "is caught" => {
            let trace = attach(recorder()).unwrap();
            let others = [3, 4].map(|number| thread::spawn(move || divided(number, 0)).join());
            assert!(others.iter().all(Result::is_err));
            assert_eq!(trace.finish().unwrap().written, 2);
            fs::rename(path(), path().with_extension("attached")).unwrap();
            // Nobody listens any more; the hook does nothing of its own.
            assert!(panic::catch_unwind(|| divided(5, 0)).is_err());
            assert!(!path().exists());
        }
        "in a child" => {
            let _trace = attach(recorder()).unwrap();
            divided(3, 1);
            assert_eq!(scenario::in_a_child(|| assert!(panic::catch_unwind(|| divided(4, 0)).is_err())), 0);
            assert!(!path().exists());
        }
        "while it panics" => {
            struct Attaches;
            impl Drop for Attaches {
                fn drop(&mut self) {
                    let error =
                        select("**::panics::divided").unwrap().attach(recorder()).unwrap_err().to_string();
                    assert!(
                        error.ends_with("a thread that panics can't put a panic hook in place"),
                        "{error}"
                    );
                    println!("refused");
                }
            }
            let attaches = || {
                let _attaches = Attaches;
                divided(1, 0)
            };
            assert!(panic::catch_unwind(attaches).is_err());
        }
        "elsewhere" => {
            let _trace = attach(Trace::first().snapshot_on_panic("/missing/x")).unwrap();
            assert!(panic::catch_unwind(|| divided(5, 0)).is_err());
        }
        "by the environment" => {
            let _probes = probe_runtime::init_from_env().unwrap();
            divided(3, 1);
            assert!(panic::catch_unwind(|| divided(4, 0)).is_err());
        }
        other => panic!("{other}"),
    }
}

/// Returns the numbers of each snapshot in the folder, by name, and the output.
fn run(way: &str, variables: &[(&str, &str)]) -> (Vec<Vec<String>>, Output) {
    let folder = Folder::new("trace-panic");
    let path = folder.join("panic.probetrace");
    let mut command = scenario::start(&format!("panics {way}"));
    let output = command
        .env("TRACE_FILE", &path)
        .envs(variables.iter().copied())
        .current_dir(&*folder)
        .output()
        .unwrap();
    assert_eq!(output.status.success(), way != "aborts", "{}", scenario::said(&output));
    let mut paths: Vec<_> = fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let numbers = |path: &PathBuf| {
        let entries = super::events(path).into_iter().filter(|event| !event.fields.is_empty());
        entries.map(|event| event.fields[0].to_string()).collect()
    };
    (paths.iter().map(numbers).collect(), output)
}

#[test]
fn a_panic_leaves_a_snapshot_and_the_programs_hook_runs() {
    let _turn = turn();
    let hooks =
        |output: &Output| String::from_utf8_lossy(&output.stdout).matches("the program's hook").count();
    let (snapshots, output) = run("is caught", &[]);
    // The second one has replaced the first.
    assert_eq!((snapshots, hooks(&output)), (vec![vec!["3".into(), "4".to_owned()]], 3));
    let (snapshots, output) = run("aborts", &[]);
    assert_eq!(snapshots, [["3", "4"]]);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    let (snapshots, output) = run("in a child", &[]);
    assert_eq!((snapshots, hooks(&output)), (vec![vec!["3".into(), "4".to_owned()]], 1));
}

#[test]
fn the_environment_asks_for_it() {
    let _turn = turn();
    let variables =
        [("PROBES", "**::panics::divided=trace(flight, panic=%%-%p.probetrace)"), ("PROBES_OUT", "-")];
    let (snapshots, _) = run("by the environment", &variables);
    assert_eq!(snapshots, [["3", "4"]]);
}

#[test]
fn a_snapshot_that_fails_is_told_and_the_program_goes_on() {
    let _turn = turn();
    let (snapshots, output) = run("elsewhere", &[]);
    assert_eq!(snapshots, [[""; 0]; 0]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the trace can't be written to /missing/x: No such file"), "{said}");
    let (_, output) = run("while it panics", &[]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("refused"), "{}", scenario::said(&output));
}

#[test]
fn a_trace_to_a_file_has_no_snapshots() {
    let _turn = turn();
    divided(1, 1);
    let trace = Trace::to_file("a.probetrace").snapshot_on_panic("b.probetrace");
    let error = select("**::panics::divided").unwrap().attach(trace).unwrap_err().to_string();
    assert!(error.ends_with("b.probetrace: this trace is written to a.probetrace already"), "{error}");
}
