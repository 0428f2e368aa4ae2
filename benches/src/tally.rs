//! Compares the rows of a profiler with the truth: [calls](CallAccuracy) and
//! [times](times::Times).

mod interval;
mod rows;
pub mod times;

use crate::{figure, median};

pub use interval::Interval;
pub use rows::{Kind, Rows, Shown, Time, from_csv, rows};

/// The percentage that two standard errors promise.
pub const PROMISED: f64 = 95.0;
/// A function with more calls than this should be shown.
const MANY: u64 = 1_000;

/// The comparison of all runs of one program with the truth.
#[derive(Default, Debug)]
pub struct CallAccuracy {
    runs: usize,
    shown: usize,
    exact: usize,
    /// Rows shown as exact whose true number differs.
    wrong: usize,
    /// Lower bounds, relative to the truth: a weak bound is far below 1.
    bounds: Vec<f64>,
    /// Lower bounds that exceed the truth.
    above: usize,
    /// Estimates with the truth within the error.
    covered: usize,
    /// The error of each estimate, relative to the truth.
    off: Vec<f64>,
    /// Estimates that are off by more than a factor of two.
    far: usize,
    /// Functions of many calls that were not shown.
    unseen: usize,
    /// Calls of functions that were shown as exact, and of all functions.
    calls: (u64, u64),
}

impl CallAccuracy {
    /// Adds a run.
    pub fn add(&mut self, truth: &Rows, shown: &Rows) {
        self.runs += 1;
        self.shown += shown.len();
        for (name, Shown { calls, error, kind, .. }) in shown {
            let truth = truth.get(name).map_or(0, |it| it.calls);
            match kind {
                Kind::Exact | Kind::Recursive => {
                    self.exact += 1;
                    self.wrong += usize::from(*calls != truth);
                    self.calls.0 += truth;
                }
                Kind::AtLeast => {
                    self.bounds.push(*calls as f64 / truth as f64);
                    self.above += usize::from(*calls > truth);
                }
                Kind::Estimated => {
                    self.covered += usize::from(calls.abs_diff(truth) <= *error);
                    self.off.push(calls.abs_diff(truth) as f64 / truth as f64);
                    self.far += usize::from(*calls > 2 * truth || truth > 2 * *calls);
                }
            }
        }
        self.calls.1 += truth.values().map(|it| it.calls).sum::<u64>();
        let is_unseen = |(name, it): &(&String, &Shown)| it.calls > MANY && !shown.contains_key(*name);
        self.unseen += truth.iter().filter(is_unseen).count();
    }

    /// Returns whether a run was added.
    pub fn has_runs(&self) -> bool {
        self.runs > 0
    }

    /// Returns the percentage of all rows with the truth in their interval; NaN if there are none.
    pub fn covered(&self) -> f64 {
        percent(self.covered + self.exact - self.wrong + self.bounds.len() - self.above, self.shown)
    }

    /// Prints the figures: all rows, then estimates alone, if there are any.
    pub fn print_figures(&self, program: &str) {
        let print = |of: &str, covered: f64| {
            let (name, baseline) = (format!("profiler_{program}_{of}"), format!("the promised {PROMISED} %"));
            figure(&name, format_args!("{covered:.1}"), "%", covered / PROMISED, &baseline);
        };
        if self.shown > 0 {
            print("covered", self.covered());
        }
        if !self.off.is_empty() {
            print("covered_estimates", percent(self.covered, self.off.len()));
        }
    }

    /// The heading of the rows that [`print`](Self::print) prints.
    pub const HEADING: &str = "program          runs  rows covered % | exact % of calls % wrong % | \
                               estimates: covered %  median off %  > 2x off % | bounds % wrong %  of truth % | unseen";

    /// Prints a row under [`HEADING`](Self::HEADING). Numbers of rows and unseen functions are
    /// averages over the runs.
    pub fn print(&self, program: &str) {
        let a_run = |number| percent(number, self.runs) / 100.0;
        let of_estimates = |number| shown(percent(number, self.off.len()), self.off.len());
        let middle = |values: &Vec<f64>| if values.is_empty() { 0.0 } else { 100.0 * median(values.clone()) };
        let (off, reached) = (middle(&self.off), middle(&self.bounds));
        println!(
            "{program:<16} {:>4} {:>5.0} {:>9.1} | {:>7.1} {:>10.1} {:>7} | {:>20} {:>13} {:>10} | {:>8.1} {:>7} {:>11} | {:>6.1}",
            self.runs,
            a_run(self.shown),
            self.covered(),
            percent(self.exact, self.shown),
            100.0 * self.calls.0 as f64 / self.calls.1 as f64,
            shown(percent(self.wrong, self.exact), self.exact),
            of_estimates(self.covered),
            shown(off, self.off.len()),
            of_estimates(self.far),
            percent(self.bounds.len(), self.shown),
            shown(percent(self.above, self.bounds.len()), self.bounds.len()),
            shown(reached, self.bounds.len()),
            a_run(self.unseen),
        );
    }
}

fn percent(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of as f64
}

/// Formats a percentage of a number of rows; `-` if the number is 0.
fn shown(percent: f64, of: usize) -> String {
    if of == 0 { "-".to_owned() } else { format!("{percent:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(lines: &str) -> Rows {
        rows(&lines.replace('\n', "\t-\t-\t-\t-\t-\t-\n"))
    }

    #[test]
    fn rows_are_compared_with_the_truth() {
        let truth = calls(
            "a\t7\t0\texact\nb\t2000\t0\texact\nc\t500\t0\texact\n\
             d\t1001\t0\texact\ne\t1000\t0\texact\nf\t90\t0\texact\n",
        );
        let mut accuracy = CallAccuracy::default();
        // Exact; just within the error; too low by more than half; not shown, with many calls and
        // with few; exact, but wrong.
        accuracy.add(
            &truth,
            &calls("a\t7\t0\texact\nb\t1900\t100\testimated\nc\t249\t250\testimated\nf\t91\t0\texact\n"),
        );
        // Never called; exactly twice the truth, which is not more than twice; bounds below and
        // above the truth.
        accuracy.add(
            &truth,
            &calls(
                "g\t3\t2\testimated\nc\t1000\t10\testimated\nb\t2000\t0\texact\nd\t1001\t0\texact\n\
                 e\t1000\t0\tat least\nf\t91\t0\tat least\n",
            ),
        );
        assert!((accuracy.covered() - 50.0).abs() < 1e-9);
        let CallAccuracy { runs, shown, exact, wrong, bounds, above, covered, off, far, unseen, calls } =
            accuracy;
        assert_eq!((runs, shown, exact, wrong, covered, far, unseen), (2, 10, 4, 1, 1, 2, 1));
        assert_eq!(bounds, [1.0, 91.0 / 90.0]);
        assert_eq!((above, calls), (1, (7 + 90 + 2000 + 1001, 2 * 4598)));
        assert_eq!(off, [0.05, 0.502, 1.0, f64::INFINITY]);
    }
}
