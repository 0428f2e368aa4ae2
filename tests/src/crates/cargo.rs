//! Nested cargo: its environment and lock file, and the test programs that it builds.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A cargo for a copy, without what the outer one hands down.
///
/// Programs and intermediate files go to `target`, shared by all copies that name the same.
#[must_use]
pub fn nested(folder: &Path, target: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    for (key, _) in env::vars_os() {
        if key.to_str().is_some_and(is_handed_down) {
            cargo.env_remove(key);
        }
    }
    cargo.env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0");
    cargo
}

fn is_handed_down(key: &str) -> bool {
    let prefixes =
        ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CFG_"];
    matches!(key, "RUSTFLAGS" | "CARGO_ENCODED_RUSTFLAGS" | "CARGO_INCREMENTAL" | "PROBES")
        || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// Copies the outer workspace's lock file into `folder`: cargo then uses the versions that it pins,
/// and neither resolves nor downloads others.
///
/// # Panics
/// If it can't be copied.
pub fn lend_lock_file(folder: &Path) {
    let outer =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the outer workspace").join("Cargo.lock");
    fs::copy(&outer, folder.join("Cargo.lock")).expect("the lock file can be copied");
}

/// The result of a test program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestRun {
    /// Tests that passed. No other has failed.
    pub passed: usize,
    /// Its output on stderr at its end.
    pub stderr: String,
}

impl TestRun {
    /// Runs it, with this value of `PROBES`.
    ///
    /// # Panics
    /// If a test fails.
    #[must_use]
    pub fn of(program: &Path, folder: &Path, probes: &str) -> Self {
        let mut command = Command::new(program);
        // As cargo runs it.
        let output = command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("PROBES", probes);
        let output = output.output().expect("the program runs");
        let [stdout, stderr] =
            [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
        assert!(output.status.success(), "{}: {}\n{stdout}\n{stderr}", program.display(), output.status);
        let passed = stdout.lines().find_map(|line| {
            let (_, rest) = line.split_once("test result: ok. ")?;
            rest.split_once(" passed")?.0.parse().ok()
        });
        let passed = passed.unwrap_or_else(|| panic!("{} says no result: {stdout}", program.display()));
        Self { passed, stderr }
    }
}

/// The hits of each probe of a run that was counted: name, kind, hits. Those of one name and kind
/// are added up.
///
/// # Panics
/// If stderr does not hold the table.
#[must_use]
pub fn armed_hits(stderr: &str) -> std::collections::BTreeMap<(String, String), u64> {
    let mut lines = stderr.lines().skip_while(|line| !line.starts_with("probe "));
    assert!(lines.next().is_some(), "no table: {stderr}");
    let mut hits = std::collections::BTreeMap::new();
    for line in lines {
        let [name, kind, _, count] = line.split_ascii_whitespace().collect::<Vec<_>>()[..] else { break };
        let Ok(count) = count.parse::<u64>() else { break };
        *hits.entry((name.to_owned(), kind.to_owned())).or_default() += count;
    }
    hits
}
