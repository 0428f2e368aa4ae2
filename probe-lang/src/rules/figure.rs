//! The figures that conditions compare, and the consumer that each of them needs.

use std::fmt;

use super::window::Window;
use crate::units::Time;

/// A figure of the probes of a selector: `p99(net::handle)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    pub(super) function: Function,
    /// The figure's consumer, as `PROBES` has it: `net::handle=latency(buckets)`.
    pub(super) spec: String,
    text: String,
    unit: Unit,
}

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Hits in a second.
    Rate,
    /// A number without a unit.
    Number,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Function {
    Rate,
    Count,
    P50,
    P90,
    P99,
    P999,
    Mean,
    /// The longest call.
    Longest,
    /// The same: a limit that a single call exceeds.
    Latency,
    Sum,
    Avg,
    Min,
    Max,
}

impl Function {
    /// Returns the figure of this name. `max` is of calls, or of a field.
    pub(super) fn named(name: &str, is_of_field: bool) -> Option<Self> {
        Some(match (name, is_of_field) {
            ("rate", false) => Self::Rate,
            ("count", false) => Self::Count,
            ("p50", false) => Self::P50,
            ("p90", false) => Self::P90,
            ("p99", false) => Self::P99,
            ("p999", false) => Self::P999,
            ("mean", false) => Self::Mean,
            ("max", false) => Self::Longest,
            ("latency", false) => Self::Latency,
            ("sum", true) => Self::Sum,
            ("avg", true) => Self::Avg,
            ("min", true) => Self::Min,
            ("max", true) => Self::Max,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Count => "count",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Mean => "mean",
            Self::Longest | Self::Max => "max",
            Self::Latency => "latency",
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Min => "min",
        }
    }

    /// Returns the part of the calls that a percentile covers, and the least number of calls that
    /// have one: with fewer, it would be the longest of them.
    fn quantile(self) -> Option<(f64, u64)> {
        match self {
            Self::P50 => Some((0.5, 2)),
            Self::P90 => Some((0.9, 10)),
            Self::P99 => Some((0.99, 100)),
            Self::P999 => Some((0.999, 1000)),
            _ => None,
        }
    }
}

/// The consumer of figures of calls' times.
pub(super) const TIMES: &str = "latency(buckets)";

impl Figure {
    /// A figure of hits, or of the times of calls.
    pub(super) fn of_hits(function: Function, selector: &str) -> Self {
        let (consumer, unit) = match function {
            Function::Rate => ("count", Unit::Rate),
            Function::Count => ("count", Unit::Number),
            _ => (TIMES, Unit::Time),
        };
        let text = format!("{}({selector})", function.name());
        Self { function, spec: format!("{selector}={consumer}"), text, unit }
    }

    /// A figure of a number, which is a field as a rule.
    pub(super) fn of_field(function: Function, number: &str, is_time: bool, selector: &str) -> Self {
        // A mean is a sum by a count.
        let consumer = if function == Function::Avg { "sum" } else { function.name() };
        Self {
            function,
            spec: format!("{selector}={consumer}({number})"),
            text: format!("{}({number} of {selector})", function.name()),
            unit: if is_time { Unit::Time } else { Unit::Number },
        }
    }

    /// Returns its unit.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns a value of it as people read it: `7.31 ms`, `1200/s`.
    pub fn shown(&self, value: f64) -> String {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let whole = value.round() as u64;
        let is_whole = value.fract() == 0.0 || value.abs() >= 1e3;
        let number = if is_whole { format!("{value:.0}") } else { format!("{value:.3}") };
        match self.unit {
            Unit::Time => Time(whole).to_string(),
            Unit::Rate => format!("{number}/s"),
            Unit::Number => number,
        }
    }

    /// Returns whether a window has a consumer of its own: extremes have no difference.
    pub(super) fn is_renewed(&self) -> bool {
        matches!(self.function, Function::Min | Function::Max)
    }

    /// Returns its value in a window; `None` if it is not known. `counted` are the hits since the
    /// rule began to count.
    pub(super) fn value(&self, window: &Window, counted: u64) -> Option<f64> {
        // A sum of fractions may be beyond all numbers.
        self.number(window, counted).filter(|value| value.is_finite())
    }

    fn number(&self, window: &Window, counted: u64) -> Option<f64> {
        let some = |value: f64| (window.count != 0).then_some(value);
        let mean = window.sum / window.count as f64;
        match self.function {
            Function::Rate => (window.seconds > 0.0).then(|| window.count as f64 / window.seconds),
            Function::Count => Some(counted as f64),
            Function::Mean | Function::Avg => some(mean),
            Function::Sum => some(window.sum),
            Function::Min => some(window.min?),
            Function::Longest | Function::Latency | Function::Max => some(window.max?),
            Function::P50 | Function::P90 | Function::P99 | Function::P999 => {
                let (part, least) = self.function.quantile()?;
                (window.timed() >= least).then(|| window.quantile(part))?
            }
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns figures and their values as people read them.
pub fn reasons(values: &[(Figure, f64)]) -> String {
    let shown = values.iter().map(|(figure, value)| format!("{figure} is {}", figure.shown(*value)));
    shown.collect::<Vec<_>>().join(", ")
}
