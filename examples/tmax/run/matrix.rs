//! All combinations, each in a child process.

use std::env;
use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use super::args::Plan;
use super::trial::{Across, Delay, Protocol, Seen, Trial, Visibility};

/// The results of one wait.
#[derive(Clone, Debug)]
pub struct Row {
    /// The wait.
    pub delay: Delay,
    /// One result for each split, in the plan's order.
    pub splits: Vec<Cell>,
}

/// The results of one wait and split, with one run for each number of executors.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cell {
    /// Runs that crashed, hung, or saw a wrong value.
    pub failed: usize,
    /// Failed runs that never ended.
    pub stuck: usize,
    /// Wrong values in the runs that did not crash.
    pub wrong: u64,
    /// Toggles in the runs that did not crash.
    pub toggles: u64,
    /// The visibility in the first run, if it did not crash and there is another processor.
    pub visibility: Option<Visibility>,
}

impl Row {
    /// Returns the number of failed runs, over all splits.
    pub fn failed(&self) -> usize {
        self.splits.iter().map(|cell| cell.failed).sum()
    }

    /// Returns the median of the medians, and the greatest of the other figures.
    pub fn visibility(&self) -> Option<Visibility> {
        let mut all: Vec<_> = self.splits.iter().filter_map(|cell| cell.visibility).collect();
        all.sort_unstable_by_key(|one| one.median);
        let greatest = |part: fn(&Visibility) -> u64| all.iter().map(part).max();
        Some(Visibility {
            median: all.get(all.len() / 2)?.median,
            p99: greatest(|one| one.p99)?,
            p999: greatest(|one| one.p999)?,
            max: greatest(|one| one.max)?,
        })
    }
}

impl Cell {
    /// Returns the wrong values per toggle.
    pub fn wrong_per_toggle(&self) -> f64 {
        self.wrong as f64 / self.toggles.max(1) as f64
    }

    fn add(&mut self, run: Ended, toggles: u64) {
        match run {
            Ended::Well(seen) => {
                self.failed += usize::from(seen.wrong != 0);
                self.wrong += seen.wrong;
                self.toggles += toggles;
                self.visibility = self.visibility.or(seen.visibility);
            }
            Ended::Crashed => self.failed += 1,
            Ended::Stuck => {
                self.failed += 1;
                self.stuck += 1;
            }
        }
    }
}

/// The end of a child.
#[derive(Clone, Copy)]
enum Ended {
    Well(Seen),
    /// It executed an instruction that neither state contains.
    Crashed,
    Stuck,
}

/// Runs one wait with every split and number of executors. `progress` gets the number of runs done,
/// and of all runs.
pub fn row(plan: &Plan, delay: Delay, progress: impl Fn(usize, usize)) -> Result<Row, Box<dyn Error>> {
    let (all, mut done) = (plan.splits.len() * plan.executors.len(), 0);
    let mut splits = Vec::new();
    for &split in &plan.splits {
        let mut cell = Cell::default();
        for (nth, &executors) in plan.executors.iter().enumerate() {
            // One executor suffices, so only the first run measures this; it needs another
            // processor.
            let samples = if nth == 0 && probe_benches::processors() > 1 { plan.samples } else { 0 };
            let (across, protocol, toggles) = (plan.across, plan.protocol, plan.toggles);
            let trial = Trial { split, across, protocol, delay, executors, toggles, samples };
            progress(done, all);
            cell.add(child(&trial)?, toggles);
            done += 1;
        }
        splits.push(cell);
    }
    progress(all, all);
    Ok(Row { delay, splits })
}

/// Measures the time until one bare store to an aligned instruction is seen.
pub fn reference(plan: &Plan) -> Result<Option<Visibility>, Box<dyn Error>> {
    let trial = Trial {
        split: 0,
        across: Across::Nothing,
        protocol: Protocol::Bare,
        delay: Delay::Ticks(0),
        executors: 1,
        toggles: 0,
        samples: 20 * plan.samples,
    };
    match child(&trial)? {
        Ended::Well(seen) => Ok(seen.visibility),
        Ended::Crashed | Ended::Stuck => {
            Err("an aligned instruction can't be replaced by one store on this machine".into())
        }
    }
}

fn child(trial: &Trial) -> Result<Ended, Box<dyn Error>> {
    let output = Command::new(env::current_exe()?).arg("--child").arg(trial.to_string()).output()?;
    ended(&output).map_err(|error| format!("the run {trial}: {error}").into())
}

fn ended(output: &Output) -> Result<Ended, String> {
    match (output.status.signal(), output.status.success()) {
        (Some(libc::SIGILL | libc::SIGSEGV | libc::SIGTRAP | libc::SIGBUS), _) => Ok(Ended::Crashed),
        (Some(libc::SIGPROF), _) => Ok(Ended::Stuck),
        (None, true) => String::from_utf8_lossy(&output.stdout).parse().map(Ended::Well),
        _ => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}; {}", output.status, stderr.trim().trim_start_matches("tmax: ")))
        }
    }
}
