//! The calls that a profiler shows, beside the truth.

use std::collections::BTreeMap;

use crate::{figure, median};

/// What two standard errors promise.
const PROMISED: f64 = 95.0;
/// A function that is called more often than this is to be shown.
const MANY: u64 = 1_000;

/// The calls of a function as shown, and their error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// As estimated, or counted.
    pub calls: u64,
    /// 0 where they are exact.
    pub error: u64,
}

/// What a run has shown, by function.
pub type Rows = BTreeMap<String, Shown>;

/// Lines of a name, its calls and their error, with tabs between.
///
/// # Panics
/// If they are no such lines, or name a function twice.
pub fn rows(text: &str) -> Rows {
    let mut rows = Rows::new();
    for line in text.lines() {
        let [name, calls, error] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let number = |it: &str| it.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        let shown = Shown { calls: number(calls), error: number(error) };
        assert!(rows.insert(name.to_owned(), shown).is_none(), "{name} is shown twice");
    }
    rows
}

/// How all runs of one program compare with the truth.
#[derive(Default, Debug)]
pub struct Tally {
    runs: usize,
    shown: usize,
    exact: usize,
    /// Shown as exact, though the truth is another number.
    wrong: usize,
    /// Not exact, and the truth is within the error.
    covered: usize,
    /// How far off each estimate is that is not exact, as a part of the truth.
    off: Vec<f64>,
    /// Not exact, and off by more than a factor of two.
    far: usize,
    /// Functions of many calls that were not shown.
    unseen: usize,
}

impl Tally {
    /// Adds a run.
    #[expect(clippy::cast_precision_loss, reason = "far fewer calls than 2^52")]
    pub fn add(&mut self, truth: &Rows, shown: &Rows) {
        self.runs += 1;
        self.shown += shown.len();
        for (name, Shown { calls, error }) in shown {
            let truth = truth.get(name).map_or(0, |it| it.calls);
            if *error == 0 {
                self.exact += 1;
                self.wrong += usize::from(*calls != truth);
                continue;
            }
            self.covered += usize::from(calls.abs_diff(truth) <= *error);
            self.off.push(calls.abs_diff(truth) as f64 / truth as f64);
            self.far += usize::from(*calls > 2 * truth || truth > 2 * *calls);
        }
        let is_unseen = |(name, it): &(&String, &Shown)| it.calls > MANY && !shown.contains_key(*name);
        self.unseen += truth.iter().filter(is_unseen).count();
    }

    /// Whether a run was added.
    pub fn has_runs(&self) -> bool {
        self.runs > 0
    }

    /// Prints the figure, if there are estimates that are not exact.
    pub fn print_figure(&self, program: &str) {
        if !self.off.is_empty() {
            let covered = percent(self.covered, self.off.len());
            let (name, baseline) = (format!("coverage/{program}"), format!("the promised {PROMISED} %"));
            figure(&name, format_args!("{covered:.1}"), "%", covered / PROMISED, &baseline);
        }
    }

    /// Goes above the rows that [`print`](Self::print) prints.
    pub const HEADING: &str = "program       runs  rows  exact %  of these wrong %  covered %  median off %  \
                               off by > 2x %  unseen";

    /// Prints a row under [`HEADING`](Self::HEADING); rows and unseen functions are a run's, on average.
    pub fn print(&self, program: &str) {
        let a_run = |number| percent(number, self.runs) / 100.0;
        let of_estimates = |number| shown(percent(number, self.off.len()), self.off.len());
        let off = if self.off.is_empty() { 0.0 } else { 100.0 * median(self.off.clone()) };
        println!(
            "{program:<12} {:>5} {:>5.0} {:>8.1} {:>17} {:>10} {:>13} {:>14} {:>7.1}",
            self.runs,
            a_run(self.shown),
            percent(self.exact, self.shown),
            shown(percent(self.wrong, self.exact), self.exact),
            of_estimates(self.covered),
            shown(off, self.off.len()),
            of_estimates(self.far),
            a_run(self.unseen),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn percent(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of as f64
}

/// A percentage of so many; nothing where there are none.
fn shown(percent: f64, of: usize) -> String {
    if of == 0 { "-".to_owned() } else { format!("{percent:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_held_against_the_truth() {
        let truth = rows("a\t7\t0\nb\t2000\t0\nc\t500\t0\nd\t1001\t0\ne\t1000\t0\nf\t90\t0\n");
        let mut tally = Tally::default();
        // Exact; just within the error; too low by more than half; not shown, of many calls and of few; exact, and wrong.
        tally.add(&truth, &rows("a\t7\t0\nb\t1900\t100\nc\t249\t250\nf\t91\t0\n"));
        // Never called; twice the truth is not more than twice.
        tally.add(&truth, &rows("g\t3\t2\nc\t1000\t10\nb\t2000\t0\nd\t1001\t0\n"));
        let Tally { runs, shown, exact, wrong, covered, off, far, unseen } = tally;
        assert_eq!((runs, shown, exact, wrong, covered, far, unseen), (2, 8, 4, 1, 1, 2, 1));
        assert_eq!(off, [0.05, 0.502, 1.0, f64::INFINITY]);
    }

    #[test]
    #[should_panic(expected = "a is shown twice")]
    fn a_function_is_shown_once() {
        rows("a\t1\t0\na\t2\t0\n");
    }
}
