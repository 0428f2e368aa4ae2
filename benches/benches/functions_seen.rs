//! `functions_seen`: of the SQLite functions that a program calls, how many a profiler sees
//! (iProbe's Figure 8). Our profiler waits for each function's first call. `perf record`, if
//! available, samples instants.
//!
//! Each profiler watches a process of its own, which does the same work: this program runs itself.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;

use probe_benches::{IS_PATCHED, Scale, figure};
use probe_runtime::patch::TextPolicy;
use probe_runtime::{Count, Error, Profiler, select};
use probe_tests::real::{SQLITE, Way};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
/// Number of rows to insert; each kind of query runs a tenth as often.
const ROWS: u64 = 100_000;
/// Number of rounds, for about 2 s of work.
const ROUNDS: u64 = 10;

/// The variable with the consumer that a child attaches.
const VARIABLE: &str = "PROBE_BENCH_SEEN_BY";
const COUNT: &str = "count";
const PROFILE: &str = "profile";
const NOTHING: &str = "nothing";

type Names = BTreeSet<String>;

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    if let Ok(what) = env::var(VARIABLE) {
        return child(&what);
    }
    let called = printed(Command::new(program()).env(VARIABLE, COUNT));
    assert!(called.len() > 300, "{} functions", called.len());
    let seen = printed(Command::new(program()).env(VARIABLE, PROFILE));
    let missed: Vec<_> = called.difference(&seen).collect();
    assert!(missed.is_empty(), "{missed:?}");
    print("profiler", &seen, &called);
    match sampled() {
        Ok(sampled) => print("perf", &(&sampled & &called), &called),
        Err(problem) => println!("no `perf record` to compare with: {problem}"),
    }
    Ok(())
}

fn print(name: &str, seen: &Names, called: &Names) {
    let ratio = seen.len() as f64 / called.len() as f64;
    figure(
        &format!("functions_seen/{name}"),
        seen.len(),
        "functions",
        ratio,
        &format!("the {} that were called", called.len()),
    );
}

/// Does the work, and prints the functions that were seen.
fn child(what: &str) -> Result<(), Error> {
    let full = env::var_os("PROBE_BENCH_FULL").is_some();
    let (rows, rounds) = if full { (ROWS, ROUNDS) } else { (1_000, 1) };
    let loaded = SQLITE.load(ROOT, Way::EntryReturn);
    let work = || (0..rounds).for_each(|_| _ = loaded.workload(rows));
    match what {
        COUNT => {
            let counted = select("**")?.attach(Count::new())?;
            work();
            let counts = counted.counts();
            counts.iter().filter(|it| it.hits > 0).for_each(|it| println!("{}", it.probe.path()));
        }
        PROFILE => {
            let profiler = select("**")?.text_policy(TextPolicy::Open).attach(Profiler::new())?;
            work();
            let profile = profiler.profile();
            profile.iter().filter(|it| it.counted() > 0).for_each(|it| println!("{}", it.path()));
        }
        _ => work(),
    }
    Ok(())
}

fn program() -> std::path::PathBuf {
    env::current_exe().expect("a program knows its path")
}

/// Returns the names that a command prints, one a line.
fn printed(command: &mut Command) -> Names {
    let output = in_full(command).output().expect("this program can be started");
    assert!(output.status.success(), "{command:?}: {output:?}");
    names(&output.stdout)
}

fn in_full(command: &mut Command) -> &mut Command {
    if Scale::from_args() == Scale::Full { command.env("PROBE_BENCH_FULL", "1") } else { command }
}

/// Returns each line's last word, without the suffixes that compilers add to copies of functions.
fn names(text: &[u8]) -> Names {
    let text = String::from_utf8_lossy(text);
    let word = |line: &str| line.split_whitespace().next_back().unwrap_or_default().to_owned();
    let name = |line: &str| word(line).split('.').next().unwrap_or_default().to_owned();
    text.lines().map(name).filter(|name| !name.is_empty()).collect()
}

/// Returns the functions in the samples of `perf record`, at its default rate; or why there are
/// none.
fn sampled() -> Result<Names, String> {
    let file = Path::new(ROOT).join("functions-seen.perf");
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", "cpu-clock:u", "-o"]).arg(&file).arg("--").arg(program());
    let output = in_full(record.env(VARIABLE, NOTHING)).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let script = Command::new("perf").args(["script", "-F", "ip,sym", "-i"]).arg(&file).output();
    // A file that stays is temporary.
    let _ = std::fs::remove_file(&file);
    let script = script.map_err(|error| error.to_string())?;
    let samples = script.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    println!("perf has taken {samples} samples");
    Ok(names(&script.stdout))
}
