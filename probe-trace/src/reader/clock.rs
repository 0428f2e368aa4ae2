//! Time stamps as times of `CLOCK_MONOTONIC`.
//!
//! A file has readings of both clocks: at its beginning and end, each second, and in most
//! sub-buffers. Between two readings time passes at one rate. Of the readings within 100 ms only
//! the one that took the shortest time counts: over a shorter distance, the error of a reading
//! would exceed the change of the rate. Before the first and after the last reading the nearest
//! rate holds.
//!
//! The system may interrupt a thread between its readings of the two clocks, for milliseconds if
//! the machine is busy. The thread read the monotonic clock at some moment of that time. So if two
//! readings overlap, their order is unknown, and the shorter one counts.

use crate::layout::{reading, sub_buffer};

/// The least nanoseconds between two readings that count.
const MIN_READING_DISTANCE_NS: u64 = 100_000_000;

/// The longest tick, in nanoseconds.
const MAX_TICK_NS: u64 = 10;

/// A time stamp, and the monotonic clock at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    pub(super) ticks: u64,
    /// Ticks that the reading took.
    pub(super) width: u64,
    pub(super) nanoseconds: u64,
}

/// Turns time stamps into times.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// The readings that count, in the order of both clocks. Never empty.
    readings: Vec<Reading>,
    error: u64,
    /// The largest error near a sleep of the machine, in nanoseconds.
    sleep_error: u64,
    /// The number of readings that contradict earlier ones, for example after a reset of the
    /// counter.
    pub(super) contradicting: usize,
}

/// Returns how many nanoseconds `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC` at a reading.
pub(super) fn realtime_offset(clocks: &[u64; reading::WORDS]) -> i128 {
    i128::from(clocks[reading::REAL]) - i128::from(clocks[reading::MONOTONIC])
}

/// Returns for how many nanoseconds the machine has slept until a reading: `CLOCK_BOOTTIME` alone
/// continues then.
pub(super) fn time_asleep(clocks: &[u64; reading::WORDS]) -> u64 {
    clocks[reading::BOOT].saturating_sub(clocks[reading::MONOTONIC])
}

impl Reading {
    pub(super) fn of(clocks: &[u64; reading::WORDS]) -> Self {
        let [ticks, width, nanoseconds] =
            [reading::TICKS, reading::WIDTH, reading::MONOTONIC].map(|at| clocks[at]);
        Self { ticks, width, nanoseconds }
    }

    /// Returns the reading in a sub-buffer's header, if it has one.
    pub(super) fn in_sub_buffer(head: &[u64]) -> Option<Self> {
        let [ticks, width, nanoseconds] =
            [sub_buffer::READ_AT, sub_buffer::WIDTH, sub_buffer::MONOTONIC].map(|at| head[at]);
        (nanoseconds != 0).then_some(Self { ticks, width, nanoseconds })
    }

    /// Returns whether the two readings overlap in ticks, and their times are as close.
    ///
    /// If so, the monotonic clock was read twice within the sum of their widths, twice the `reach`.
    fn overlaps(&self, other: &Self) -> bool {
        let reach = self.width.div_ceil(2).saturating_add(other.width.div_ceil(2));
        self.ticks.abs_diff(other.ticks) <= reach
            && self.nanoseconds.abs_diff(other.nanoseconds) <= reach.saturating_mul(2 * MAX_TICK_NS)
    }
}

/// Keeps the shorter one of two readings that overlap, and drops each that contradicts the kept one
/// before it. Returns the kept ones, which both clocks put in one order, and how many contradict.
/// Takes readings in the order of their time stamps.
fn without_contradictions(all: &[Reading]) -> (Vec<Reading>, usize) {
    let (mut consistent, mut contradicting) = (Vec::<Reading>::new(), 0);
    for reading in all {
        while consistent.pop_if(|last| last.overlaps(reading) && reading.width < last.width).is_some() {}
        match consistent.last() {
            Some(last) if last.overlaps(reading) => {}
            Some(last) if reading.nanoseconds < last.nanoseconds || reading.ticks == last.ticks => {
                contradicting += 1;
            }
            _ => consistent.push(*reading),
        }
    }
    (consistent, contradicting)
}

impl Clock {
    /// Creates the clock from readings in any order.
    pub(super) fn new(mut all: Vec<Reading>) -> Self {
        all.sort_by_key(|it| (it.ticks, it.nanoseconds));
        all.dedup();
        let (consistent, contradicting) = without_contradictions(&all);
        let mut readings = Vec::<Reading>::new();
        // The first reading of the 100 ms that the last one of `readings` stands for.
        let mut window_start = 0;
        for reading in &consistent {
            match readings.last_mut() {
                Some(last) if reading.nanoseconds - window_start < MIN_READING_DISTANCE_NS => {
                    if reading.width < last.width {
                        *last = *reading;
                    }
                }
                _ => {
                    window_start = reading.nanoseconds;
                    readings.push(*reading);
                }
            }
        }
        // A short trace keeps its two ends: they are further apart than its narrowest reading is
        // from either.
        if let ([_], [first, .., last]) = (&readings[..], &consistent[..]) {
            readings = vec![*first, *last];
        }
        if readings.is_empty() {
            readings.push(Reading { ticks: 0, width: 0, nanoseconds: 0 });
        }
        let mut clock = Self { readings, error: 0, sleep_error: 0, contradicting };
        let off = |it: &Reading| clock.time(it.ticks).abs_diff(it.nanoseconds);
        let residual = all.iter().map(off).max().unwrap_or_default();
        let width =
            clock.readings.iter().map(|it| clock.span(it.ticks, it.ticks.saturating_add(it.width))).max();
        clock.error = residual.saturating_add(width.unwrap_or_default().div_ceil(2));
        clock
    }

    /// Creates the clock of the time between two readings.
    pub(super) fn between(from: Reading, to: Reading) -> Self {
        let passes = to.ticks > from.ticks && to.nanoseconds >= from.nanoseconds;
        let readings = if passes { vec![from, to] } else { vec![to] };
        Self { readings, error: 0, sleep_error: 0, contradicting: 0 }
    }

    pub(super) fn first(&self) -> Reading {
        self.readings[0]
    }

    /// Returns the time of a stamp in nanoseconds.
    pub(super) fn time(&self, ticks: u64) -> u64 {
        let after = self.readings.partition_point(|it| it.ticks <= ticks);
        let [from, to] = if let [only] = self.readings[..] {
            let (ticks, nanoseconds) = (only.ticks.saturating_add(1), only.nanoseconds.saturating_add(1));
            [only, Reading { ticks, nanoseconds, ..only }]
        } else {
            let end = after.clamp(1, self.readings.len() - 1);
            [self.readings[end - 1], self.readings[end]]
        };
        let (length, rise) = (to.ticks - from.ticks, to.nanoseconds - from.nanoseconds);
        // The usual case fits in 64 bits, where a division takes a fraction of the time.
        let near = ticks.checked_sub(from.ticks).and_then(|passed| passed.checked_mul(rise));
        if let Some(passed) = near.and_then(|product| product.checked_div(length)) {
            return from.nanoseconds.saturating_add(passed);
        }
        let (length, rise) = (i128::from(length).max(1), i128::from(rise));
        let passed = (i128::from(ticks) - i128::from(from.ticks)).saturating_mul(rise) / length;
        let time = i128::from(from.nanoseconds).saturating_add(passed);
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }

    /// Notes that the machine slept between two readings at these times. Only one of the clocks ran
    /// during the sleep. So a time between the readings that count around it may be anywhere
    /// between them.
    pub(super) fn note_sleep(&mut self, [from, to]: [u64; 2]) {
        self.sleep_error =
            self.sleep_error.max(to.saturating_sub(from).saturating_add(2 * MIN_READING_DISTANCE_NS));
    }

    fn span(&self, from: u64, to: u64) -> u64 {
        self.time(to).saturating_sub(self.time(from))
    }

    /// Returns the largest error of a time, in nanoseconds; `None` for a single reading, which does
    /// not tell the rate.
    pub(super) fn error(&self) -> Option<u64> {
        (self.readings.len() > 1).then_some(self.error.max(self.sleep_error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn reading(ticks: u64, width: u64, nanoseconds: u64) -> Reading {
        Reading { ticks, width, nanoseconds }
    }

    #[test]
    fn times_follow_the_rate_between_two_readings_and_beyond() {
        // 3 ticks a nanosecond, then 2.
        let clock = Clock::new(vec![
            reading(4_000_000_000, 60, 1_500_000_000),
            reading(0, 60, 0),
            reading(3_000_000_000, 60, 1_000_000_000),
        ]);
        let times = [0, 300, 3_000_000_002, 4_000_000_200].map(|ticks| clock.time(ticks));
        assert_eq!(times, [0, 100, 1_000_000_001, 1_500_000_100]);
        // Half of the 60 ticks that a reading took, at the slower rate.
        assert_eq!(clock.error(), Some(15));
    }

    #[test]
    fn the_narrowest_of_close_readings_counts() {
        let clock = Clock::new(vec![
            reading(1_000, 900, 1_400),
            reading(2_000, 20, 2_000),
            reading(200_002_000, 20, 200_002_000),
            reading(200_003_000, 10_000, 200_009_000),
        ]);
        assert_eq!(clock.time(1_000), 1_000);
        assert_eq!(clock.error(), Some(6_000 + 10), "what was read is off by as much");
    }

    #[test]
    fn a_counter_that_was_reset_is_noticed() {
        let clock = Clock::new(vec![reading(1_000, 1, 500_000_000), reading(2_000, 1, 100_000_000)]);
        assert_eq!(clock.contradicting, 1);
        assert_eq!(clock.error(), None);
        assert_eq!(clock.time(1_010), 500_000_010);
    }

    /// A thread was interrupted after it read the monotonic clock, and another one before.
    #[test]
    fn an_interrupted_reading_contradicts_nothing() {
        let consistent = [reading(1_000, 20, 1_000), reading(300_000_000, 20, 300_000_000)];
        let early = reading(51_010, 100_000, 1_020);
        let late = reading(299_960_000, 100_000, 300_009_000);
        let clock = Clock::new([consistent[0], early, late, consistent[1]].to_vec());
        assert_eq!((clock.contradicting, &clock.readings[..]), (0, &consistent[..]));
        // The interrupted readings are off by as much.
        assert_eq!(clock.error(), Some(51_010 - 1_020 + 10));
        assert_eq!(clock.time(200_000), 200_000);
    }

    proptest! {
        /// Each reading takes a while, and has the monotonic clock at any moment of it.
        #[test]
        fn readings_of_two_sound_clocks_contradict_nothing(
            readings in vec((0..1_000_000_000_u64, 0..300_000_000_u64, 0..=100_u64), 1..40),
        ) {
            let all = readings.into_iter().map(|(begin, width, share)| {
                reading(begin + width / 2, width, begin + width * share / 100)
            });
            let clock = Clock::new(all.collect());
            prop_assert_eq!(clock.contradicting, 0);
            prop_assert!(clock.readings.is_sorted_by(|a, b| a.ticks < b.ticks));
            prop_assert!(clock.readings.is_sorted_by_key(|it| it.nanoseconds));
        }

        #[test]
        fn any_readings_are_put_in_order(
            readings in vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
            ticks: u64,
        ) {
            let all = readings.into_iter().map(|(ticks, width, time)| reading(ticks, width, time));
            let clock = Clock::new(all.collect());
            prop_assert!(clock.readings.is_sorted_by(|a, b| a.ticks < b.ticks));
            prop_assert!(clock.readings.is_sorted_by_key(|it| it.nanoseconds));
            prop_assert!(clock.time(ticks) <= clock.time(ticks.saturating_add(1)));
        }
    }

    #[test]
    fn readings_of_one_stamp_are_one() {
        let clock = Clock::new(vec![reading(1_000, 9, 1_004), reading(1_000, 4, 1_001)]);
        assert_eq!((clock.contradicting, clock.time(1_010)), (0, 1_011));
    }

    #[test]
    fn readings_that_overlap_hide_no_reset() {
        for (stamp, width) in [(1_000, 1), (1_001, 1), (2_000, 3_000)] {
            let readings = [reading(1_000, 1, 500_000_000), reading(stamp, width, 100_000_000)];
            assert_eq!(Clock::new(readings.to_vec()).contradicting, 1, "{stamp}");
        }
    }

    #[test]
    fn the_ends_of_a_short_trace_do_not_overlap() {
        let readings = [reading(150, 300, 300), reading(170, 320, 301), reading(1_000, 10, 1_003)];
        let clock = Clock::new(readings.to_vec());
        assert_eq!(clock.readings, [readings[0], readings[2]]);
        assert_eq!(Clock::new(readings[..2].to_vec()).error(), None);
    }

    #[test]
    fn a_time_near_a_sleep_is_between_two_readings() {
        // The counter went on for two seconds, of which the machine slept one and a half.
        let all = [0, 1_000_000_000, 3_000_000_000, 4_000_000_000];
        let times = [0, 1_000_000_000, 1_500_000_000, 2_500_000_000];
        let mut clock =
            Clock::new(all.into_iter().zip(times).map(|(at, time)| reading(at, 20, time)).collect());
        assert_eq!(clock.error(), Some(10));
        // 0.4 s after a reading, before the sleep.
        assert_eq!(clock.time(1_400_000_000), 1_100_000_000);
        clock.note_sleep([1_000_000_000, 1_500_000_000]);
        assert_eq!(clock.error(), Some(700_000_000));
    }

    #[test]
    fn no_reading_and_huge_numbers_do_no_harm() {
        assert_eq!(Clock::new(Vec::new()).time(7), 7);
        let clock = Clock::new(vec![reading(0, u64::MAX, 0), reading(1, u64::MAX, u64::MAX)]);
        assert_eq!(clock.time(u64::MAX), u64::MAX);
        let clock = Clock::new(vec![reading(0, 0, 1), reading(1, 0, u64::MAX)]);
        assert_eq!(clock.time(u64::MAX), u64::MAX, "beyond all numbers");
    }
}
