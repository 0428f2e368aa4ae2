//! The clock of measurements: the processor's time stamp counter, if it counts at one rate, and
//! otherwise the system's monotonic clock.
//!
//! Life cycle: [`Clock::new`] asks the processor once, and notes both clocks. [`Clock::scale`]
//! compares them again. So the rate becomes more exact the longer the program runs, and no caller
//! waits for a calibration first.
//!
//! Cost: a reading is one instruction, some 20 cycles. For the system's clock it is one call of the
//! C library's `clock_gettime`, which the kernel's vDSO answers without a system call.
//!
//! The instruction does not wait for those before it, and those after it do not wait for it. So a
//! time of less than some 50 ns may be off by its own length. A consumer that measures such times
//! asks for hits [in order](crate::Consumer::needs_order).
//!
//! The counters of all processors are the same (`entry::cpu` cites the manuals). If a machine's
//! firmware has set them apart, a reading may be less than an earlier one on another processor. So
//! subtract with saturation.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use super::entry::cpu::time_stamp as counter;
use super::entry::cpu::{await_time_stamp, has_steady_time_stamp};

/// Reads time in ticks, as cheaply as the machine can. Copies are the same clock.
///
/// ```
/// use probe_runtime::consumer::Clock;
/// let clock = Clock::new();
/// let start = clock.now();
/// std::thread::sleep(std::time::Duration::from_millis(1));
/// let ticks = clock.now().saturating_sub(start);
/// assert!(clock.scale().nanoseconds(ticks) >= 1_000_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    is_counter: bool,
}

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct ClockReading {
    ticks: u64,
    time: Instant,
}

/// The first known moment. All others are compared with it, and the system's clock counts from it.
static FIRST: OnceLock<ClockReading> = OnceLock::new();

/// The minimum distance of two moments that give the rate to a few millionths.
const EXACT_RATE_AFTER: Duration = Duration::from_millis(20);
/// The minimum distance of two moments that give the rate to a thousandth.
const ROUGH_RATE_AFTER: Duration = Duration::from_micros(100);

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Creates the best clock that this machine has.
    pub fn new() -> Self {
        FIRST.get_or_init(ClockReading::now);
        Self { is_counter: has_steady_time_stamp() }
    }

    /// Returns whether ticks are those of the processor's counter, rather than nanoseconds of the
    /// system's clock.
    pub fn is_counter(self) -> bool {
        self.is_counter
    }

    /// Returns the time in ticks, from an arbitrary beginning. Makes no system call.
    #[inline(always)]
    pub fn now(self) -> u64 {
        if self.is_counter { counter() } else { system() }
    }

    /// Returns the time in ticks, read before later instructions begin.
    #[inline(always)]
    pub(crate) fn now_in_order(self) -> u64 {
        let now = self.now();
        await_time_stamp();
        now
    }

    /// Returns the time in ticks if the clock is the processor's counter; takes no function call.
    #[inline(always)]
    pub fn counter(self) -> Option<u64> {
        if self.is_counter { Some(counter()) } else { None }
    }

    /// Returns the length of a tick. If the process first used its clock less than 20 ms ago, this
    /// waits for the rest of that time.
    pub fn scale(self) -> Scale {
        self.scale_since(*FIRST.get_or_init(ClockReading::now), EXACT_RATE_AFTER)
    }

    /// Returns the length of a tick to a thousandth; waits for at most 0.1 ms. If the clock was
    /// first used over a second ago, the length is measured anew: the machine may have slept since,
    /// which not all clocks count.
    pub(crate) fn rough_scale(self) -> Scale {
        let first = *FIRST.get_or_init(ClockReading::now);
        let is_recent = first.time.elapsed() < Duration::from_secs(1);
        self.scale_since(if is_recent { first } else { ClockReading::now() }, ROUGH_RATE_AFTER)
    }

    fn scale_since(self, first: ClockReading, apart: Duration) -> Scale {
        if !self.is_counter {
            return Scale { nanoseconds_per_tick: 1.0 };
        }
        if let Some(rest) = apart.checked_sub(first.time.elapsed()) {
            thread::sleep(rest);
        }
        let last = ClockReading::now();
        let nanoseconds = last.time.duration_since(first.time).as_secs_f64() * 1e9;
        let ticks = last.ticks.saturating_sub(first.ticks).max(1);
        let nanoseconds_per_tick = nanoseconds / ticks as f64;
        Scale { nanoseconds_per_tick }
    }
}

impl ClockReading {
    /// Returns the best of several readings: the one that took the shortest time.
    fn now() -> Self {
        let read = || {
            let before = counter();
            let time = Instant::now();
            let after = counter();
            let took = after.saturating_sub(before);
            (took, Self { ticks: before + took / 2, time })
        };
        let readings = [read(), read(), read(), read(), read()];
        readings.into_iter().min_by_key(|(took, _)| *took).map_or_else(|| read().1, |(_, moment)| moment)
    }
}

#[cold]
#[inline(never)]
fn system() -> u64 {
    let first = FIRST.get_or_init(ClockReading::now);
    u64::try_from(first.time.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Reads the processor's counter before later instructions begin.
#[inline(always)]
pub(crate) fn counter_in_order() -> u64 {
    let now = counter();
    await_time_stamp();
    now
}

/// The length of a tick, from [`Clock::scale`].
///
/// ```
/// use probe_runtime::consumer::Clock;
///
/// let clock = Clock::new();
/// let start = clock.now();
/// let ticks = clock.now() - start;
/// println!("{} ns", clock.scale().nanoseconds(ticks));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    nanoseconds_per_tick: f64,
}

impl Scale {
    /// A scale for times that nobody asks for.
    pub(crate) const UNUSED: Self = Self { nanoseconds_per_tick: 0.0 };

    /// A scale of this length.
    #[cfg(all(test, feature = "perf"))]
    pub(crate) fn of(nanoseconds_per_tick: f64) -> Self {
        Self { nanoseconds_per_tick }
    }

    /// Ticks as nanoseconds, rounded.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded; what is too large becomes the largest"
    )]
    pub fn nanoseconds(self, ticks: u64) -> u64 {
        (ticks as f64 * self.nanoseconds_per_tick).round() as u64
    }

    /// Returns the length of a tick in nanoseconds.
    pub fn nanoseconds_per_tick(self) -> f64 {
        self.nanoseconds_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_rounds() {
        let scale = Scale { nanoseconds_per_tick: 0.4 };
        assert_eq!([0, 1, 2, 10, 1_000_000].map(|ticks| scale.nanoseconds(ticks)), [0, 0, 1, 4, 400_000]);
    }

    /// The time that the system's clock measures lies between two differences of the counter: read
    /// inside of it, and around it.
    #[test]
    fn both_clocks_agree() {
        let clock = Clock::new();
        let (before, start, after) = (clock.now(), Instant::now(), clock.now());
        thread::sleep(Duration::from_millis(30));
        let (inner, end, outer) = (clock.now(), start.elapsed(), clock.now());
        let scale = clock.scale();
        let elapsed = u64::try_from(end.as_nanos()).unwrap();
        // The rate is known to a few millionths.
        let slack = elapsed / 10_000 + 100;
        assert!(scale.nanoseconds(inner - after) <= elapsed + slack);
        assert!(scale.nanoseconds(outer - before) + slack >= elapsed);
    }
}
