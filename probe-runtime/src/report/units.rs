//! Numbers for people: times with three significant digits and a unit; numbers with their nouns.

use std::fmt;

/// A time in nanoseconds. It is shown in the unit that leaves one to three digits before the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time(pub u64);

/// The length of each unit in nanoseconds, and its name.
const UNITS: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1000 {
            return f.pad(&format!("{} ns", self.0));
        }
        // A number that rounds up to a thousand is shown in the next unit.
        let (unit, name) = UNITS
            .into_iter()
            .find(|(unit, _)| self.0.saturating_add(unit / 2_000) >= *unit)
            .unwrap_or((1, "ns"));
        let text = |decimals: usize| {
            let power = 10_u128.pow(u32::try_from(decimals).unwrap_or_default());
            let scaled = (u128::from(self.0) * power + u128::from(unit) / 2) / u128::from(unit);
            match decimals {
                0 => format!("{scaled} {name}"),
                _ => format!("{}.{:0decimals$} {name}", scaled / power, scaled % power),
            }
        };
        // Thresholds for the digits after rounding.
        let decimals = match u128::from(self.0) * 1000 / u128::from(unit) {
            ..9_995 => 2,
            9_995..99_950 => 1,
            _ => 0,
        };
        f.pad(&text(decimals))
    }
}

/// Returns a number of things: `1 call`, `2 calls`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the same with a verb: `1 call was`, `2 calls were`.
pub fn was(number: u64, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "was" } else { "were" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (time, shown) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (1_234, "1.23 µs"),
            (9_994, "9.99 µs"),
            (9_996, "10.0 µs"),
            (99_949, "99.9 µs"),
            (99_951, "100 µs"),
            (999_499, "999 µs"),
            (999_501, "1.00 ms"),
            (12_345_678, "12.3 ms"),
            (999_999_999, "1.00 s"),
            (61_000_000_000, "61.0 s"),
            (3_600_000_000_000, "3600 s"),
        ] {
            assert_eq!(Time(time).to_string(), shown, "{time}");
        }
        assert_eq!(format!("{:>8}", Time(7)), "    7 ns");
    }
}
