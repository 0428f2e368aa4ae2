//! Start and length of a measurement.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment, on the calendar and on a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    calendar: SystemTime,
    clock: Instant,
}

impl Since {
    pub fn now() -> Self {
        Self { calendar: SystemTime::now(), clock: Instant::now() }
    }

    /// Returns the period from this moment until now.
    pub fn period(self) -> Period {
        Period { start: self.calendar, duration: self.clock.elapsed() }
    }
}

/// The period of a measurement. All periods compare equal, so that they don't tell measurements
/// apart.
#[derive(Clone, Copy)]
pub struct Period {
    pub start: SystemTime,
    pub duration: Duration,
}

impl Period {
    /// Returns whether both periods began at the same moment: with the same attachment or the same
    /// reset of it.
    pub fn begins_with(self, other: Self) -> bool {
        self.start == other.start
    }

    /// Returns the part of this period after the end of `earlier`, which began at the same moment.
    #[must_use]
    pub fn after(self, earlier: Self) -> Self {
        let start = earlier.start.checked_add(earlier.duration).unwrap_or(self.start);
        Self { start, duration: self.duration.saturating_sub(earlier.duration) }
    }

    /// Returns the start in UTC, as RFC 3339 writes it, to the microsecond.
    pub fn start(self) -> Rfc3339 {
        Rfc3339(self.start)
    }
}

/// An empty period that starts now.
impl Default for Period {
    fn default() -> Self {
        Self { start: SystemTime::now(), duration: Duration::ZERO }
    }
}

impl PartialEq for Period {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Period {}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} + {:?}", self.start(), self.duration)
    }
}

/// A moment: `2026-11-22T10:03:51.000017Z`.
#[derive(Clone, Copy)]
pub struct Rfc3339(SystemTime);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z",
            since.subsec_micros()
        )
    }
}

/// Returns year, month and day of a day after 1970-01-01, in the Gregorian calendar. Years are
/// counted from March on, so that the leap day is the last day of a year. Four centuries have
/// 146,097 days.
fn date(days: u64) -> (u64, u64, u64) {
    // Days from 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (centuries, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, months have 31, 30, 31, 30, 31 days, repeatedly: 153 days in five months.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (400 * centuries + year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_print_as_rfc_3339() {
        for (seconds, written) in [
            (0, "1970-01-01T00:00:00.000017Z"),
            (951_782_400, "2000-02-29T00:00:00.000017Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000017Z"),
            (1_795_341_831, "2026-11-22T10:03:51.000017Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000017Z"),
            (253_402_300_799, "9999-12-31T23:59:59.000017Z"),
        ] {
            let moment = UNIX_EPOCH + Duration::new(seconds, 17_000);
            assert_eq!(Rfc3339(moment).to_string(), written);
        }
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let lengths = |year: u64| {
            let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
            [31, 28 + u64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut days = 0;
        for year in 1970..2401 {
            for (month, length) in (1..).zip(lengths(year)) {
                for day in 1..=length {
                    assert_eq!(date(days), (year, month, day));
                    days += 1;
                }
            }
        }
    }

    #[test]
    fn the_part_of_a_period_after_another() {
        let start = UNIX_EPOCH + Duration::from_secs(100);
        let of = |seconds| Period { start, duration: Duration::from_secs(seconds) };
        let after = of(7).after(of(3));
        assert_eq!((after.start, after.duration), (start + Duration::from_secs(3), Duration::from_secs(4)));
        assert_eq!(of(3).after(of(7)).duration, Duration::ZERO);
    }
}
