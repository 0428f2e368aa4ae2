//! Two runs' functions beside each other.

use std::collections::HashMap;

use serde::Serialize;

use crate::measured::FunctionRow;

/// One function in both runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Its path.
    pub function: String,
    /// Calls before and after.
    pub calls: [u64; 2],
    /// Mean times in nanoseconds, before and after.
    #[serde(rename = "means_ns")]
    pub means: [f64; 2],
    /// The change of the mean, as a part of the mean before.
    pub change: f64,
    /// Half the width of the change's interval of 95 % confidence; `None` with too few calls.
    pub error: Option<f64>,
}

/// All functions of two runs.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Compared {
    /// Those with calls in both, the slowed ones first: by the change that is certain.
    pub rows: Vec<Comparison>,
    /// Paths of those that ended calls in the first run only.
    pub only_before: Vec<String>,
    /// Paths of those that ended calls in the second run only.
    pub only_after: Vec<String>,
}

/// Compares two runs.
pub fn compare(before: &[FunctionRow], after: &[FunctionRow]) -> Compared {
    let called =
        |rows: &[FunctionRow]| -> Vec<_> { rows.iter().filter(|row| row.calls != 0).cloned().collect() };
    let (before, after) = (called(before), called(after));
    let mut afters: HashMap<&str, &FunctionRow> =
        after.iter().map(|row| (row.function.as_str(), row)).collect();
    let mut compared = Compared::default();
    for row in &before {
        match afters.remove(row.function.as_str()) {
            Some(other) => compared.rows.push(Comparison::of(row, other)),
            None => compared.only_before.push(row.function.clone()),
        }
    }
    let known = |row: &&FunctionRow| afters.contains_key(row.function.as_str());
    compared.only_after = after.iter().filter(known).map(|row| row.function.clone()).collect();
    compared
        .rows
        .sort_by(|a, b| b.certain(1.0).total_cmp(&a.certain(1.0)).then_with(|| a.function.cmp(&b.function)));
    compared
}

impl Comparison {
    fn of(before: &FunctionRow, after: &FunctionRow) -> Self {
        // A call of no time at all has no change that is a part of it.
        let base = before.mean_ns.max(1.0);
        let ratio = after.mean_ns / base;
        let error = |row: &FunctionRow| row.error_ns.map(|error| error / base);
        let error = error(before).zip(error(after));
        Self {
            function: before.function.clone(),
            calls: [before.calls, after.calls],
            means: [before.mean_ns, after.mean_ns],
            change: (after.mean_ns - before.mean_ns) / base,
            error: error.map(|(before, after)| after.hypot(ratio * before)),
        }
    }

    /// Returns the part of the change beyond its error, with the error so many times as wide. It is
    /// positive for a slower function, negative for a faster one.
    fn certain(&self, wider: f64) -> f64 {
        let error = wider * self.error.unwrap_or(f64::INFINITY);
        if self.change > 0.0 { (self.change - error).max(0.0) } else { (self.change + error).min(0.0) }
    }
}

impl Compared {
    /// Returns whether a function is slower by more than this part, its error subtracted.
    ///
    /// Where many functions are compared, some exceed their errors by chance. So errors are wider
    /// here, by as much as keeps 95 of 100 comparisons of equal runs without a finding.
    pub fn is_slower(&self, row: &Comparison, limit: f64) -> bool {
        let known = self.rows.iter().filter(|row| row.error.is_some()).count();
        row.certain(wider(known)) > limit
    }
}

/// Returns by how much errors of 95 % have to be wider for so many comparisons at once: the ratio
/// of the normal distribution's quantiles, from above.
fn wider(comparisons: usize) -> f64 {
    const ALONE: f64 = 1.96;
    ALONE.hypot((2.0 * (comparisons.max(1) as f64).ln()).sqrt()) / ALONE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: &str, calls: u64, mean: f64, error: Option<f64>) -> FunctionRow {
        FunctionRow {
            function: function.to_owned(),
            calls,
            unfinished: 0,
            total_ns: 0,
            self_ns: 0,
            mean_ns: mean,
            error_ns: error,
            p50_ns: 0,
            p99_ns: 0,
            max_ns: 0,
        }
    }

    #[test]
    fn changes_have_the_errors_of_both_runs() {
        let before = [
            row("same", 10, 100.0, Some(1.0)),
            row("slower", 10, 100.0, Some(3.0)),
            row("few", 3, 100.0, None),
            row("gone", 10, 100.0, None),
            row("faster", 10, 200.0, Some(0.0)),
        ];
        let after = [
            row("few", 3, 300.0, Some(1.0)),
            row("faster", 20, 100.0, Some(2.0)),
            row("slower", 10, 200.0, Some(8.0)),
            row("same", 10, 100.5, Some(1.0)),
            row("new", 1, 1.0, None),
            row("never", 0, 0.0, None),
        ];
        let compared = compare(&before, &after);
        let rows: Vec<_> =
            compared.rows.iter().map(|row| (row.function.as_str(), row.change, row.error)).collect();
        // 10 % is the hypotenuse of 8 % and of twice 3 %.
        assert_eq!(rows[0], ("slower", 1.0, Some(0.1)));
        assert_eq!(rows[1], ("few", 2.0, None));
        assert_eq!((rows[2].0, rows[3]), ("same", ("faster", -0.5, Some(0.01))));
        assert_eq!((compared.only_before, compared.only_after), (vec!["gone".into()], vec!["new".into()]));
    }

    #[test]
    fn only_what_is_certain_is_a_finding() {
        let before = [row("a", 10, 100.0, Some(0.0)), row("few", 3, 100.0, None)];
        let after = [row("a", 10, 120.0, Some(5.0)), row("few", 3, 900.0, None)];
        let compared = compare(&before, &after);
        let found = |limit: f64| compared.rows.iter().filter(|row| compared.is_slower(row, limit)).count();
        assert_eq!([0.0, 0.149, 0.151].map(found), [1, 1, 0]);
    }

    #[test]
    fn errors_are_wider_for_many_comparisons() {
        // Quantiles of 1 - 0.025 / n by a table, over 1.96.
        for (comparisons, exact) in [(1, 1.0), (10, 2.807 / 1.96), (100, 3.481 / 1.96), (1000, 4.056 / 1.96)]
        {
            let wider = wider(comparisons);
            assert!((exact..exact * 1.05).contains(&wider), "{comparisons}: {wider} for {exact}");
        }
    }
}
