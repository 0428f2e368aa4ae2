//! `PROBES_OUT`: where the reports of a program go, however it ends. Each program is a child of
//! this one, since the variables are read in a process that was started with them.
#![cfg(unix)]

mod endings;
mod folder;
mod forks;
mod guards;
mod missing;
mod signalled;
mod signals;

use std::env;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::thread;

use probe_runtime::probe;
use probe_tests::scenario;
use serde_json::Value;

use folder::Folder;

#[probe]
#[inline(never)]
fn work() {
    inner();
}

#[probe]
#[inline(never)]
fn inner() {}

fn times(calls: u64) {
    (0..calls).for_each(|_| work());
}

const COUNT: &str = "environment_out::work kind=entry=count";

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    endings::play(&scenario::to_play());
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The hits of the only probe.
fn hits(counts: &Value) -> u64 {
    let [count] = counts["rows"].as_array().unwrap().as_slice() else { panic!("{counts}") };
    assert_eq!(count["probe"], "environment_out::work");
    count["hits"].as_u64().unwrap()
}

/// Checks the parts that all reports have.
fn is_a_report(report: &Value, consumer: &str) {
    let members: Vec<_> = report.as_object().unwrap().keys().map(String::as_str).collect();
    for member in ["consumer", "duration", "pid", "program", "rows", "schema", "start"] {
        assert!(members.contains(&member), "{consumer}: {members:?}");
    }
    let program = env::current_exe().unwrap();
    assert_eq!((&report["schema"], &report["consumer"]), (&Value::from(1), &Value::from(consumer)));
    assert_eq!(report["program"], program.file_name().unwrap().to_str().unwrap());
    assert!(report["pid"].as_u64().unwrap() > 0 && report["rows"].is_array());
    assert!((0.0..120.0).contains(&report["duration"].as_f64().unwrap()), "{report}");
    let start = report["start"].as_str().unwrap();
    assert!(start.len() == "2026-11-22T10:03:51.000017Z".len() && start.ends_with('Z'), "{start}");
}

#[test]
fn every_orderly_end_reports_once() {
    for (ending, code) in [
        ("return", 0),
        ("exit", 7),
        ("forgotten", 0),
        ("panic", 101),
        ("elsewhere", 0),
        ("while reporting", 7),
    ] {
        let folder = Folder::new(&ending.replace(' ', "-"));
        let output = folder.run(ending, COUNT, "@/new/counts.json");
        assert_eq!(output.status.code(), Some(code), "{ending}: {output:?}");
        assert_eq!(
            fs::read_dir(folder.0.join("new")).unwrap().count(),
            1,
            "{ending}: nothing is left beside"
        );
        assert_eq!(hits(&folder.json("new/counts.json")), 3, "{ending}");
        assert!(!stderr(&output).contains("environment_out::work"), "{ending}: {output:?}");
    }
    // A relative path begins where the program did.
    let folder = Folder::new("relative");
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["scenario", "--exact", "--ignored"]).current_dir(&*folder.0);
    command.envs([("PROBE_TEST_SCENARIO", "elsewhere"), ("PROBES", COUNT), ("PROBES_OUT", "relative.json")]);
    assert!(command.output().unwrap().status.success());
    assert_eq!(hits(&folder.json("relative.json")), 3);
}

#[test]
fn stderr_has_it_at_an_exit_too() {
    for out in ["", "-"] {
        let output = Folder::new(&format!("stderr{out}")).run("exit", COUNT, out);
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(
            stderr(&output),
            "probe                  kind   sites  hits\n\
             environment_out::work  entry      1     3\n"
        );
    }
}

#[test]
fn an_exit_does_not_wait_for_who_holds_stderr() {
    let folder = Folder::new("held");
    let report = "probe                  kind   sites  hits\n\
                  environment_out::work  entry      1     3\n";
    let output = folder.run("fork while stderr is held", COUNT, "-");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stderr(&output), report.repeat(2), "the child's and its parent's");
    let output = folder.run("exit while stderr is held", COUNT, "-");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(7), report), "{output:?}");
}

#[test]
fn a_killed_program_leaves_what_it_had_reported() {
    let folder = Folder::new("killed");
    let output = folder.run("on demand", COUNT, "@/counts.json");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert_eq!((folder.names(), hits(&folder.json("counts.json"))), (vec!["counts.json".to_owned()], 5));
}

#[test]
fn what_the_program_becomes_reports_for_itself() {
    let folder = Folder::new("exec");
    fs::write(folder.0.join("counts.json"), "from an earlier run").unwrap();
    let output = folder.run("exec", COUNT, "@/counts.json");
    assert!(output.status.success(), "{output:?}");
    assert_eq!((folder.names(), hits(&folder.json("counts.json"))), (vec!["counts.json".to_owned()], 3));
}

#[test]
fn one_guard_at_a_time_writes_to_a_file() {
    let folder = Folder::new("two");
    for out in ["@/counts.json", "@/%p-%n.json", "@/"] {
        let output = folder.run("two guards", COUNT, out);
        assert!(output.status.success(), "{output:?}");
        let names = folder.names();
        let [name] = names.as_slice() else { panic!("{names:?}") };
        let path = folder.0.join(name);
        let (said, path) = (stderr(&output), path.display());
        assert_eq!(
            said,
            format!(
                "PROBES_OUT, column 1: another guard of `init_from_env` reports to {path} already; \
                 call it once, in `main`\n"
            )
        );
        let text = fs::read_to_string(folder.0.join(name)).unwrap();
        let last = if out == "@/" {
            text.ends_with("environment_out::work  entry      1     1\n")
        } else {
            hits(&folder.json(name)) == 1
        };
        assert!(last, "{text}");
        fs::remove_file(folder.0.join(name)).unwrap();
    }
    let output = folder.run("two guards on a stream", COUNT, "/dev/stdout");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let position = |hits: u64| stdout.find(&format!("environment_out::work  entry      1     {hits}\n"));
    assert!(position(1).unwrap() < position(4).unwrap(), "{stdout}");
}

#[test]
fn json_has_the_notes_of_the_text() {
    let folder = Folder::new("notes");
    let output = folder.run("return", "environment_out::work kind=entry, zzz=count", "@/counts.json");
    assert!(output.status.success(), "{output:?}");
    let counts = folder.json("counts.json");
    let [note] = counts["notes"].as_array().unwrap().as_slice() else { panic!("{counts}") };
    assert!(note.as_str().unwrap().starts_with("no probe matches `zzz`"), "{note}");
    assert_eq!(hits(&counts), 3);
    // Where there is nothing to say, there is no such member.
    folder.run("return", COUNT, "@/counts.json");
    assert!(folder.json("counts.json").get("notes").is_none());
}

#[test]
fn each_consumer_has_its_formats() {
    let probes = "environment_out::work kind=entry=count, environment_out::*=latency, environment_out::*=call-tree, \
                  environment_out::*=profile(budget=50%)";
    let folder = Folder::new("formats");
    let run = |probes: &str, out: &str| {
        let output = folder.run("return", probes, out);
        assert!(output.status.success() && stderr(&output).is_empty(), "{output:?}");
    };
    run(probes, "@/%n-%c.json");
    assert_eq!(folder.names(), ["1-count.json", "2-latency.json", "3-call-tree.json", "4-profile.json"]);
    assert_eq!(hits(&folder.json("1-count.json")), 3);
    for name in ["2-latency.json", "4-profile.json"] {
        let report = folder.json(name);
        let calls = |it: &Value| (it["function"].as_str().unwrap().to_owned(), it["calls"].as_f64().unwrap());
        let mut functions: Vec<_> = report["rows"].as_array().unwrap().iter().map(calls).collect();
        functions.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = ["inner", "work"].map(|it| (format!("environment_out::{it}"), 3.0));
        assert_eq!(functions, expected, "{name}");
    }
    for (name, consumer) in [
        ("1-count", "count"),
        ("2-latency", "latency"),
        ("3-call-tree", "call-tree"),
        ("4-profile", "profile"),
    ] {
        is_a_report(&folder.json(&format!("{name}.json")), consumer);
    }
    let nodes = &folder.json("3-call-tree.json")["rows"];
    assert_eq!((&nodes[1]["parent"], &nodes[1]["calls"]), (&Value::from(0), &Value::from(3)));

    let read = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap();
    run("environment_out::*=call-tree", "@/tree.folded");
    let stacks = read("tree.folded");
    assert!(
        stacks.lines().any(|line| line.starts_with("environment_out::work;environment_out::inner ")),
        "{stacks}"
    );
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]
    {
        run("environment_out::inner kind=entry=count by(stack)", "@/callers.folded");
        let stacks = read("callers.folded");
        let end = ";environment_out::work;environment_out::inner 3";
        assert!(stacks.lines().any(|line| line.ends_with(end)), "{stacks}");
    }
    run("environment_out::*=call-tree", "@/tree.svg");
    assert!(read("tree.svg").starts_with("<svg"));
    run(COUNT, "@/counts.csv");
    assert!(read("counts.csv").starts_with("probe,kind,file,line,sites,hits\nenvironment_out::work,entry,"));
    // Texts stand one after the other.
    run("environment_out::work=count, environment_out::inner kind=exit=count", "@/all.txt");
    assert_eq!(
        read("all.txt"),
        "probe                  kind   sites  hits\n\
         environment_out::work  entry      1     3\n\
         environment_out::work  exit       1     3\n\
         probe                   kind  sites  hits\n\
         environment_out::inner  exit      1     3\n"
    );
    // So do families for a collector.
    run("environment_out::work=count, environment_out::inner=latency", "@/all.prom");
    let text = read("all.prom");
    let lines = |end: &str| text.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!(
        (
            lines("_total counter"),
            lines(" histogram"),
            lines("kind=\"exit\",file=\"tests/tests/environment_out/main.rs\"} 3")
        ),
        (2, 1, 1),
        "{text}"
    );
    // A folder, with names that tell.
    fs::create_dir(folder.0.join("reports")).unwrap();
    for out in ["@/reports", "@/reports/"] {
        run(COUNT, out);
    }
    let program = env::current_exe().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let mut reports = fs::read_dir(folder.0.join("reports"))
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap());
    assert!(reports.all(|name| name.starts_with(&format!("{program}-")) && name.ends_with("-1-count.txt")));
}

#[test]
fn a_stream_is_written_to() {
    let folder = Folder::new("stream");
    let output = folder.run("return", COUNT, "/dev/stdout");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("environment_out::work  entry      1     3\n"), "{stdout}");
    let pipe = folder.0.join("pipe.json");
    let path = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a path.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    // Nobody reads: the exit does not wait for somebody.
    let output = folder.run("exit", COUNT, "@/pipe.json");
    assert_eq!(output.status.code(), Some(7));
    let said = stderr(&output);
    let (why, content) = said.split_once('\n').unwrap();
    let problem = "no process has this pipe open to read it";
    assert_eq!(why, format!("PROBES_OUT: {} can't be written: {problem}; it would say:", pipe.display()));
    assert_eq!(hits(&serde_json::from_str(content).unwrap()), 3);
    // Somebody does.
    let mut reader = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
    let output = folder.run("exit", COUNT, "@/pipe.json");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(7), ""));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(hits(&serde_json::from_str(&text).unwrap()), 3);
    assert_eq!(folder.names(), ["pipe.json"]);
}

#[test]
fn what_can_not_be_written_is_said_on_stderr() {
    let folder = Folder::new("denied");
    fs::write(folder.0.join("file"), "").unwrap();
    let output = folder.run("exit", COUNT, "@/file/counts.csv");
    assert_eq!(output.status.code(), Some(7), "the program ends as it would");
    let said = stderr(&output);
    let lines: Vec<_> = said.lines().collect();
    let path = folder.0.join("file/counts.csv");
    assert!(
        lines[0].starts_with(&format!("PROBES_OUT: {} can't be written: ", path.display()))
            && lines[0].ends_with("; it would say:"),
        "{said}"
    );
    assert_eq!(lines[1], "probe,kind,file,line,sites,hits");
    assert!(lines[2].starts_with("environment_out::work,entry,") && lines[2].ends_with(",1,3"), "{said}");
    assert_eq!(lines.len(), 3, "{said}");
}

#[test]
fn without_consumers_nobody_reports() {
    let folder = Folder::new("nobody");
    for (probes, code) in [("", 0), ("environment_out::work=cuont", 1)] {
        assert_eq!(folder.run("return", probes, "@/counts.json").status.code(), Some(code));
        assert_eq!(folder.names(), [""; 0]);
    }
}

/// Needs a superuser, who may give files away, and a file system that heeds `setuid`; elsewhere
/// there is no such program to be had.
#[cfg(target_os = "linux")]
#[test]
fn a_program_with_more_rights_than_its_user_takes_nothing_from_its_environment() {
    use std::os::unix::fs::{PermissionsExt, chown};

    let folder = Folder::new("raised");
    let program = folder.0.join("program");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    if chown(&program, Some(65534), None).is_err() {
        eprintln!("not tested: files can't be given away");
        return;
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(&*folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    let run = |probes: &str, out: &str| {
        let mut command = Command::new(&program);
        command.args(["scenario", "--exact", "--ignored", "--nocapture"]).envs([
            ("PROBE_TEST_SCENARIO", "raised"),
            ("PROBES", probes),
            ("PROBES_OUT", out),
        ]);
        // A child that another test has just forked may hold the copy open for writing, until it
        // becomes another program.
        loop {
            match command.output() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::yield_now(),
                output => break output.unwrap(),
            }
        }
    };
    let output = run("", "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    if !String::from_utf8_lossy(&output.stdout).contains("secure 1\n") {
        eprintln!("not tested: setuid is not heeded here");
        return;
    }
    let file = folder.0.join("counts.json").display().to_string();
    for (probes, out) in [(COUNT, "-"), (COUNT, &file), ("list", &file), ("help", "")] {
        let output = run(probes, out);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(
            stderr(&output),
            "PROBES: this program has rights that whoever started it lacks (setuid, setgid, capabilities); it attaches \
             nothing that its environment names\n"
        );
        assert_eq!(folder.names(), ["program"]);
    }
}

/// One that can't be attached keeps its number.
#[test]
fn numbers_are_those_of_the_variable() {
    let folder = Folder::new("numbers");
    let output = folder.run("return", &format!("zzz=trace(file=/proc/none/x.pftrace), {COUNT}"), "@/%n.json");
    assert!(
        output.status.success()
            && stderr(&output)
                .starts_with("PROBES: `zzz=trace(file=/proc/none/x.pftrace)` is not attached: "),
        "{output:?}"
    );
    assert_eq!(folder.names(), ["2.json"]);
}
