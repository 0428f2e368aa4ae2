//! A program with its work, and the start of its runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use probe_benches::Scale;
use probe_benches::cost::{self, Cost};
use probe_benches::tally::{Rows, from_csv, rows};
use probe_programs::ALL;
use probe_tests::real::{SQLITE, Way};

use super::driven::{DEFLATE, DRIVEN};
use super::program::{Input, PROGRAMS};
use super::{clocked, thousands, watched};

pub const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
/// The names of the programs to run, separated by commas; all if it is not set.
const ONLY: &str = "PROBE_BENCH_ONLY";
/// Other programs that call `init_from_env`, in place of all programs here:
/// `NAME=COMMAND ARGUMENTS`, separated by `;`. `{}` in an argument stands for an amount of work.
const OTHERS: &str = "PROBE_BENCH_PROGRAM";
/// The amount of work of those programs.
const WORK: &str = "PROBE_BENCH_WORK";
/// A factor for the work of a quarter of a second.
const LONGER: &str = "PROBE_BENCH_LONGER";

/// A program, and an amount of work.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: String,
    pub work: u64,
    /// The program takes part in one round of this many.
    pub every: u64,
    pub threads: u64,
    how: Launch,
}

#[derive(Clone, Debug)]
enum Launch {
    /// Compiled with `watched.rs`.
    Watched { program: PathBuf, input: PathBuf },
    /// Controlled by the variable `PROBES`.
    Asked { command: Vec<String> },
}

/// The consumer of a run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Watch<'a> {
    /// One of the words of `watched.rs`.
    pub by: &'a str,
    /// Selects the probes; all of the program if `None`.
    pub probes: Option<&'a str>,
    /// The budget in percent; the default if `None`.
    pub budget: Option<&'a str>,
}

impl Workload {
    /// Returns the rows of a run.
    pub fn show(&self, watch: Watch<'_>) -> Rows {
        let report = Path::new(ROOT).join(format!("coverage-{}.csv", std::process::id()));
        let mut command = self.command(watch);
        command.env("PROBES_OUT", &report);
        let output = command.output().expect("the program can be started");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        match self.how {
            Launch::Watched { .. } => rows(&String::from_utf8_lossy(&output.stdout)),
            Launch::Asked { .. } => from_csv(&fs::read_to_string(report).expect("a report")),
        }
    }

    /// Returns the functions of a run with their shares of the CPU time and the errors, the largest
    /// first.
    pub fn shares(&self, watch: Watch<'_>) -> Vec<(String, f64, f64)> {
        let mut command = self.command(watch);
        let output = command.output().expect("the program can be started");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let row = |line: &str| {
            let mut cells = line.split('\t');
            let name = cells.next()?.to_owned();
            Some((name, cells.next()?.parse().ok()?, cells.next()?.parse().ok()?))
        };
        String::from_utf8_lossy(&output.stdout).lines().filter_map(row).collect()
    }

    /// Returns the cost of a run that prints nothing, but still makes the report's text.
    pub fn cost(&self, watch: Watch<'_>) -> Cost {
        let mut command = self.command(watch);
        command.env(watched::QUIET, "1").stdout(Stdio::null());
        if matches!(self.how, Launch::Asked { .. }) {
            command.stderr(Stdio::null());
        }
        cost::run(&mut command)
    }

    /// Returns the same program on this many threads, each with its part of the work.
    pub fn on(&self, threads: u64) -> Self {
        Self { threads, ..self.clone() }
    }

    /// Returns a program with a tenth of the work, if its work is variable.
    pub fn taste(&self) -> Self {
        let work = if self.is_scaled() { self.work.div_ceil(10) } else { self.work };
        Self { work, ..self.clone() }
    }

    /// Returns whether the caller of its functions has a clock.
    pub fn is_clocked(&self) -> bool {
        PROGRAMS.iter().any(|it| it.name == self.name && it.is_clocked())
    }

    /// Returns the name in figures.
    pub fn label(&self) -> String {
        if self.threads == 1 { self.name.clone() } else { format!("{}_{}t", self.name, self.threads) }
    }

    /// Returns whether the amount of work is variable.
    pub fn is_scaled(&self) -> bool {
        match &self.how {
            Launch::Watched { .. } => true,
            Launch::Asked { command } => command.iter().any(|it| it.contains("{}")),
        }
    }

    fn command(&self, Watch { by, probes, budget }: Watch<'_>) -> Command {
        match &self.how {
            Launch::Watched { program, input } => {
                let mut command = Command::new(program);
                command.env(watched::VARIABLE, by).env(watched::THREADS, self.threads.to_string());
                command.args([self.name.as_str(), &self.work.to_string()]).arg(input);
                command.envs(probes.map(|it| (watched::PROBES, it)));
                // This process's own budget does not apply to the runs.
                command.env_remove(watched::BUDGET).envs(budget.map(|it| (watched::BUDGET, it)));
                command
            }
            Launch::Asked { command: words } => {
                let mut words = words.iter().map(|it| it.replace("{}", &self.work.to_string()));
                let mut command = Command::new(words.next().expect("a program"));
                command.args(words).env_remove("PROBES").env_remove("PROBES_OUT");
                let budget = budget.map_or_else(String::new, |it| format!("budget={it}%, "));
                let consumer = match by {
                    watched::LATENT => return command,
                    watched::TIME => "latency(text=open)".to_owned(),
                    watched::PROFILE => format!("profile({budget}text=open)"),
                    other => format!("{other}(text=open)"),
                };
                command.env("PROBES", format!("{}={consumer}", probes.unwrap_or("**")));
                command
            }
        }
    }
}

/// Builds the requested programs with their inputs. The smoke test leaves out those that take long
/// to build, and the others do a tenth of the work.
pub fn workloads(scale: Scale) -> Vec<Workload> {
    if let Ok(others) = env::var(OTHERS) {
        return others.split(';').map(other).collect();
    }
    let only = env::var(ONLY).ok();
    let is_asked = |name: &str| only.as_ref().is_none_or(|it| it.split(',').any(|it| it.trim() == name));
    let this = env::current_exe().expect("a program knows its path");
    let longer = env::var(LONGER).map_or(1, |it| it.parse().expect("a number"));
    let workload = |name: &str, program: &Path, work: u64, every, input: Input| Workload {
        name: name.to_owned(),
        work: if scale == Scale::Full { longer * work } else { work.div_ceil(10) },
        every,
        threads: 1,
        how: Launch::Watched { program: program.to_owned(), input: file(input) },
    };
    let is_small = |it: &&super::program::Program| scale == Scale::Full || it.every == 1 && !it.is_large;
    let programs = PROGRAMS.iter().filter(is_small).filter(|it| is_asked(it.name));
    let programs = programs.map(|it| workload(it.name, &this, it.work, it.every, it.input));
    let driven = if scale == Scale::Full { &DRIVEN[..] } else { &[DEFLATE][..] };
    let root = Path::new(ROOT).join("coverage");
    let driven = driven.iter().filter(|it| is_asked(it.name));
    let driven = driven.map(|it| workload(it.name, &it.build(&root), it.work, 1, it.input));
    let known = ALL.iter().filter(|it| is_asked(it.name));
    let known = known.map(|it| workload(it.name, &this, 3 * it.work, 1, Input::None));
    programs.chain(driven).chain(known).collect()
}

/// Returns the numbers that a variable lists, separated by commas.
pub fn listed<T: FromStr>(variable: &str, default: &str) -> Vec<T> {
    let text = env::var(variable).unwrap_or_else(|_| default.to_owned());
    let number = |it: &str| it.trim().trim_end_matches('%').parse().ok();
    let numbers: Option<_> = text.split(',').map(number).collect();
    numbers.unwrap_or_else(|| panic!("{variable}: numbers, with commas between"))
}

fn other(text: &str) -> Workload {
    let (name, command) =
        text.split_once('=').unwrap_or_else(|| panic!("{OTHERS}: NAME=COMMAND, not {text}"));
    let command: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
    let work = env::var(WORK).map_or(1, |it| it.parse().expect("an amount"));
    Workload { name: name.trim().to_owned(), work, every: 1, threads: 1, how: Launch::Asked { command } }
}

/// Returns the file that a program reads or loads.
fn file(input: Input) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    match input {
        Input::None | Input::Clocked(None) => PathBuf::new(),
        Input::Text => joined(&repository.join("probe-runtime/src"), "rs"),
        Input::Prose => joined(&repository.join("docs"), "md"),
        Input::Sqlite => SQLITE.build(ROOT, Way::EntryReturn).library,
        Input::Clocked(Some(way)) => clocked::IN_C.build(ROOT, way).library,
        Input::Functions(functions) => thousands::build(Path::new(ROOT), functions),
    }
}

/// Joins all files of a folder with this extension into one file.
fn joined(folder: &Path, ending: &str) -> PathBuf {
    fn add_to(all: &mut String, folder: &Path, ending: &str) {
        let entries = fs::read_dir(folder).expect("a folder of the repository");
        let mut paths: Vec<_> = entries.map(|it| it.expect("an entry").path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                add_to(all, &path, ending);
            } else if path.extension().is_some_and(|it| it == ending) {
                all.push_str(&fs::read_to_string(&path).expect("text"));
            }
        }
    }
    let mut all = String::new();
    add_to(&mut all, folder, ending);
    let file = Path::new(ROOT).join(format!("coverage-{ending}.txt"));
    fs::write(&file, all).expect("a file for the text");
    file
}
