//! A report as people see it, with its notes.

use std::borrow::Cow;
use std::fmt;

use crate::call_tree::{self, Place};
use crate::histogram::{self, Histogram};
use crate::table::{Table, TableCell};

/// The body of a view.
#[derive(Clone, PartialEq, Debug)]
pub enum Body<'a> {
    /// Of a consumer that writes its report itself.
    Text(Cow<'a, str>),
    Table(Table<'a>),
    CallTree(Vec<Place<'a>>),
    Histograms(Vec<Histogram<'a>>),
}

/// A report for people. It is drawn within the formatter's width, if there is one.
///
/// ```
/// use probe_report::{Table, Time, View};
///
/// let mut table = Table::new(["function", "mean"]);
/// table.push("app::store::read").push(Time(1_500));
/// let view = View::table(table);
/// assert_eq!(view.to_string(), "function             mean\napp::store::read  1.50 µs");
/// assert_eq!(format!("{view:21}"), "function         mean\n…store::read  1.50 µs");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct View<'a> {
    pub body: Body<'a>,
    /// Sentences below it, of a line or more each.
    pub notes: Vec<String>,
}

impl<'a> View<'a> {
    pub fn new(body: Body<'a>, notes: Vec<String>) -> Self {
        if let Body::Table(table) = &body {
            debug_assert!(table.is_whole(), "a cell for each column");
        }
        Self { body, notes }
    }

    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Body::Text(text.into()), Vec::new())
    }

    pub fn table(table: Table<'a>) -> Self {
        Self::new(Body::Table(table), Vec::new())
    }

    /// Changes each text that a table, a tree or a histogram has in a line: for texts of unknown
    /// origin.
    pub fn map_texts(&mut self, change: impl Fn(&str) -> Option<String>) {
        let change = |text: &mut Cow<'a, str>| {
            if let Some(changed) = change(text) {
                *text = changed.into();
            }
        };
        match &mut self.body {
            Body::Text(_) => (),
            Body::Table(table) => {
                table.heading.iter_mut().for_each(change);
                table.cells.iter_mut().flat_map(TableCell::texts).for_each(change);
            }
            Body::CallTree(places) => {
                places.iter_mut().flat_map(|it| [&mut it.name, &mut it.file]).for_each(change);
            }
            Body::Histograms(histograms) => {
                for it in histograms {
                    [&mut it.path, &mut it.file].into_iter().for_each(change);
                    it.keys.iter_mut().flat_map(|(name, key)| [name, key]).for_each(change);
                    let bounds = it.buckets.iter_mut().flat_map(|(from, to, _)| [from, to]);
                    bounds.flat_map(TableCell::texts).for_each(change);
                }
            }
        }
    }

    /// Returns whether the body has nothing but its heading.
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Text(text) => text.lines().nth(1).is_none(),
            Body::Table(table) => table.is_empty(),
            Body::CallTree(places) => places.is_empty(),
            Body::Histograms(histograms) => histograms.is_empty(),
        }
    }

    /// Returns whether the first line is a heading.
    pub fn has_heading(&self) -> bool {
        matches!(self.body, Body::Table(_) | Body::CallTree(_))
    }
}

impl fmt::Display for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = false;
        match &self.body {
            Body::Text(text) => {
                let text = text.strip_suffix('\n').unwrap_or(text);
                is_first = text.is_empty();
                f.write_str(text)?;
            }
            Body::Table(table) => fmt::Display::fmt(table, f)?,
            Body::CallTree(places) => call_tree::draw(places, f)?,
            Body::Histograms(histograms) => histogram::draw(histograms, f)?,
        }
        for note in &self.notes {
            if !std::mem::take(&mut is_first) {
                f.write_str("\n")?;
            }
            f.write_str(note)?;
        }
        Ok(())
    }
}
