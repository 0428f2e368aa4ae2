//! Compares the functions of two runs.

use std::collections::HashMap;

use serde::Serialize;

use super::durations::{Spread, pooled_quantile};
use super::functions::FunctionRow;

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
    /// The figures that became worse by more than the limit, their errors subtracted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub worse: Vec<Worse>,
    #[serde(skip)]
    spreads: Option<[Spread; 2]>,
}

/// A figure that became worse.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "figure", rename_all = "kebab-case")]
pub enum Worse {
    /// The mean time.
    Mean {
        /// Nanoseconds before.
        before_ns: f64,
        /// Nanoseconds after.
        after_ns: f64,
    },
    /// The time that half of the calls don't exceed.
    P50 {
        /// Nanoseconds before.
        before_ns: u64,
        /// Nanoseconds after.
        after_ns: u64,
    },
    /// The time that 99 of 100 calls don't exceed.
    P99 {
        /// Nanoseconds before.
        before_ns: u64,
        /// Nanoseconds after.
        after_ns: u64,
    },
    /// Calls that last far longer than nearly all others of both runs.
    RareCalls {
        /// The time that they exceed, in nanoseconds.
        over_ns: u64,
        /// Parts of the first run that have such calls, of those that it has.
        before: [u64; 2],
        /// The same, of the second run.
        after: [u64; 2],
    },
}

/// All functions of two runs.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Compared {
    /// Functions with calls in both runs, by the part of their change that is certain: the slowed
    /// ones first.
    pub rows: Vec<Comparison>,
    /// Paths of functions that ended calls in the first run only.
    pub only_before: Vec<String>,
    /// Paths of functions that ended calls in the second run only.
    pub only_after: Vec<String>,
}

/// Compares two runs. With a limit, as a fraction, finds the figures that became slower by more.
pub fn compare(before: &[FunctionRow], after: &[FunctionRow], limit: Option<f64>) -> Compared {
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
    compared.rows.sort_by(|a, b| {
        b.certain_change(1.0).total_cmp(&a.certain_change(1.0)).then_with(|| a.function.cmp(&b.function))
    });
    if let Some(limit) = limit {
        compared.find_worse(limit);
    }
    compared
}

impl Comparison {
    fn of(before: &FunctionRow, after: &FunctionRow) -> Self {
        // A time of zero has no relative change.
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
            worse: Vec::new(),
            spreads: before.spread.clone().zip(after.spread.clone()).map(<[_; 2]>::from),
        }
    }

    /// Returns the part of the change beyond its error, after the error is multiplied by
    /// `widening`. It is positive for a slower function, negative for a faster one.
    fn certain_change(&self, widening: f64) -> f64 {
        let error = widening * self.error.unwrap_or(f64::INFINITY);
        if self.change > 0.0 { (self.change - error).max(0.0) } else { (self.change + error).min(0.0) }
    }
}

impl Compared {
    /// Finds the figures that became worse by more than this fraction, their errors subtracted.
    ///
    /// Where many figures are compared, some exceed their errors by chance. So errors are widened,
    /// by as much as keeps 95 of 100 comparisons of equal runs without a finding. Of the other
    /// five, means and quantiles get one, and rare calls four, since their numbers are small. Rare
    /// calls are tested only in functions that have enough of them for a finding (Tarone, 1990),
    /// and once where a call and those around it are long together.
    fn find_worse(&mut self, limit: f64) {
        let known = self.rows.iter().filter(|row| row.error.is_some()).count() as f64;
        let of_figures = widening(FIGURES_PER_FUNCTION * known * 2.5);
        let rare: Vec<_> = self.rows.iter().map(|row| row.spreads.as_ref().and_then(RareCalls::of)).collect();
        let all_after = |it: &RareCalls| RareCalls { before: 0.0, after: it.before + it.after, ..*it };
        let mut found: Vec<_> =
            rare.iter().flatten().filter(|it| all_after(it).excess() > Z_95).copied().collect();
        found.sort_by(|a, b| a.time.total_cmp(&b.time));
        found.dedup_by(|next, kept| {
            (next.before, next.after) == (kept.before, kept.after) && next.time < SAME_EVENT_RATIO * kept.time
        });
        let of_rare = widening(found.len() as f64 * 2.5 / 4.0);
        for (row, rare) in self.rows.iter_mut().zip(rare) {
            let [before_ns, after_ns] = row.means;
            if row.certain_change(of_figures) > limit {
                row.worse.push(Worse::Mean { before_ns, after_ns });
            }
            let Some(spreads) = &row.spreads else { continue };
            if let Some([before_ns, after_ns]) = slower_quantile(spreads, 0.5, Z_95 * of_figures, limit) {
                row.worse.push(Worse::P50 { before_ns, after_ns });
            }
            if let Some([before_ns, after_ns]) = slower_quantile(spreads, 0.99, Z_95 * of_figures, limit) {
                row.worse.push(Worse::P99 { before_ns, after_ns });
            }
            let Some(rare) = rare else { continue };
            // The number of rare calls that reaches the limit.
            let allowed = limit * before_ns.max(1.0) * row.calls[1] as f64 / rare.time;
            if rare.excess().min(rare.excess_over(allowed)) > Z_95 * of_rare {
                row.worse.push(rare.worse(spreads));
            }
        }
    }
}

/// Figures of each function: the mean, and two quantiles.
const FIGURES_PER_FUNCTION: f64 = 3.0;
/// Greatest ratio of the times of a long call and of those around it.
const SAME_EVENT_RATIO: f64 = 1.2;
/// The two-sided quantile of the normal distribution for 95 %.
const Z_95: f64 = 1.96;

/// Returns a quantile's times before and after, if it became slower by more than the limit and this
/// number of standard errors.
fn slower_quantile([before, after]: &[Spread; 2], part: f64, errors: f64, limit: f64) -> Option<[u64; 2]> {
    let (_, of_before, high) = before.bounds(part, errors);
    let (low, of_after, _) = after.bounds(part, errors);
    let ratio = |one: u64, other: u64| (one.max(1) as f64 / other.max(1) as f64).ln();
    let error = ratio(high?, of_before).hypot(ratio(of_after, low?));
    (ratio(of_after, of_before) - error > limit.ln_1p()).then_some([of_before, of_after])
}

/// Added to a count before its root is taken, so that roots of small counts are nearly normal.
const ANSCOMBE_SHIFT: f64 = 0.375;

/// Rare calls of two runs that last far longer than nearly all others.
#[derive(Clone, Copy)]
struct RareCalls {
    /// The time that they exceed.
    over: f64,
    /// Numbers of parts of both runs that have such calls. Calls that follow each other are late
    /// for one reason.
    before: f64,
    after: f64,
    /// The expected number of such parts in the second run, for one in the first, if nothing has
    /// changed.
    ratio: f64,
    /// The time of such calls in a part of the second run that has any.
    time: f64,
}

impl RareCalls {
    /// Finds the rare calls; `None` if the second run has none.
    fn of([before, after]: &[Spread; 2]) -> Option<Self> {
        /// The ratio of the times of rare calls to nearly all others.
        const FAR: f64 = 10.0;
        let over = FAR * pooled_quantile(before, after, 0.99) as f64;
        let (parts, time) = after.beyond(over);
        let calls = |spread: &Spread| spread.times_ns.iter().map(|it| it.1).sum::<u64>() as f64;
        let all = |spread: &Spread| spread.slowest_ns.len() as f64;
        let few = before.beyond(over).0;
        // A part of a longer run has more calls, and fills up: two such calls in it are one part.
        let longer = (calls(after) / all(after)) / (calls(before) / all(before));
        let has_none = 1.0 - ((few + ANSCOMBE_SHIFT) / all(before)).min(1.0);
        let expected = all(after) * (1.0 - has_none.powf(longer));
        (parts > 0.0).then(|| Self {
            over,
            before: few,
            after: parts,
            ratio: expected / (few + ANSCOMBE_SHIFT),
            time: time / parts,
        })
    }

    /// Returns by how many standard errors their number has grown: a test of two Poisson rates,
    /// with variances made equal by roots (Gu and others, 2008).
    fn excess(&self) -> f64 {
        let expected = self.ratio * (self.before + ANSCOMBE_SHIFT);
        2.0 * ((self.after + ANSCOMBE_SHIFT).sqrt() - expected.sqrt()) / (1.0 + self.ratio).sqrt()
    }

    /// The same, for the growth beyond a known number.
    fn excess_over(&self, allowed: f64) -> f64 {
        let expected = self.ratio * self.before + allowed;
        2.0 * ((self.after + ANSCOMBE_SHIFT).sqrt() - (expected + ANSCOMBE_SHIFT).sqrt())
    }

    fn worse(&self, [before, after]: &[Spread; 2]) -> Worse {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let whole = |number: f64| number as u64;
        let parts = |spread: &Spread, has: f64| [whole(has), spread.slowest_ns.len() as u64];
        Worse::RareCalls {
            over_ns: whole(self.over),
            before: parts(before, self.before),
            after: parts(after, self.after),
        }
    }
}

/// Returns a Bonferroni-like factor that widens 95 % intervals for `comparisons` tests, of which
/// each fails in 2.5 of 100 cases: the ratio of the one-sided quantiles of the normal distribution,
/// from above.
fn widening(comparisons: f64) -> f64 {
    Z_95.hypot((2.0 * comparisons.max(1.0).ln()).sqrt()) / Z_95
}

#[cfg(test)]
mod tests {
    use std::slice;

    use probe_tests::random::Random;

    use super::*;
    use crate::call_stats::Durations;

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
            spread: None,
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
        let compared = compare(&before, &after, None);
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
        let found = |limit: f64| {
            let compared = compare(&before, &after, Some(limit));
            compared.rows.into_iter().flat_map(|it| it.worse).collect::<Vec<_>>()
        };
        let worse = vec![Worse::Mean { before_ns: 100.0, after_ns: 120.0 }];
        // An error of 5 % is one of 7.7 % beside two other figures.
        assert_eq!([0.0, 0.12, 0.13].map(found), [worse.clone(), worse, vec![]]);
    }

    /// One call in a thousand is long, in a run of few calls and in one of a hundred times as many.
    #[test]
    fn rare_calls_of_a_longer_run_are_no_more() {
        let spread = |calls: u64, parts_with_long: usize| Spread {
            independent: calls as f64,
            times_ns: vec![(1_000, calls - calls / 1_000), (8_000_000, calls / 1_000)],
            slowest_ns: (0..64).map(|at| if at < parts_with_long { 8_000_000 } else { 1_000 }).collect(),
        };
        let (short, long) = (spread(6_400, 6), spread(640_000, 64));
        for runs in [[short.clone(), long.clone()], [long, short.clone()]] {
            let excess = RareCalls::of(&runs).unwrap().excess();
            assert!(excess < 1.0, "{excess}");
        }
        let more = RareCalls::of(&[short, spread(6_400, 40)]).unwrap().excess();
        assert!(more > 4.0, "{more}");
    }

    /// Runs of programs that are made up here.
    struct Programs(Random);

    impl Programs {
        fn part(&mut self) -> f64 {
            self.0.below(1 << 32) as f64 / (1_u64 << 32) as f64
        }

        fn normal(&mut self) -> f64 {
            2.0 * (0..3).map(|_| self.part() - 0.5).sum::<f64>()
        }

        /// Calls whose times wander, and of which some last long: with another task, with a page
        /// that is not there.
        fn run(&mut self, calls: u32, mean: f64, long: f64, also: impl Fn(u32) -> f64) -> FunctionRow {
            let mut durations = Durations::default();
            let mut level = 0.0;
            for call in 0..calls {
                level = 0.9 * level + 0.05 * self.normal();
                let long = if self.part() < long { mean * (5.0 + 400.0 * self.part()) } else { 0.0 };
                let time = mean * (level + 0.2 * self.normal()).exp() + long + also(call);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
                durations.add(time as u64);
            }
            let (mean, error) = (durations.mean(), durations.error());
            FunctionRow { spread: durations.spread(), ..row("f", durations.count(), mean, error) }
        }
    }

    fn found(before: &FunctionRow, after: &FunctionRow, limit: f64) -> Vec<Worse> {
        compare(slice::from_ref(before), slice::from_ref(after), Some(limit)).rows.remove(0).worse
    }

    #[test]
    fn equal_runs_have_few_findings() {
        let mut programs = Programs(Random::new(1));
        let mut findings = 0;
        for pair in 0..200 {
            // From 30 to 8,000 calls, of which up to one in 250 lasts long.
            let (calls, long) = (30 << (pair % 9), f64::from(pair % 5) / 1000.0);
            let [before, after] = [(); 2].map(|()| programs.run(calls, 10_000.0, long, |_| 0.0));
            findings += u32::from(!found(&before, &after, 0.0).is_empty());
        }
        assert!(findings <= 10, "{findings} of 200");
    }

    #[test]
    fn rare_long_calls_and_slower_calls_are_found() {
        let mut programs = Programs(Random::new(1));
        let [mut rare, mut tenfold, mut same] = [0; 3];
        for _ in 0..100 {
            let before = programs.run(2000, 7600.0, 0.0, |_| 0.0);
            let after = programs.run(2000, 7600.0, 0.0, |call| if call % 500 == 250 { 8e6 } else { 0.0 });
            let worse = found(&before, &after, 0.2);
            rare += u32::from(matches!(worse[..], [Worse::RareCalls { before: [0, _], after: [4, _], .. }]));
            // One call of the first run is so long that the mean tells nothing.
            let before = programs.run(40, 10_000.0, 0.0, |call| if call == 20 { 5e6 } else { 0.0 });
            let after = programs.run(40, 100_000.0, 0.0, |_| 0.0);
            let worse = found(&before, &after, 2.0);
            tenfold += u32::from(matches!(worse[..], [Worse::P50 { .. }, ..]));
            same += u32::from(!found(&after, &before, 2.0).is_empty());
        }
        assert!(rare >= 95 && tenfold >= 95 && same == 0, "{rare}, {tenfold}, {same} of 100");
    }

    #[test]
    fn errors_are_wider_for_many_comparisons() {
        // Quantiles of 1 - 0.025 / n by a table, over 1.96.
        for (comparisons, exact) in
            [(1.0, 1.0), (10.0, 2.807 / 1.96), (100.0, 3.481 / 1.96), (1000.0, 4.056 / 1.96)]
        {
            let widening = widening(comparisons);
            assert!((exact..exact * 1.05).contains(&widening), "{comparisons}: {widening} for {exact}");
        }
    }
}
