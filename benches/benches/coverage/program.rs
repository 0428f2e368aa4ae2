//! The programs.

use std::env;
use std::fs;
use std::path::Path;

use probe_programs::ALL;
use probe_runtime::Error;
use probe_tests::library::Library;
use probe_tests::real::Way;

use super::nesting::{descent, lengths};
use super::paced::{churn, pauses};
use super::{clocked, executor, interpreter, made, many, outline, watched};

/// The input of a program besides its amount of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    None,
    /// The repository's own sources.
    Text,
    /// The repository's documentation.
    Prose,
    /// SQLite with a probe in each function, and a workload.
    Sqlite,
    /// This many functions of C, and a workload.
    Functions(u64),
    /// The functions whose caller has a clock: in Rust, or in C.
    Clocked(Option<Way>),
}

/// A program of this bench or of `examples/programs`.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub name: &'static str,
    pub probes: &'static str,
    pub input: Input,
    /// Work for about a quarter of a second.
    pub work: u64,
    /// The program takes part in one round of this many.
    pub every: u64,
    /// The program takes long to build, so the smoke test leaves it out.
    pub is_large: bool,
    run: fn(u64, &str),
}

const fn made(name: &'static str, probes: &'static str, work: u64, run: fn(u64, &str)) -> Program {
    Program { name, probes, input: Input::None, work, every: 1, is_large: false, run }
}

const fn library(name: &'static str, input: Input, work: u64) -> Program {
    Program { input, ..made(name, "**", work, |_, _| ()) }
}

impl Program {
    /// Returns whether the caller of its functions has a clock.
    pub fn is_clocked(&self) -> bool {
        matches!(self.input, Input::Clocked(_))
    }
}

/// The programs whose functions are in this bench, or come with their input.
pub const PROGRAMS: [Program; 22] = [
    made("bursts", "coverage::made::bursts::**", 100, |work, _| made::bursts::run(work)),
    made("phases", "coverage::made::phases::**", 100, |work, _| made::phases::run(work)),
    made("startup", "coverage::made::startup::**", 100, |work, _| made::startup::run(work)),
    made("recursion", "coverage::made::recursion::**", 2_000, |work, _| made::recursion::run(work)),
    made("mixture-1", MIXTURE, 400, |work, _| made::mixture::run(work, 1)),
    made("mixture-8", MIXTURE, 600, |work, _| made::mixture::run(work, 8)),
    Program { every: 20, ..made("mixture-long", MIXTURE, 30_000, |work, _| made::mixture::run(work, 1)) },
    made("many", "coverage::many::**", 100, |work, _| many::run(work)),
    made("lengths", "coverage::nesting::lengths::**", 1_000, |work, _| lengths::run(work)),
    made("descent", "coverage::nesting::descent::**", 1_000, |work, _| descent::run(work)),
    made("pauses", "coverage::paced::pauses::**", 25, |work, _| pauses::run(work)),
    made("churn", "coverage::paced::churn::**", 100, |work, _| churn::run(work)),
    made("interpreter", "coverage::interpreter::**", 3_000, |work, _| _ = interpreter::run(work)),
    made("executor", "coverage::executor::**", 4_000, |work, _| executor::run(work)),
    Program {
        input: Input::Text,
        ..made("outline", "coverage::outline::**", 15, |work, text| _ = outline::run(text, work))
    },
    clocked("clocked", None),
    clocked("clocked-entry-return", Some(Way::EntryReturn)),
    clocked("clocked-instrument", Some(Way::InstrumentFunctions)),
    clocked("clocked-hooks", Some(Way::Hooks)),
    library("sqlite", Input::Sqlite, 20_000),
    Program { is_large: true, ..library("thousands-3", Input::Functions(3_000), 150_000) },
    Program { is_large: true, ..library("thousands-30", Input::Functions(30_000), 150_000) },
];

const MIXTURE: &str = "coverage::made::mixture::**";

const fn clocked(name: &'static str, way: Option<Way>) -> Program {
    Program { input: Input::Clocked(way), ..made(name, "**::clocked_*", 500, |_, _| ()) }
}

/// Runs the program that the arguments name, with `by` attached.
pub fn child(by: &str) -> Result<(), Error> {
    let [_, name, work, input] = &env::args().collect::<Vec<_>>()[..] else { panic!("three arguments") };
    let work = work.parse().expect("an amount");
    if let Some(program) = ALL.iter().find(|it| it.name == name) {
        // On several threads, the merged hulls depend on the order in which threads finish. So this
        // only runs without a truth.
        return watched::run(by, program.probes, || _ = (program.run)(work, watched::threads()));
    }
    let program = PROGRAMS.iter().find(|it| it.name == name).expect("one of the programs");
    match program.input {
        Input::None | Input::Text | Input::Prose => {
            let text =
                if input.is_empty() { String::new() } else { fs::read_to_string(input).expect("text") };
            watched::run(by, program.probes, || watched::in_threads(work, |work| (program.run)(work, &text)))
        }
        Input::Clocked(_) => clocked::child(by, program.probes, work, input),
        Input::Sqlite | Input::Functions(_) => {
            let library = Library::open(Path::new(input));
            let workload = library.function("workload");
            watched::run(by, program.probes, || {
                watched::in_threads(work, |work| assert_ne!(workload(work), 0));
            })
        }
    }
}
