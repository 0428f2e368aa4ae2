//! Units: of spans of time (`10s`), sizes of memory (`64K`), hits (`10K/s`) and shares (`1%`), as
//! people write them, and as reports show times. Pure.
//!
//! `K` of bytes is 1,024, as is `KiB`; `K` of hits is 1,000.

use std::fmt;
use std::time::Duration;

/// A unit, and the number of the smallest units in it: nanoseconds, bytes, or hits.
type Unit = (&'static str, u64);

const TIMES: [Unit; 7] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];
const SIZES: [Unit; 6] =
    [("K", 1 << 10), ("KiB", 1 << 10), ("M", 1 << 20), ("MiB", 1 << 20), ("G", 1 << 30), ("GiB", 1 << 30)];
const BYTE: Unit = ("B", 1);
const HITS: [Unit; 3] = [("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
/// The units in which reports show times.
const SHOWN: [Unit; 4] = [TIMES[2], TIMES[3], TIMES[5], TIMES[6]];

fn find(units: &[Unit], name: &str) -> Option<u64> {
    units.iter().find(|unit| unit.0 == name).map(|unit| unit.1)
}

/// Cuts a number from the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let number = text.trim_end_matches(char::is_alphabetic);
    (number.trim_end(), &text[number.len()..])
}

/// Returns the nanoseconds of a unit of time, or the bytes of one of memory.
pub fn factor(unit: &str) -> Option<u64> {
    find(&TIMES, unit).or_else(|| find(&SIZES, unit)).or_else(|| find(&[BYTE], unit))
}

/// Parses a span of time: a number and its unit.
///
/// # Errors
/// A description of the mistake and of the correct form.
pub fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, unit) = split(text);
    let seconds = || Some(number.parse::<f64>().ok()? * find(&TIMES, unit)? as f64 / 1e9);
    let span = seconds().and_then(|it| Duration::try_from_secs_f64(it).ok());
    span.filter(|it| !it.is_zero())
        .ok_or_else(|| format!("`{text}` is not a span of time; write `500ms`, `10s`, `5m` or `1h`"))
}

/// Returns the length of the number and the unit with which a text begins. A space may stand
/// between both.
pub fn quantity_len(text: &str) -> usize {
    let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | ')' | '&' | '|');
    let word = |text: &str| text.find(is_end).unwrap_or(text.len());
    let len = word(text);
    let unit = text[len..].trim_start();
    let end = word(unit);
    factor(&unit[..end]).map_or(len, |_| text.len() - unit.len() + end)
}

/// Parses a number of bytes and its unit.
///
/// # Errors
/// A description of the mistake and of the correct form.
pub fn size(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let (number, unit) = split(text);
    let bytes = || {
        let factor = if unit.is_empty() { 1 } else { find(&SIZES, unit)? };
        number.parse::<usize>().ok()?.checked_mul(usize::try_from(factor).ok()?)
    };
    bytes().ok_or_else(|| format!("`{text}` is not a size; write bytes, or `64K`, `16M`, `1G`"))
}

/// Parses a decimal number with one of these units, or without.
fn scaled(text: &str, units: &[Unit]) -> Option<f64> {
    let (number, unit) = split(text);
    let factor = if unit.is_empty() { 1 } else { find(units, unit)? };
    let is_number =
        number.starts_with(|c: char| c.is_ascii_digit() || c == '-') && !number.contains(['e', 'E']);
    let number = number.replace('_', "").parse::<f64>().ok().filter(|_| is_number)?;
    Some(number * factor as f64).filter(|it| it.is_finite())
}

/// Parses a number of hits: `1000`, `10K`.
pub fn hits(text: &str) -> Option<f64> {
    scaled(text, &HITS)
}

/// Parses a number of hits a second: `1000/s`, `10K/s`.
pub fn rate(text: &str) -> Option<f64> {
    hits(text.strip_suffix("/s")?.trim_end()).filter(|it| *it >= 0.0)
}

/// Parses a number that may be a size: `1000`, `64K`.
pub fn number(text: &str) -> Option<f64> {
    scaled(text, &SIZES)
}

/// Parses a percentage, such as `2.5%`, also without the sign: a number that is not negative.
pub fn percent(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    number.filter(|it: &f64| it.is_finite() && *it >= 0.0)
}

/// A time in nanoseconds. It is shown in the unit that leaves one to three digits before the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1000 {
            return f.pad(&format!("{} ns", self.0));
        }
        // A number that rounds up to a thousand is shown in the next unit.
        let (name, unit) = SHOWN
            .into_iter()
            .find(|(_, unit)| self.0.saturating_add(unit / 2_000) >= *unit)
            .unwrap_or(TIMES[6]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_ends_where_its_unit_does() {
        for (text, expected) in [
            ("5ms: snapshot", "5ms"),
            ("0.5 s, then", "0.5 s"),
            ("20µs", "20µs"),
            ("5ms snapshot", "5ms"),
            ("soon: snapshot", "soon"),
            ("", ""),
            (": snapshot", ""),
            ("10K/s&&", "10K/s"),
            ("1_000 then", "1_000"),
        ] {
            assert_eq!(&text[..quantity_len(text)], expected, "{text}");
        }
    }

    #[test]
    fn spans_of_time() {
        for (text, nanoseconds) in [
            ("10s", 10_000_000_000),
            ("500ms", 500_000_000),
            ("0.5 s", 500_000_000),
            ("5m", 300_000_000_000),
            ("1h", 3_600_000_000_000),
            ("20us", 20_000),
            ("20µs", 20_000),
            ("7ns", 7),
        ] {
            assert_eq!(time(text).map(|it| it.as_nanos()), Ok(nanoseconds), "{text}");
        }
        for text in ["", "s", "10", "0s", "-1s", "NaNs", "1e400s", "ten s", "infs"] {
            assert!(time(text).unwrap_err().contains("write `500ms`"), "{text}");
        }
    }

    #[test]
    fn sizes_of_memory() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("64 KiB", 65_536),
            ("16M", 16 << 20),
            ("1G", 1 << 30),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "K", "-1", "1.5M", "64k", "64B", "ten", "99999999999999999999", "18446744073709551615G"]
        {
            assert!(size(text).unwrap_err().ends_with("write bytes, or `64K`, `16M`, `1G`"), "{text}");
        }
    }

    #[test]
    fn a_thousand_hits_are_no_kibibyte() {
        assert_eq!((hits("10K"), rate("10K/s"), number("10K")), (Some(10e3), Some(10e3), Some(10_240.0)));
        assert_eq!(
            (hits("1_000"), rate("0.5 M/s"), number("2GiB")),
            (Some(1e3), Some(5e5), Some(2_147_483_648.0))
        );
        for text in ["", "K", "1e3", "inf", "1KiB", "10s", "x"] {
            assert_eq!((hits(text), rate(&format!("{text}/s"))), (None, None), "{text}");
        }
        assert_eq!((rate("10"), rate("-1/s"), hits("-1")), (None, None, Some(-1.0)));
        assert_eq!(
            (percent("2.5 %"), percent("0%"), percent("-1%"), percent("inf")),
            (Some(2.5), Some(0.0), None, None)
        );
    }

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
