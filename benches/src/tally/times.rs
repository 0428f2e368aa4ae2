//! Compares a profiler's total times with exact ones of other runs.
//!
//! The machine's state differs between runs. So the true time is a median, and single runs vary
//! around it.

use std::collections::BTreeMap;

use super::rows::UNKNOWN;
use super::{Interval, PROMISED, Rows, Time, percent};
use crate::{figure, median};

/// The times of one function, from all runs.
#[derive(Default, Debug)]
struct FunctionTimes {
    /// Nanoseconds in each exact run, and the subtracted time for measuring.
    exact: Vec<(f64, f64)>,
    shown: Vec<Time>,
    means: Vec<Time>,
    calls: u64,
}

/// The functions of one program whose times are measured exactly; by name, and by whether these are
/// their own times.
#[derive(Default, Debug)]
pub struct Times(BTreeMap<(String, bool), FunctionTimes>);

/// The comparison of one function.
struct Compared {
    truth: f64,
    /// Two standard deviations of exact runs, as a part of the truth.
    spread: f64,
    /// Two standard errors of the truth, and half of the subtracted time.
    doubt: f64,
    /// The shown time, relative to the truth.
    ratio: Interval,
    within: usize,
    means_within: usize,
}

impl Times {
    /// Expects times of this function.
    pub fn expect(&mut self, name: &str) {
        self.0.entry((name.to_owned(), false)).or_default();
    }

    /// Returns the functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter(|(_, is_own)| !is_own).map(|(name, _)| name.as_str())
    }

    /// Adds an exact run.
    pub fn add_exact(&mut self, name: &str, calls: u64, time: Time) {
        self.add_truth((name, false), calls, time);
    }

    /// Adds the own time of an exact run.
    pub fn add_exact_own(&mut self, name: &str, calls: u64, time: Time) {
        self.add_truth((name, true), calls, time);
    }

    fn add_truth(&mut self, (name, is_own): (&str, bool), calls: u64, Time { value, error }: Time) {
        let function = self.0.entry((name.to_owned(), is_own)).or_default();
        function.exact.push((value as f64, error as f64));
        function.calls = calls;
    }

    /// Adds the times that a profiler has shown; functions without a time are skipped.
    pub fn add(&mut self, shown: &Rows) {
        for ((name, is_own), function) in &mut self.0 {
            let row = shown.get(name);
            function.shown.extend(row.and_then(|it| if *is_own { it.own } else { it.total }));
            function.means.extend(row.filter(|_| !is_own).and_then(|it| it.mean));
        }
    }

    /// Prints the figures: the share of times with the truth within their error, and how far off
    /// they are.
    pub fn print_figures(&self, program: &str) {
        let compared: Vec<_> = self.compared().collect();
        let shown = compared.iter().map(|(_, function, _)| function.shown.len()).sum();
        if shown == 0 {
            return;
        }
        let covered = percent(compared.iter().map(|(.., it)| it.within).sum(), shown);
        let promised = format!("the promised {PROMISED} %");
        let name = format!("profiler_{program}_times_covered");
        figure(&name, format_args!("{covered:.1}"), "%", covered / PROMISED, &promised);
        let ratio = median(compared.iter().map(|(.., it)| it.ratio.median).collect());
        let off = 100.0 * (ratio - 1.0);
        let name = format!("profiler_{program}_times");
        figure(&name, format_args!("{off:+.1}"), "% off in the median", ratio, "the truth");
    }

    /// The heading of the rows that [`print`](Self::print) prints.
    pub const HEADING: &str = "program              function                                  calls    ns a call  truth ± %  runs ± % | \
                               runs  of truth (95 in 100)    within % | means within %";

    /// Prints a row for each function under [`HEADING`](Self::HEADING).
    pub fn print(&self, program: &str) {
        for ((name, is_own), function, it) in self.compared() {
            let path = name.rsplit_once(' ').map_or(name, |(_, path)| path);
            let path = if is_own { format!("{path} (self)") } else { path.to_owned() };
            let end: String = path.chars().skip(path.chars().count().saturating_sub(36)).collect();
            println!(
                "{program:<20} {end:<36} {:>10} {:>11.1} {:>10.1} {:>9.1} | {:>4} {:>6.3} ({:.3} to {:.3}) {:>8.1} | {:>5} {:>8.1}",
                function.calls,
                it.truth / function.calls as f64,
                100.0 * it.doubt,
                100.0 * it.spread,
                function.shown.len(),
                it.ratio.median,
                it.ratio.low,
                it.ratio.high,
                percent(it.within, function.shown.len()),
                function.means.len(),
                percent(it.means_within, function.means.len()),
            );
        }
    }

    fn compared(&self) -> impl Iterator<Item = ((&str, bool), &FunctionTimes, Compared)> {
        let known = self.0.iter().filter(|(_, it)| it.exact.len() >= 3 && !it.shown.is_empty());
        known.map(|((name, is_own), it)| ((name.as_str(), *is_own), it, it.compared()))
    }
}

impl FunctionTimes {
    fn compared(&self) -> Compared {
        let middle = |values: Vec<f64>| Interval::of(values).median;
        let truth = middle(self.exact.iter().map(|it| it.0).collect());
        let added = middle(self.exact.iter().map(|it| it.1).collect());
        // As robust as the median, and equal to a normal distribution's: one disturbed run does not
        // affect the result.
        let off = middle(self.exact.iter().map(|it| (it.0 - truth).abs()).collect());
        let spread = 2.0 * 1.4826 * off;
        // The variance of a median is π/2 of the mean's.
        let of_runs = spread * (std::f64::consts::FRAC_PI_2 / self.exact.len() as f64).sqrt();
        let is_within = |it: Time, truth: f64, spread: f64| match it.error {
            UNKNOWN => it.value as f64 <= truth + spread,
            error => (it.value as f64 - truth).abs() <= (error as f64).hypot(spread),
        };
        let calls = self.calls as f64;
        Compared {
            truth,
            spread: spread / truth,
            doubt: of_runs.hypot(added / 2.0) / truth,
            ratio: Interval::of(self.shown.iter().map(|it| it.value as f64 / truth).collect()),
            within: self.shown.iter().filter(|it| is_within(**it, truth, spread)).count(),
            means_within: self
                .means
                .iter()
                .filter(|it| is_within(**it, truth / calls, spread / calls))
                .count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::rows;

    #[test]
    fn times_are_compared_with_the_median_of_exact_runs() {
        let mut times = Times::default();
        times.expect("f");
        times.expect("never measured");
        for value in [1_000, 990, 1_010, 5_000, 1_000] {
            times.add_exact("f", 10, Time { value, error: 20 });
        }
        times.add(&rows("f\t10\t0\texact\t1050\t50\t104\t3\t-\t-\ng\t1\t0\texact\t7\t0\t7\t0\t7\t0\n"));
        times.add(&rows("f\t10\t0\texact\t1100\t50\t108\t6\t800\t10\n"));
        times.add(&rows("f\t10\t0\texact\t-\t-\t-\t-\t-\t-\n"));
        // Lower bounds, one of them too high.
        times.add(&rows("f\t10\t0\texact\t1020\tinf\t-\t-\t-\t-\n"));
        times.add(&rows("f\t10\t0\texact\t1130\tinf\t-\t-\t-\t-\n"));
        let compared: Vec<_> = times.compared().collect();
        let [(name, function, it)] = &compared[..] else { panic!("one function") };
        assert_eq!((*name, function.shown.len(), it.within), (("f", false), 4, 2));
        assert_eq!((function.means.len(), it.means_within), (2, 1));
        // The median distance of the runs from the truth is 10.
        assert!((it.truth - 1_000.0).abs() < 1e-9 && (it.spread - 0.029_652).abs() < 1e-9);
        assert!((it.ratio.median - 1.075).abs() < 1e-9);
        let doubt = (0.029_652 * (std::f64::consts::FRAC_PI_2 / 5.0).sqrt()).hypot(0.01);
        assert!((it.doubt - doubt).abs() < 1e-9);
        // Own times have a truth of their own.
        (0..3).for_each(|_| times.add_exact_own("f", 10, Time { value: 700, error: 0 }));
        times.add(&rows("f\t10\t0\texact\t1000\t50\t100\t6\t705\t10\n"));
        let own = times.compared().find(|((_, is_own), ..)| *is_own).unwrap().2;
        assert_eq!((own.within, own.means_within), (1, 0));
    }
}
