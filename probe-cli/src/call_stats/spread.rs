//! The spread of one function's times: what tells two runs apart but for their means.

use serde::{Deserialize, Serialize};

/// The times of one function's calls.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The number of calls that would tell as much, if none depended on those before it.
    pub independent: f64,
    /// Times from the shortest up, each with the number of calls that took so long.
    pub times_ns: Vec<(u64, u64)>,
    /// The longest time of each part of the run; parts have equally many calls.
    pub slowest_ns: Vec<u64>,
}

impl Spread {
    /// Returns the time that this part of the calls does not exceed.
    pub fn quantile(&self, part: f64) -> u64 {
        quantile(&self.times_ns, part)
    }

    /// Returns a quantile between its bounds, for so many standard errors. A bound is `None` beyond
    /// the shortest call, or the longest.
    pub fn bounds(&self, part: f64, errors: f64) -> (Option<u64>, u64, Option<u64>) {
        let half = errors * (part * (1.0 - part) / self.independent).sqrt();
        let (low, high) = (part - half, part + half);
        let low = (low > 0.0).then(|| self.quantile(low));
        (low, self.quantile(part), (high < 1.0).then(|| self.quantile(high)))
    }

    /// Returns the number of the run's parts that have a call of more than this time, and the sum
    /// of the times of such calls.
    pub fn beyond(&self, limit: f64) -> (f64, f64) {
        let is_beyond = |time: u64| time as f64 > limit;
        let parts = self.slowest_ns.iter().filter(|it| is_beyond(**it)).count();
        let times = self.times_ns.iter().filter(|it| is_beyond(it.0));
        (parts as f64, times.map(|(time, calls)| *time as f64 * *calls as f64).sum())
    }
}

/// Returns the time that this part of the calls of two runs does not exceed, each run with the same
/// weight for a call.
pub fn of_both(one: &Spread, other: &Spread, part: f64) -> u64 {
    let mut times = [&one.times_ns[..], &other.times_ns[..]].concat();
    times.sort_unstable();
    quantile(&times, part)
}

fn quantile(times: &[(u64, u64)], part: f64) -> u64 {
    let all: u64 = times.iter().map(|it| it.1).sum();
    let mut left = part * all as f64;
    for (time, calls) in times {
        left -= *calls as f64;
        // A rounding error is no call.
        if left <= 1e-6 {
            return *time;
        }
    }
    times.last().map_or(0, |it| it.0)
}
