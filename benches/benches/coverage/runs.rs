//! Rounds of runs, in which the programs take turns, so that whatever else the machine does hits all alike.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use probe_benches::Scale;
use probe_benches::tally::{Rows, Tally, rows};
use probe_programs::ALL;
use probe_tests::real::{SQLITE, Way};

use super::program::{Input, PROGRAMS};
use super::{deflate, watched};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
/// Rounds at full scale, unless the time that this variable allows (seconds) is over before.
const ROUNDS: u64 = 100;
const TIME: &str = "PROBE_BENCH_SECONDS";

/// A program, the truth of it, and what its runs have shown.
struct Subject {
    name: &'static str,
    program: PathBuf,
    work: u64,
    every: u64,
    input: PathBuf,
    truth: Rows,
    tally: Tally,
}

impl Subject {
    fn run(&self, by: &str) -> Rows {
        let mut command = Command::new(&self.program);
        command.env(watched::VARIABLE, by).arg(self.name).arg(self.work.to_string()).arg(&self.input);
        let output = command.output().expect("the program can be started");
        assert!(output.status.success(), "{command:?}: {output:?}");
        rows(&String::from_utf8_lossy(&output.stdout))
    }
}

/// Takes the truth, runs the rounds, and prints.
pub fn compare() {
    let scale = Scale::from_args();
    let mut subjects = subjects(scale);
    for it in &mut subjects {
        it.truth = it.run(watched::COUNT);
        assert!(it.truth == it.run(watched::COUNT), "{} does not do the same again", it.name);
    }
    let seconds = env::var(TIME).map(|it| it.parse().expect("seconds"));
    let (start, time) = (Instant::now(), seconds.map_or(Duration::MAX, Duration::from_secs));
    for round in 0..scale.of(ROUNDS) {
        for it in subjects.iter_mut().filter(|it| round.is_multiple_of(it.every)) {
            if start.elapsed() < time {
                let shown = it.run(watched::PROFILE);
                it.tally.add(&it.truth, &shown);
            }
        }
    }
    subjects.retain(|it| it.tally.has_runs());
    subjects.iter().for_each(|it| it.tally.print_figure(it.name));
    println!("{}", Tally::HEADING);
    subjects.iter().for_each(|it| it.tally.print(it.name));
}

/// All programs, with what they need; in a taste, those that take long do a tenth of the work, or nothing.
fn subjects(scale: Scale) -> Vec<Subject> {
    let this = env::current_exe().expect("a program knows its path");
    let amount = |work: u64| if scale == Scale::Full { work } else { work.div_ceil(10) };
    let subject = |name, program: &Path, work, every, input: &Path| Subject {
        name,
        program: program.to_owned(),
        work: amount(work),
        every,
        input: input.to_owned(),
        truth: Rows::new(),
        tally: Tally::default(),
    };
    let (none, text) = (Path::new(""), text());
    let library = SQLITE.build(ROOT, Way::EntryReturn).library;
    let programs = PROGRAMS.iter().filter(|it| scale == Scale::Full || it.every == 1).map(|it| {
        let input = match it.input {
            Input::None => none,
            Input::Text => &text,
            Input::Library => &library,
        };
        subject(it.name, &this, it.work, it.every, input)
    });
    let deflate = subject("deflate", &deflate::build(&Path::new(ROOT).join("coverage")), 1, 1, &text);
    let known = ALL.iter().map(|it| subject(it.name, &this, 3 * it.work, 1, none));
    programs.chain([deflate]).chain(known).collect()
}

/// A file with the sources of `probe-runtime`, one after the other.
fn text() -> PathBuf {
    fn add_to(all: &mut String, folder: &Path) {
        let entries = fs::read_dir(folder).expect("a folder of the repository");
        let mut paths: Vec<_> = entries.map(|it| it.expect("an entry").path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                add_to(all, &path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                all.push_str(&fs::read_to_string(&path).expect("a source"));
            }
        }
    }
    let mut all = String::new();
    add_to(&mut all, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../probe-runtime/src"));
    let file = Path::new(ROOT).join("coverage.txt");
    fs::write(&file, all).expect("a file for the text");
    file
}
