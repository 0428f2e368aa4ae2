//! The test programs that a nested cargo builds.

use std::path::Path;
use std::process::Command;

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
