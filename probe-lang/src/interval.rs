//! Spans of time as people write them: `10s`, `500ms`. Pure.

use std::time::Duration;

/// Units, and the number of seconds in each.
const UNITS: [(&str, f64); 6] =
    [("h", 3600.0), ("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("s", 1.0)];

/// Parses a number and its unit.
///
/// # Errors
/// A description of the mistake and of the correct form.
pub fn interval(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is not a span of time; write `500ms`, `10s`, `5m` or `1h`");
    let minutes = ("m", 60.0);
    let (number, (_, unit)) = (UNITS.iter().chain([&minutes]))
        .find_map(|unit| Some((text.strip_suffix(unit.0)?, unit)))
        .ok_or_else(wrong)?;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let span = Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    if span.is_zero() { Err(wrong()) } else { Ok(span) }
}

/// Returns the length of the number and the unit with which a text begins.
pub fn time_len(text: &str) -> usize {
    let number = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = text[number..].trim_start();
    let end = unit.find(|c: char| !c.is_alphanumeric()).unwrap_or(unit.len());
    text.len() - unit.len() + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ends_where_its_unit_does() {
        for (text, time) in [
            ("5ms: snapshot", "5ms"),
            ("0.5 s, then", "0.5 s"),
            ("20µs", "20µs"),
            ("5ms snapshot", "5ms"),
            ("soon: snapshot", "soon"),
            ("", ""),
            (": snapshot", ""),
        ] {
            assert_eq!(&text[..time_len(text)], time, "{text}");
        }
    }

    #[test]
    fn a_number_and_a_unit() {
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
            assert_eq!(interval(text).map(|it| it.as_nanos()), Ok(nanoseconds), "{text}");
        }
        for text in ["", "s", "10", "0s", "-1s", "NaNs", "1e400s", "ten s", "infs"] {
            assert!(interval(text).unwrap_err().contains("write `500ms`"), "{text}");
        }
    }
}
