//! Interleaved rounds. Each runs every case once, so that other load on the machine affects all
//! alike.

use std::time::Instant;

/// Code to be timed.
pub struct Case<'a> {
    name: &'static str,
    sample: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Case<'a> {
    /// Creates a case. `run` gets the number of calls in one sample, and is timed.
    pub fn new(name: &'static str, calls: u64, run: impl FnMut(u64) + 'a) -> Self {
        Self::prepared(name, calls, || (), run)
    }

    /// Creates a case with a `prepare` step, which is not timed.
    pub fn prepared(
        name: &'static str,
        calls: u64,
        mut prepare: impl FnMut() + 'a,
        mut run: impl FnMut(u64) + 'a,
    ) -> Self {
        let sample = move || {
            prepare();
            let start = Instant::now();
            run(calls);
            start.elapsed().as_nanos() as f64 / calls as f64
        };
        Self { name, sample: Box::new(sample) }
    }

    /// Creates a case whose `run` returns the nanoseconds that it has measured itself.
    pub fn given(name: &'static str, mut run: impl FnMut() -> u64 + 'a) -> Self {
        Self { name, sample: Box::new(move || run() as f64) }
    }
}

impl Case<'_> {
    /// Returns the case's name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// The results of the rounds: nanoseconds a call, by case.
pub struct Medians(Vec<(&'static str, Vec<f64>)>);

impl Medians {
    /// Returns the median nanoseconds a call.
    ///
    /// # Panics
    /// If there is no case of that name.
    pub fn ns(&self, case: &str) -> f64 {
        median(self.samples(case).to_vec())
    }

    /// Returns the case's median divided by the baseline's.
    ///
    /// # Panics
    /// If there is no case of that name.
    pub fn ratio(&self, case: &str, baseline: &str) -> f64 {
        self.ns(case) / self.ns(baseline)
    }

    /// Returns the names of the cases, in their order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|(name, _)| *name)
    }

    fn samples(&self, case: &str) -> &[f64] {
        let found = self.0.iter().find(|(name, _)| *name == case);
        &found.unwrap_or_else(|| panic!("there is no case {case}")).1
    }
}

/// Runs all cases in rotation; each round begins with another one. The results of a first round are
/// dropped.
pub fn interleave(rounds: u64, cases: &mut [Case<'_>]) -> Medians {
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    for case in &mut *cases {
        (case.sample)();
    }
    for round in 0..rounds {
        for step in 0..cases.len() {
            let at = (step + usize::try_from(round).unwrap_or_default()) % cases.len();
            samples[at].push((cases[at].sample)());
        }
    }
    Medians(cases.iter().map(|case| case.name).zip(samples).collect())
}

/// Returns the middle one of an odd number of samples, in ascending order.
///
/// # Panics
/// If there are none.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_sample() {
        assert!((median(vec![3.0, 1.0, 1000.0, 2.0, 2.5]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn every_case_runs_in_every_round() {
        let (mut a, mut b) = (0, 0);
        let medians = interleave(
            5,
            &mut [Case::new("a", 2, |calls| a += calls), Case::new("b", 3, |calls| b += calls)],
        );
        assert_eq!(medians.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((a, b), (12, 18));
    }

    #[test]
    fn a_ratio_is_of_the_medians() {
        let medians = Medians(vec![("a", vec![2.0, 20.0, 6.0]), ("b", vec![1.0, 10.0, 2.0])]);
        assert!((medians.ratio("a", "b") - 3.0).abs() < 1e-9);
    }
}
