//! How often the program is asked about the same.

use std::time::{Duration, Instant};

/// The time between two questions about the same, at least and at most.
pub const REPORT_INTERVALS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];
/// The program's CPU time for an answer is this part of the time between two: 0.1 % of a processor.
/// There are two at a time: of all functions, and of those on the screen or of the tree of calls.
const INTERVAL_PER_COST: u32 = 1000;

/// The pace of questions about the same.
#[derive(Clone, Copy, Debug)]
pub struct PollPace {
    /// When it is due.
    pub next: Instant,
    /// The time to the one after it.
    pub every: Duration,
}

impl PollPace {
    /// Begins with a question now.
    pub fn new(now: Instant) -> Self {
        Self { next: now, every: REPORT_INTERVALS[0] }
    }

    /// Notes an answer to the question of this time, and the program's CPU time for it.
    pub fn answered(&mut self, due: Instant, took: Duration) {
        self.every = (took * INTERVAL_PER_COST).clamp(REPORT_INTERVALS[0], REPORT_INTERVALS[1]);
        self.next = due + self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_asked_for_less_often() {
        let due = Instant::now();
        let mut pace = PollPace::new(due);
        let mut every = |micros| {
            pace.answered(due, Duration::from_micros(micros));
            assert_eq!(pace.next, due + pace.every);
            pace.every.as_millis()
        };
        let paces = [0, 200, 300, 10_000, 60_000_000].map(&mut every);
        assert_eq!(paces, [250, 250, 300, 10_000, 30_000]);
    }
}
