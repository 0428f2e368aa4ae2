//! Values on the command line.

use std::time::Duration;

use probe_lang::units;

/// A part of a hundred, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Percent(pub u32);

impl Percent {
    /// Returns the part of one.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 100_000.0
    }
}

/// Reads a percentage.
pub(super) fn percent(text: &str) -> Result<Percent, String> {
    match units::percent(text) {
        Some(percent) if (0.0..=1e6).contains(&percent) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
            let thousandths = (percent * 1e3).round() as u32;
            Ok(Percent(thousandths))
        }
        _ => Err(format!("`{text}` is no percentage; write `10%` or `2.5%`")),
    }
}

/// Reads the time of a window.
pub(super) fn window(text: &str) -> Result<Duration, String> {
    match units::time(text)? {
        time if time < Duration::from_millis(10) => Err("a window takes at least 10ms".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!(percent("10%"), Ok(Percent(10_000)));
        assert_eq!(percent("2.5"), Ok(Percent(2_500)));
        for text in ["", "%", "-1%", "nan", "1e9", "x"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn windows() {
        assert_eq!(window("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(window("9ms"), Err("a window takes at least 10ms".to_owned()));
        assert!(window("soon").is_err());
    }
}
