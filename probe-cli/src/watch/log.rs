//! The log: a line for each event, on stdout. It is text, or an object of JSON on each line.

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use probe_lang::rules::{Event, Figure, Firing, Totals, Unit};
use serde::Serialize;

use crate::output::{Failure, map_pipe_error};
use crate::text::{escape, escape_json};

/// Writes events.
#[derive(Clone, Copy)]
pub struct Log {
    is_json: bool,
    begin: Instant,
}

#[derive(Serialize)]
struct Line<'a> {
    seconds: f64,
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    firing: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<FigureValue>,
    #[serde(flatten)]
    totals: Option<RuleTotals>,
}

#[derive(Serialize)]
struct FigureValue {
    figure: String,
    value: f64,
    unit: &'static str,
}

#[derive(Serialize)]
struct RuleTotals {
    firings: u32,
    windows: u64,
    unknown: u64,
}

impl Log {
    /// Begins, now.
    pub fn stdout(is_json: bool) -> Self {
        Self { is_json, begin: Instant::now() }
    }

    /// Returns the time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Writes an event, of a rule by its number from 0.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn event(&self, event: Event, rule: Option<usize>, text: impl fmt::Display) -> Result<(), Failure> {
        let text = text.to_string();
        self.write(&Line { text: &text, ..self.line(event, rule) }, &text)
    }

    /// Writes that a rule has fired, with its figures.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn fired(&self, firing: &Firing<'_>) -> Result<(), Failure> {
        let value = |(figure, value): &(Figure, f64)| FigureValue {
            figure: figure.to_string(),
            value: *value,
            unit: match figure.unit() {
                Unit::Time => "ns",
                Unit::Rate => "/s",
                Unit::Number => "",
            },
        };
        let values = firing.values.iter().map(value).collect();
        let line = self.line(Event::Fired, Some(firing.rule));
        self.write(&Line { firing: Some(firing.number), values, ..line }, &firing.to_string())
    }

    /// Writes the numbers of a rule.
    ///
    /// # Errors
    /// If nobody reads the log any further.
    pub fn summary(&self, rule: usize, totals: Totals) -> Result<(), Failure> {
        let Totals { windows, unknown, firings } = totals;
        let counted = RuleTotals { firings, windows, unknown };
        self.write(
            &Line { totals: Some(counted), ..self.line(Event::Summary, Some(rule)) },
            &totals.to_string(),
        )
    }

    fn line(&self, event: Event, rule: Option<usize>) -> Line<'static> {
        let seconds = self.elapsed().as_millis() as f64 / 1e3;
        let rule = rule.map(|rule| rule.saturating_add(1));
        Line {
            seconds,
            event: event.to_string(),
            rule,
            firing: None,
            text: "",
            values: Vec::new(),
            totals: None,
        }
    }

    fn write(&self, line: &Line<'_>, text: &str) -> Result<(), Failure> {
        let written = if self.is_json {
            let document = serde_json::to_string(line).map_err(Failure::input)?;
            format!("{}\n", escape_json(&document))
        } else {
            let rule = line.rule.map(|rule| format!("rule {rule} ")).unwrap_or_default();
            format!("{:>10.3}  {rule}{}: {}\n", line.seconds, line.event, escape(text))
        };
        let mut out = io::stdout().lock();
        map_pipe_error(out.write_all(written.as_bytes()).and_then(|()| out.flush()))
    }
}
