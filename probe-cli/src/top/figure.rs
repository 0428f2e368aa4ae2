//! A number and its certainty.

use probe_report::Time;

/// The certainty of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certainty {
    /// It was counted or measured.
    Exact,
    /// It was estimated: `~`.
    Near,
    /// It is a lower bound: `≥`.
    AtLeast,
}

/// A number that is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// Its certainty.
    pub certainty: Certainty,
}

impl Figure {
    /// A number that was counted or measured.
    pub fn exact(value: f64) -> Self {
        Self { value, certainty: Certainty::Exact }
    }

    /// A number with this error. Without a known error it is a lower bound.
    pub fn estimated(value: f64, error: Option<f64>) -> Self {
        let certainty = match error {
            None => Certainty::AtLeast,
            Some(0.0) => Certainty::Exact,
            Some(_) => Certainty::Near,
        };
        Self { value, certainty }
    }

    /// Returns another number with the same certainty.
    #[must_use]
    pub fn with(self, value: f64) -> Self {
        Self { value, ..self }
    }

    /// Marks a form of its value by its certainty.
    fn marked(self, text: &str) -> String {
        let mark = match self.certainty {
            Certainty::Exact => "",
            Certainty::Near => "~",
            Certainty::AtLeast => "≥",
        };
        format!("{mark}{text}")
    }

    /// Writes a time in nanoseconds.
    pub fn time(self) -> String {
        self.marked(&Time(whole(self.value)).to_string())
    }

    /// Writes a number of things: `7`, `12.3k`.
    pub fn number(self) -> String {
        self.marked(&short(self.value))
    }

    /// Writes a fraction as a percentage.
    pub fn percent(self) -> String {
        self.marked(&format!("{:.1} %", 100.0 * self.value))
    }
}

/// Returns a dash for an unknown number.
pub fn or_dash(figure: Option<Figure>, text: impl Fn(Figure) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), text)
}

/// Rounds to a whole number; 0 for negative numbers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn short(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // A number that rounds up to a thousand takes the next unit.
    match UNITS.into_iter().find(|(unit, _)| value >= unit * 0.9995) {
        Some((unit, name)) => {
            let scaled = value / unit;
            let decimals = if scaled < 9.995 { 2 } else { usize::from(scaled < 99.95) };
            format!("{scaled:.decimals$}{name}")
        }
        None if value >= 99.95 || value.fract() == 0.0 => format!("{value:.0}"),
        None if value >= 9.995 => format!("{value:.1}"),
        None => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_mark() {
        for (value, shown) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (7.0, "7"),
            (12.34, "12.3"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (999_600.0, "1.00M"),
            (5e9, "5.00G"),
        ] {
            assert_eq!(Figure::exact(value).number(), shown);
        }
        assert_eq!(Figure::estimated(1500.0, Some(3.0)).time(), "~1.50 µs");
        assert_eq!(Figure::estimated(1500.0, None).number(), "≥1.50k");
        assert_eq!(Figure::estimated(0.5, Some(0.0)).percent(), "50.0 %");
        assert_eq!(or_dash(None, Figure::number), "-");
    }
}
