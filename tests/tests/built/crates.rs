//! `#[probe]` on every function of crates that others wrote, then on every block of them: they
//! compile without a new warning, and pass their own tests, both latent and with every probe
//! active. Then each entry has its exit.
//!
//! One small crate always; all of them, with clippy's warnings and their documentation's examples,
//! with `--ignored` (some minutes), or the one that `PROBE_SOAK_CRATES` names. Examples run latent
//! only: their programs are rustdoc's own, and nothing arms them.

// Once is enough: the copies are built for the machine at hand, whatever the flags of this build.
#![cfg(all(target_os = "linux", not(any(probe_portable, probe_off, probe_seen))))]

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use probe_tests::crates::{CRATES, Copy, Crate, Dependency, Places, SMALLVEC};
use probe_tests::crates::{TestRun, Warnings, armed_hits, warnings};
use probe_tests::nested::cargo_into;

/// The crate's copies, side by side.
struct Pair {
    plain: Copy,
    probed: Copy,
    target: PathBuf,
    /// The intermediate files.
    build: PathBuf,
}

fn pair(it: &Crate, places: Places) -> Pair {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let root = all.join("crates");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runtime = tests.parent().expect("the workspace").join("probe-runtime");
    let dependencies = [
        Dependency {
            kind: "dependencies",
            name: "probe-runtime",
            package: "probe-runtime",
            folder: &runtime,
        },
        Dependency {
            kind: "dev-dependencies",
            name: "armed",
            package: "armed",
            folder: &tests.join("armed"),
        },
    ];
    let plain = Copy::plain(it, &root.join("plain").join(it.name));
    let probed = Copy::patched(
        it,
        &root.join(format!("{places:?}").to_lowercase()).join(it.name),
        places,
        &dependencies,
        "#[cfg(test)] extern crate armed as _;",
    );
    println!("{}: {}", it.name, probed.tally);
    Pair { plain, probed, target: root.join("target"), build: all.join("build") }
}

/// The warnings of one copy that the other has not, or has less often.
fn new_ones(probed: &Warnings, plain: &Warnings) -> Vec<String> {
    let is_new =
        |(warning, times): &(&(String, String), &usize)| plain.get(warning).is_none_or(|it| it < times);
    probed
        .iter()
        .filter(is_new)
        .map(|((code, text), times)| format!("{code}: {text} ({times} times)"))
        .collect()
}

/// Builds the tests of both copies, and runs them: plain, latent, active.
fn holds(it: &Crate, places: Places) {
    let Pair { plain, probed, target, build } = pair(it, places);
    let tests = ["test", "--no-run", "--lib", "--tests"];
    let (plain_warnings, plain_programs) = warnings(&plain.folder, &target, &build, &tests);
    let (probed_warnings, programs) = warnings(&probed.folder, &target, &build, &tests);
    assert_eq!(new_ones(&probed_warnings, &plain_warnings), [""; 0], "{}", it.name);
    let names = |programs: &[(String, PathBuf)]| programs.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    assert_eq!(sorted(names(&plain_programs)), sorted(names(&programs)));
    let mut total = BTreeMap::new();
    let mut passed = 0;
    for (name, program) in &programs {
        let (_, plain_program) = plain_programs.iter().find(|it| it.0 == *name).expect("the same programs");
        let expected = TestRun::of(plain_program, &plain.folder, "").passed;
        assert_eq!(TestRun::of(program, &probed.folder, "").passed, expected, "{name}, latent");
        let active = TestRun::of(program, &probed.folder, "**=count");
        assert_eq!(active.passed, expected, "{name}, active");
        assert!(!active.stderr.contains("lost hits"), "{name}: {}", active.stderr);
        passed += expected;
        for (probe, hits) in armed_hits(&active.stderr) {
            *total.entry(probe).or_insert(0) += hits;
        }
    }
    assert_ne!(passed, 0, "{} has no tests", it.name);
    pairs_up(it, &total);
    println!("{}: {passed} tests, {} hits", it.name, total.values().sum::<u64>());
}

/// As often as something is entered, it is left, or dropped.
fn pairs_up(it: &Crate, hits: &BTreeMap<(String, String), u64>) {
    let of = |name: &str, kind: &str| hits.get(&(name.to_owned(), kind.to_owned())).copied().unwrap_or(0);
    let mut entered = 0;
    for (name, kind) in hits.keys().filter(|(_, kind)| kind == "entry") {
        let entries = of(name, kind);
        assert_eq!(entries, of(name, "exit") + of(name, "drop"), "{} in {}", name, it.name);
        entered += u64::from(entries != 0);
    }
    assert_ne!(entered, 0, "nothing of {} was entered", it.name);
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// Checks clippy's lints, and the examples in the documentation.
fn holds_at_length(it: &Crate, places: Places) {
    let Pair { plain, probed, target, build } = pair(it, places);
    // Crates may violate lints that clippy denies if the author has not run it.
    let lint = ["clippy", "--lib", "--tests", "--", "--cap-lints=warn"];
    let [plain_says, probed_says] =
        [&plain, &probed].map(|copy| warnings(&copy.folder, &target, &build, &lint).0);
    assert_eq!(new_ones(&probed_says, &plain_says), [""; 0], "{}", it.name);
    // Of a crate whose examples use one that its manifest here leaves out, those fail without
    // probes, too.
    let [expected, outcomes] = [&plain, &probed].map(|copy| examples(&copy.folder, &target));
    assert_ne!(outcomes.len(), 0, "{} has no examples", it.name);
    assert_eq!(outcomes, expected, "{}", it.name);
}

/// The examples in the documentation, and whether they pass: without their lines, which attributes
/// move.
fn examples(folder: &Path, target: &Path) -> Vec<String> {
    let mut cargo = cargo_into(folder, "test", target);
    let output = cargo.args(["--offline", "--doc"]).output().expect("cargo runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let outcomes = stdout.lines().filter(|line| line.starts_with("test src"));
    sorted(
        outcomes
            .map(|line| match (line.split_once(" (line "), line.rsplit_once(") ")) {
                (Some((name, _)), Some((_, outcome))) => format!("{name} {outcome}"),
                _ => line.to_owned(),
            })
            .collect(),
    )
}

/// Tests that build the same copies take turns.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_small_one() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    holds(&SMALLVEC, Places::Functions);
}

#[test]
#[ignore = "builds and tests many crates, or the one that PROBE_SOAK_CRATES names"]
fn all_of_them() {
    let asked = env::var("PROBE_SOAK_CRATES").unwrap_or_else(|_| "1".to_owned());
    let chosen: Vec<_> = CRATES.iter().filter(|it| asked == "1" || asked == it.name).collect();
    assert!(!chosen.is_empty(), "PROBE_SOAK_CRATES={asked} is no crate here: {:?}", CRATES.map(|it| it.name));
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for it in chosen {
        for places in [Places::Functions, Places::Blocks] {
            holds(it, places);
            holds_at_length(it, places);
        }
    }
}
