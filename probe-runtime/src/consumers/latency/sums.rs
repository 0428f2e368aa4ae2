//! The sums of one function over all threads, in ticks of the clock. Differences are taken in
//! ticks, because a later reading knows the length of a tick more exactly.

use std::sync::atomic::Ordering::Relaxed;

use super::super::buckets::{BUCKETS, values, within};
use super::FunctionTimes;
use super::report::Distribution;
#[cfg(feature = "perf")]
use super::split::FunctionWaited;
use crate::engine::clock::Scale;
use probe_report::grown;

/// Sums, extremes, and calls by their bucket.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct LatencySums {
    pub(super) total: u64,
    /// The time of all calls, also of those inside of a call of the function.
    pub(super) sum: u64,
    pub(super) busy: u64,
    pub(super) own: u64,
    pub(super) polls: u64,
    /// The part of `busy` in calls inside of a call of the function.
    #[cfg(feature = "perf")]
    recursive: u64,
    /// If the time is split.
    #[cfg(feature = "perf")]
    pub(super) waits: Option<FunctionWaited>,
    /// Both are 0 if no call has ended.
    pub(super) shortest: Extreme,
    pub(super) longest: Extreme,
    /// The buckets with calls: number and calls, ascending.
    pub(super) buckets: Vec<(usize, u64)>,
}

/// The time of the shortest call, or of the longest.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Extreme {
    pub(super) ticks: u64,
    /// Whether it is a bound, in a difference: all calls are within it, and one is in the same
    /// bucket.
    pub(super) is_bound: bool,
}

impl LatencySums {
    /// Sums up the memory of all threads.
    pub(super) fn new<'a>(threads: impl Iterator<Item = &'a FunctionTimes>, is_future: bool) -> Self {
        let mut sums = Self::default();
        let mut buckets = Box::new([0; BUCKETS]);
        let (mut shortest, mut longest) = (u64::MAX, 0);
        for times in threads {
            // If no call has ended, the buckets, which are three pages, need not be read.
            if times.shortest.load(Relaxed) != 0 {
                times.buckets.add_to(&mut buckets);
            }
            // Read first: it never exceeds the sum that is read after it.
            let recursive = times.recursive.load(Relaxed);
            let sum = if is_future { times.total.load(Relaxed) } else { times.busy.load(Relaxed) };
            sums.sum += sum;
            sums.total += sum.saturating_sub(recursive);
            #[cfg(feature = "perf")]
            {
                sums.recursive += recursive;
            }
            sums.busy += times.busy.load(Relaxed);
            sums.own += times.own.load(Relaxed);
            sums.polls += times.polls.load(Relaxed);
            longest = longest.max(times.longest.load(Relaxed));
            shortest = shortest.min(!times.shortest.load(Relaxed));
        }
        sums.buckets = buckets.iter().copied().enumerate().filter(|(_, calls)| *calls != 0).collect();
        if !sums.buckets.is_empty() {
            sums.shortest.ticks = shortest;
            sums.longest.ticks = longest;
        }
        sums
    }

    /// Returns `busy` without the calls inside of a call of the function.
    #[cfg(feature = "perf")]
    pub(super) fn busy_once(&self) -> u64 {
        self.busy.saturating_sub(self.recursive)
    }

    /// Returns the sums after an earlier reading. Numbers in a thread's memory never decrease, so
    /// no difference is negative.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let less = |of: fn(&Self) -> u64| of(self).saturating_sub(of(earlier));
        let buckets = grown(&self.buckets, &earlier.buckets);
        let extreme =
            |bucket: Option<&(usize, u64)>, of: fn(&Self) -> Extreme, is_beyond: fn(&u64, &u64) -> bool| {
                let Some(&(bucket, _)) = bucket else { return Extreme::default() };
                let (now, before) = (of(self), of(earlier));
                let is_new = earlier.buckets.is_empty() || is_beyond(&now.ticks, &before.ticks);
                let ticks = within(bucket, now.ticks);
                Extreme { ticks, is_bound: now.is_bound || !is_new || ticks != now.ticks }
            };
        Self {
            total: less(|it| it.total),
            sum: less(|it| it.sum),
            busy: less(|it| it.busy),
            own: less(|it| it.own),
            polls: less(|it| it.polls),
            #[cfg(feature = "perf")]
            recursive: less(|it| it.recursive),
            #[cfg(feature = "perf")]
            waits: self.waits.map(|waits| waits.since(earlier.waits.unwrap_or_default())),
            shortest: extreme(buckets.first(), |it| it.shortest, u64::lt),
            longest: extreme(buckets.last(), |it| it.longest, u64::gt),
            buckets,
        }
    }

    /// Converts to nanoseconds: each bucket becomes its middle, within the measured extremes.
    pub(super) fn times(&self, scale: Scale) -> Distribution {
        let [min, max] = [self.shortest, self.longest].map(|it| scale.nanoseconds(it.ticks));
        let middle = |(bucket, calls): &(usize, u64)| {
            let values = values(*bucket);
            let middle = scale.nanoseconds(values.start() + (values.end() - values.start()) / 2);
            (middle.clamp(min, max.max(min)), *calls)
        };
        Distribution::new(self.buckets.iter().map(middle).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::super::buckets::index;
    use super::*;

    /// Returns the sums of these calls, in ticks.
    fn of(calls: &[u64]) -> LatencySums {
        let mut buckets = BTreeMap::new();
        calls.iter().for_each(|call| *buckets.entry(index(*call)).or_default() += 1);
        let sum = calls.iter().fold(0_u64, |sum, call| sum.saturating_add(*call));
        let exact = |ticks: Option<&u64>| Extreme { ticks: ticks.copied().unwrap_or(0), is_bound: false };
        LatencySums {
            total: sum,
            sum,
            busy: sum,
            own: sum,
            shortest: exact(calls.iter().min()),
            longest: exact(calls.iter().max()),
            buckets: buckets.into_iter().collect(),
            ..LatencySums::default()
        }
    }

    fn bound(ticks: u64) -> Extreme {
        Extreme { ticks, is_bound: true }
    }

    fn exact(ticks: u64) -> Extreme {
        Extreme { ticks, is_bound: false }
    }

    #[test]
    fn extremes_of_a_difference_are_exact_or_bounds() {
        let since = |earlier: &[u64], between: &[u64]| {
            let since = of(&[earlier, between].concat()).since(&of(earlier));
            assert_eq!(since.buckets, of(between).buckets);
            (since.shortest, since.longest)
        };
        // The first calls, and extremes beyond all earlier calls.
        assert_eq!(since(&[], &[700, 1000]), (exact(700), exact(1000)));
        assert_eq!(since(&[800], &[700, 1000]), (exact(700), exact(1000)));
        // Extremes within earlier calls: 1000 is in 992..=1007, and 700 in 688..=703.
        assert_eq!(since(&[10, 5000], &[700, 1000]), (bound(688), bound(1007)));
        // In the same bucket as the earlier extreme, which bounds them.
        assert_eq!(since(&[695, 1003], &[700, 1000]), (bound(695), bound(1003)));
        assert_eq!(since(&[5, 7], &[]), (exact(0), exact(0)));
        // In the last bucket, which has no upper end.
        let (long, longer) = (1 << 50, 1 << 52);
        assert_eq!(since(&[longer], &[long]), (exact(long), bound(longer)));
    }

    proptest! {
        #[test]
        fn a_difference_has_the_calls_in_between(
            earlier in prop::collection::vec(0..100_000_u64, 0..20),
            between in prop::collection::vec(0..100_000_u64, 0..20),
            later in prop::collection::vec(0..100_000_u64, 0..20),
        ) {
            let first = of(&earlier);
            let second = of(&[&*earlier, &between].concat());
            let third = of(&[&*earlier, &between, &later].concat());
            let is_of = |since: &LatencySums, calls: &[u64]| -> Result<(), TestCaseError> {
                let all = of(calls);
                prop_assert_eq!((since.total, &since.buckets), (all.total, &all.buckets));
                for (found, right) in [(since.shortest, all.shortest), (since.longest, all.longest)] {
                    prop_assert!(found.is_bound || found == right, "{:?} {:?}", found, right);
                    prop_assert_eq!(index(found.ticks), index(right.ticks));
                }
                prop_assert!(since.shortest.ticks <= all.shortest.ticks);
                prop_assert!(since.longest.ticks >= all.longest.ticks);
                Ok(())
            };
            is_of(&second.since(&first), &between)?;
            // Two readings that both begin at a third one.
            is_of(&third.since(&first).since(&second.since(&first)), &later)?;
            prop_assert_eq!(second.since(&second), LatencySums::default());
        }
    }
}
