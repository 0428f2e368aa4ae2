//! Limits the number of reports per second.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Counts the reports in this second, and those that were suppressed because there were too many.
#[derive(Debug)]
pub(super) struct Said {
    start: Instant,
    per_second: u32,
    /// The current second in the upper half, and its number of reports in the lower half.
    now: AtomicU64,
    unsaid: AtomicU64,
}

impl Said {
    pub(super) fn new(per_second: u32) -> Self {
        Self { start: Instant::now(), per_second, now: AtomicU64::new(0), unsaid: AtomicU64::new(0) }
    }

    /// Returns whether one more call may be reported, and counts the answer.
    pub(super) fn may(&self) -> bool {
        self.may_in(self.start.elapsed().as_secs())
    }

    fn may_in(&self, second: u64) -> bool {
        let more = |now: u64| {
            // A thread that was delayed counts in the second that other threads have reached.
            let (in_second, said) = (now >> 32, now & u64::from(u32::MAX));
            let (second, said) = if second > in_second { (second, 0) } else { (in_second, said) };
            (said < u64::from(self.per_second)).then_some(second << 32 | (said + 1))
        };
        let may = self.now.fetch_update(Relaxed, Relaxed, more).is_ok();
        if !may {
            self.unsaid.fetch_add(1, Relaxed);
        }
        may
    }

    pub(super) fn unsaid(&self) -> u64 {
        self.unsaid.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_a_limited_number_of_reports() {
        let said = Said::new(2);
        let may: Vec<_> = [0, 0, 0, 1, 0, 1, 7, 7, 7].into_iter().map(|second| said.may_in(second)).collect();
        assert_eq!(may, [true, true, false, true, true, false, true, true, false]);
        assert_eq!(said.unsaid(), 3);
        assert!(!Said::new(0).may());
    }
}
