//! The programs' results are the same on any number of threads. All of their functions are probes,
//! and each call is counted.
#![cfg(not(probe_off))]

use std::sync::{Mutex, PoisonError};

use probe_examples::Run;
use probe_programs::{ALL, Program};
use probe_runtime::count::ProbeCount;
use probe_runtime::{Count, Kind, select};

/// This much work takes almost no time, even without optimisation.
const WORK: u64 = 3;

/// Held by the only running program: a count must not include another test's calls.
static ALONE: Mutex<()> = Mutex::new(());

/// Checks that the probes count exactly the calls that the program knows of; returns its result.
fn counted(program: &Program, threads: usize) -> String {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let counted = select(program.probes).unwrap().attach(Count::new()).unwrap();
    let done = (program.run)(WORK, threads);
    let module = program.probes.strip_suffix("**").unwrap();
    let mut functions = 0;
    for ProbeCount { probe, hits } in &counted.counts() {
        let name = probe.path().strip_prefix(module).unwrap();
        assert_eq!(*hits, done.calls_of(name), "{name} ({}) of {}", probe.kind(), program.name);
        functions += u64::from(probe.kind() == Kind::Entry && *hits > 0);
    }
    assert_eq!(functions, done.calls.len() as u64, "{}: {:?}", program.name, done.calls);
    done.result
}

#[test]
fn every_call_is_counted() {
    for program in ALL {
        let one = counted(&program, 1);
        assert_eq!(counted(&program, 3), one, "{}", program.name);
    }
}

/// The results of [`WORK`].
const RESULTS: [(&str, &str); 5] = [
    ("nbody", "400 bodies, 3 steps: their energy is -1811.099872, and was -1811.030977"),
    ("options", "3000 options are worth 41929.36"),
    ("hull", "79 of 15000 points are corners of the hull; twice its area is 6250949465421"),
    ("json", "3000 orders of 9000 items cost 1878000 cents, in 157614 letters"),
    (
        "patterns",
        "words: 4767, 24873 letters, the longest representatives\n\
         capitalised: 681, 4377 letters, the longest Notwithstanding\n\
         -ing: 141, 1263 letters, the longest Notwithstanding\n\
         quoted: 60, 603 letters, the longest \"Not a Contribution.\"\n\
         addresses: 6, 219 letters, the longest http://www.apache.org/licenses/LICENSE-2.0\n\
         years: 3, 12 letters, the longest 2004",
    ),
];

#[test]
fn results_are_exact() {
    for (name, result) in RESULTS {
        let run = Run::example(name).arg(WORK.to_string()).arg("2").finish();
        assert_eq!((run.code, run.stdout.trim_end(), run.stderr.as_str()), (Some(0), result, ""), "{name}");
    }
}

#[test]
fn each_program_profiles_itself() {
    for program in ALL {
        let run = Run::example(program.name).arg("--profile").arg(WORK.to_string()).arg("2").finish();
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
        let (result, table) = run.stdout.split_once("\n\n").unwrap();
        let expected = RESULTS.iter().find(|(name, _)| *name == program.name).unwrap().1;
        assert_eq!(result, expected, "{}", program.name);
        // All called functions are in the table, each once: a profiler also sees functions that are
        // called once.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let done = (program.run)(WORK, 2);
        drop(alone);
        let module = program.probes.strip_suffix("**").unwrap();
        let mut seen: Vec<_> =
            table.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix(module)).collect();
        seen.sort_unstable();
        let mut called: Vec<_> = done.calls.iter().map(|(name, _)| *name).collect();
        called.sort_unstable();
        assert_eq!(seen, called, "{table}");
    }
}

#[test]
fn the_environment_attaches_and_mistakes_are_explained() {
    let probes = "probe_programs::hull::geometry::merge=latency";
    let run = Run::example("hull").arg("4").arg("1").probes(probes).finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    let row = run.stderr.lines().nth(1).unwrap();
    let words: Vec<_> = row.split_whitespace().take(2).collect();
    assert_eq!(words, ["probe_programs::hull::geometry::merge", "3"], "{}", run.stderr);
    let wrong = Run::example("hull").arg("many").finish();
    assert_eq!(
        (wrong.code, wrong.stderr.as_str()),
        (
            Some(1),
            "hull: what is `many`? Usage: hull [--profile] [BATCHES [THREADS]], two numbers; at most 1024 threads\n"
        )
    );
}
