//! Writes the counts: as a table for people, as JSON and CSV for programs.

use std::fmt;

use super::event::{MissingEvent, PerfEvent, by_reason, reason};
use super::function::FunctionEvents;
use super::report::EventCounts;
use crate::engine::calls::Unpaired;
use crate::report::{
    Cell, Columns, Row, Rows, Table, Time, Written, decimal, document, json, labels, left_out, missing, was,
};

impl EventCounts {
    /// Returns the report as JSON: an object with the program, the time of measurement, and the
    /// functions as `rows`, which have the columns of [`to_csv`](Self::to_csv) (`null` if there is
    /// no number). It also has the `missing` events with their reasons, the paths of the functions
    /// that were `left_out`, and the number of calls that were `lost`.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// Returns the functions as comma-separated values (RFC 4180): a line each, under a heading.
    /// For each event there is its sum over the `counted` calls, from entry to exit and in the
    /// function itself. A cell is empty if there is no number.
    pub fn to_csv(&self) -> String {
        of_functions(&columns(self.events())).csv(&self.functions)
    }

    fn table(&self) -> Table {
        let seen = || self.functions.iter().filter(|it| it.is_seen());
        // Columns that are empty for all functions are left out.
        let is_sampled = self.budget.is_some();
        let has_ipc = seen().any(|it| it.ipc().is_some());
        let has_uncounted = seen().any(|it| it.uncounted() != 0);
        let has_unpaired = seen().any(|it| it.unpaired.total() != 0);
        let when = |is: bool, names: &'static [&'static str]| if is { names } else { &[] };
        let means: Vec<_> = self.events().map(|event| format!("{}/call", event.name())).collect();
        let mut heading = vec!["function", "calls"];
        heading.extend(when(is_sampled, &["±", "samples"]));
        heading.extend(when(has_ipc, &["IPC"]));
        for mean in &means {
            heading.push(mean);
            heading.extend(when(!is_sampled, &["self/call"]));
        }
        heading.extend(when(has_uncounted, &["uncounted"]));
        heading.extend(when(has_unpaired, &["unpaired"]));
        let mut table = Table::new(&heading);
        let labels = labels(seen().map(|it| it.function().into()).collect());
        for (it, label) in seen().zip(labels) {
            let [calls, error] = it.calls.cells(|it| decimal(it.round()));
            let mut row = vec![label, calls];
            if is_sampled {
                row.extend([error, it.counted().to_string()]);
            }
            if has_ipc {
                row.push(it.ipc().map_or_else(|| "-".to_owned(), |ipc| format!("{ipc:.2}")));
            }
            for event in self.events() {
                row.push(amount(event, it.mean(event)));
                if !is_sampled {
                    row.push(amount(event, it.mean_own(event)));
                }
            }
            if has_uncounted {
                row.push(it.uncounted().to_string());
            }
            if has_unpaired {
                row.push(it.unpaired.total().to_string());
            }
            table.row(row);
        }
        table
    }
}

/// Returns the columns of all functions, for these events.
fn columns(events: impl IntoIterator<Item = PerfEvent>) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![
        ("calls".to_owned(), Box::new(|it| it.calls.value.into())),
        ("calls_error".to_owned(), Box::new(|it| it.calls.known_error().into())),
        ("counted".to_owned(), Box::new(|it| it.counted().into())),
        ("uncounted".to_owned(), Box::new(|it| it.uncounted().into())),
    ];
    for event in events {
        let (name, unit) = (event.name().replace('-', "_"), unit(event));
        columns.push((format!("{name}{unit}"), Box::new(move |it| it.total(event).into())));
        columns.push((format!("{name}_self{unit}"), Box::new(move |it| it.own(event).into())));
    }
    columns.push(("ipc".to_owned(), Box::new(|it| it.ipc().into())));
    let mut unpaired = |name: &str, of: fn(&Unpaired) -> u64| {
        columns.push((name.to_owned(), Box::new(move |it| of(&it.unpaired).into())));
    };
    unpaired("without_entry", |it| it.without_entry);
    unpaired("without_exit", |it| it.without_exit);
    unpaired("cancelled", |it| it.cancelled);
    unpaired("pending", |it| it.pending);
    columns
}

#[cfg(feature = "serde")]
impl FunctionEvents {
    pub(crate) fn row(&self) -> Row<'_> {
        of_functions(&columns(self.events.iter().copied())).row(self)
    }
}

impl MissingEvent {
    pub(crate) fn row(&self) -> Row<'static> {
        Row::new().with("event", self.event().name()).with("reason", self.reason())
    }
}

impl Written for EventCounts {
    fn head(&self) -> Row<'static> {
        document("perf", self.period)
    }

    fn rows(&self) -> Rows<'_> {
        let columns = columns(self.events());
        Box::new(self.functions.iter().map(move |it| of_functions(&columns).row(it)))
    }

    fn rest(&self) -> Row<'_> {
        Row::new()
            .with("missing", self.missing.iter().map(MissingEvent::row).collect::<Cell<'_>>())
            .with("system_calls", self.takes_system_calls())
            .with("share", self.share())
            .with("threads_without_events", self.threads.refused)
            .with("left_out", left_out(&self.left_out))
            .with("lost", self.lost)
    }
}

/// A column of reports for programs: its name, and the number of a function.
type Column = (String, ColumnValue);
type ColumnValue = Box<dyn Fn(&FunctionEvents) -> Cell<'static>>;

fn of_functions(numbers: &[Column]) -> Columns<'_, FunctionEvents, String, ColumnValue> {
    Columns { function: |it| &it.function, numbers }
}

fn unit(event: PerfEvent) -> &'static str {
    if event == PerfEvent::TaskClock { "_ns" } else { "" }
}

/// Formats a mean for people.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded nanoseconds")]
fn amount(event: PerfEvent, mean: Option<f64>) -> String {
    match mean {
        None => "-".to_owned(),
        Some(mean) if event == PerfEvent::TaskClock => Time(mean.round() as u64).to_string(),
        Some(mean) if mean >= 100.0 => format!("{mean:.0}"),
        Some(mean) => decimal((mean * 100.0).round() / 100.0),
    }
}

impl fmt::Display for EventCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.table(), f)?;
        if !self.is_given {
            self.how(f)?;
        }
        by_reason(&self.missing).try_for_each(|missing| write!(f, "\nnot counted: {missing}"))?;
        if self.threads.refused != 0 {
            let threads = was(self.threads.refused, "thread");
            write!(f, "\n{threads} without events: {}", reason(self.threads.error))?;
        }
        if self.share() < MIN_FULL_SHARE {
            let percent = self.share() * 100.0;
            write!(f, "\nevents took turns, and were counted {percent:.1} % of the time; ask for fewer")?;
        }
        if let Some((cost, budget)) = self.budget {
            write!(f, "\ncost: {:.2} % of the CPU time; budget: {budget}", cost.share() * 100.0)?;
        }
        missing(self.lost, &self.left_out, f)
    }
}

/// The smallest share at which events count as measured all the time.
const MIN_FULL_SHARE: f64 = 0.999;

impl EventCounts {
    /// Writes how counts were read, and in which mode.
    fn how(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = self.cost_of_reading;
        match (self.threads.by_pages, self.threads.by_system_call) {
            (0, 0) => (),
            (_, 0) => write!(f, "\nread in user space, in {cost:.0} ns")?,
            _ => write!(f, "\nread by a system call at each hit, in {cost:.0} ns")?,
        }
        let user: Vec<_> =
            self.counted.iter().filter(|it| it.leaves_kernel_out()).map(|it| it.event.name()).collect();
        if !user.is_empty() {
            write!(f, "\nin user mode only: {}", user.join(", "))?;
        }
        Ok(())
    }
}
