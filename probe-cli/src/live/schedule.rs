//! The times at which reports are shown (pure).

use std::time::Duration;

/// When the next report is due, from the begin of watching on.
///
/// For people who wait at a terminal, the first one comes after [`FIRST_REPORT`], and each pause is
/// twice as long as the one before, up to the interval.
pub struct Schedule {
    every: Option<Duration>,
    pause: Option<Duration>,
    next: Option<Duration>,
}

/// The time until a first table on a terminal.
const FIRST_REPORT: Duration = Duration::from_millis(20);

impl Schedule {
    /// One report at each interval, if there is one.
    pub fn steady(every: Option<Duration>) -> Self {
        Self { every, pause: every, next: every }
    }

    /// The same, with more of them at first if somebody looks.
    pub fn of(every: Option<Duration>, is_terminal: bool) -> Self {
        let first = every.map(|every| if is_terminal { every.min(FIRST_REPORT) } else { every });
        Self { every, pause: first, next: first }
    }

    /// Returns whether a report is due, after this time.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        self.next.is_some_and(|next| elapsed >= next)
    }

    /// Sets the time of the next one, after one was shown. A late one skips those that it missed.
    pub fn mark_shown(&mut self, elapsed: Duration) {
        self.pause = self.pause.zip(self.every).map(|(pause, every)| (2 * pause).min(every));
        self.next = self.pause.map(|pause| elapsed + pause);
    }

    /// Returns the time of the next one.
    pub fn next(&self) -> Option<Duration> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_fast_at_first_where_somebody_looks() {
        let times = |mut schedule: Schedule| {
            let mut elapsed = Duration::ZERO;
            [(); 8].map(|()| {
                let next = schedule.next()?;
                assert!(!schedule.is_due(elapsed) && schedule.is_due(next));
                elapsed = next;
                schedule.mark_shown(elapsed);
                Some(elapsed.as_millis())
            })
        };
        let every = |ms| Some(Duration::from_millis(ms));
        assert_eq!(
            times(Schedule::of(every(1000), true)),
            [20, 60, 140, 300, 620, 1260, 2260, 3260].map(Some)
        );
        assert_eq!(times(Schedule::of(every(10), true)), [10, 20, 30, 40, 50, 60, 70, 80].map(Some));
        assert_eq!(times(Schedule::of(every(100), false))[..2], [Some(100), Some(200)]);
        assert_eq!(times(Schedule::steady(None)), [None; 8]);
    }
}
