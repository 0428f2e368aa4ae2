//! Reports in parts, as they travel: none is much larger than the others, and who puts them
//! together knows the memory of each.

use std::borrow::Cow;
use std::{iter, mem};

use probe_lang::error::floor_char_boundary;

use crate::call_tree::Place;
use crate::histogram::Histogram;
use crate::row::{Cell, Document, Row};
use crate::table::{Shown, Table, TableCell};
use crate::view::{Body, View};

/// A part of a document or of a view.
///
/// ```
/// use probe_report::{Part, View};
///
/// let mut view = View::text("");
/// assert!(view.add(Part::Heading(vec!["hits".into()])));
/// assert!(view.add(Part::Cells(vec![7_u64.into()])));
/// assert_eq!(view.to_string(), "hits\n   7");
/// ```
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Part<'a> {
    /// The members before a document's rows.
    Head(Row<'a>),
    Rows(Vec<Row<'a>>),
    /// The members after them.
    Rest(Row<'a>),
    /// Text of a view.
    Text(Cow<'a, str>),
    /// The heading of a view's table.
    Heading(Vec<Cow<'a, str>>),
    /// Cells below it, row by row.
    Cells(Vec<TableCell<'a>>),
    Places(Vec<Place<'a>>),
    Histograms(Vec<Histogram<'a>>),
    /// Of either.
    Notes(Vec<String>),
}

/// The bytes of memory that a value takes, which are more than those of a message.
trait Memory {
    fn memory(&self) -> usize;
}

impl Memory for Row<'_> {
    fn memory(&self) -> usize {
        let member = |(name, cell): &(Cow<'_, str>, Cell<'_>)| size_of_val(name) + name.len() + cell.memory();
        size_of::<Self>() + self.0.iter().map(member).sum::<usize>()
    }
}

impl Memory for Cell<'_> {
    fn memory(&self) -> usize {
        let inner = match self {
            Self::Text(text) => text.len(),
            Self::Texts(texts) => memory(texts),
            Self::Row(row) => row.memory(),
            Self::Rows(rows) => memory(rows),
            _ => 0,
        };
        size_of::<Self>() + inner
    }
}

impl Memory for TableCell<'_> {
    fn memory(&self) -> usize {
        let inner = match &self.value {
            Shown::Text(text) => text.len(),
            Shown::Name { path, file, .. } => path.len() + file.len(),
            _ => 0,
        };
        size_of::<Self>() + inner
    }
}

impl Memory for Place<'_> {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.file.len()
    }
}

impl Memory for Histogram<'_> {
    fn memory(&self) -> usize {
        let key = |(name, key): &(Cow<'_, str>, Cow<'_, str>)| 2 * size_of_val(name) + name.len() + key.len();
        let keys: usize = self.keys.iter().map(key).sum();
        let bucket = |(from, to, _): &(TableCell<'_>, TableCell<'_>, u64)| from.memory() + to.memory() + 8;
        let buckets: usize = self.buckets.iter().map(bucket).sum();
        size_of::<Self>() + self.path.len() + self.file.len() + keys + buckets
    }
}

impl Memory for String {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.len()
    }
}

impl Memory for Cow<'_, str> {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.len()
    }
}

fn memory(values: &[impl Memory]) -> usize {
    values.iter().map(Memory::memory).sum()
}

impl Part<'_> {
    /// Returns the bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        match self {
            Self::Head(row) | Self::Rest(row) => row.memory(),
            Self::Rows(rows) => memory(rows),
            Self::Text(text) => text.len(),
            Self::Heading(names) => memory(names),
            Self::Cells(cells) => memory(cells),
            Self::Places(places) => memory(places),
            Self::Histograms(histograms) => memory(histograms),
            Self::Notes(notes) => memory(notes),
        }
    }
}

/// Sends values in parts of about this many bytes.
fn send_in_parts<V: Memory, E>(
    values: impl IntoIterator<Item = V>,
    bytes: usize,
    mut send: impl FnMut(Vec<V>) -> Result<(), E>,
) -> Result<(), E> {
    let (mut part, mut taken) = (Vec::new(), 0);
    for value in values {
        taken += value.memory();
        part.push(value);
        if taken >= bytes {
            send(mem::take(&mut part))?;
            taken = 0;
        }
    }
    if part.is_empty() { Ok(()) } else { send(part) }
}

/// Cuts a text into parts of at most this many bytes, but for a longer character.
pub fn text_parts(text: &str, bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        let at = floor_char_boundary(rest, bytes).max(rest.chars().next()?.len_utf8());
        let (part, after) = rest.split_at(at);
        rest = after;
        Some(part)
    })
}

impl<'a> Document<'a> {
    /// Sends a document in parts of about this many bytes, without a copy of all rows.
    ///
    /// # Errors
    /// The first of `send`.
    pub fn send<E>(
        head: Row<'a>,
        rows: impl Iterator<Item = Row<'a>>,
        rest: Row<'a>,
        notes: Vec<String>,
        bytes: usize,
        mut send: impl FnMut(Part<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        send(Part::Head(head))?;
        send_in_parts(rows, bytes, |rows| send(Part::Rows(rows)))?;
        send(Part::Rest(rest))?;
        send_in_parts(notes, bytes, |notes| send(Part::Notes(notes)))
    }

    /// Adds a part. Returns whether it is one of a document.
    #[must_use]
    pub fn add(&mut self, part: Part<'a>) -> bool {
        match part {
            Part::Head(head) => self.head = head,
            Part::Rows(rows) => self.rows.extend(rows),
            Part::Rest(rest) => self.rest = rest,
            Part::Notes(notes) => self.notes.extend(notes),
            _ => return false,
        }
        true
    }
}

impl<'a> View<'a> {
    /// Sends the view in parts of about this many bytes.
    ///
    /// # Errors
    /// The first of `send`.
    pub fn send<E>(self, bytes: usize, mut send: impl FnMut(Part<'a>) -> Result<(), E>) -> Result<(), E> {
        match self.body {
            Body::Text(text) => {
                text_parts(&text, bytes).try_for_each(|part| send(Part::Text(part.to_owned().into())))?;
            }
            Body::Table(Table { heading, cells }) => {
                send(Part::Heading(heading))?;
                send_in_parts(cells, bytes, |cells| send(Part::Cells(cells)))?;
            }
            Body::CallTree(places) => {
                // An empty tree is one, too.
                send(Part::Places(Vec::new()))?;
                send_in_parts(places, bytes, |places| send(Part::Places(places)))?;
            }
            Body::Histograms(histograms) => {
                send(Part::Histograms(Vec::new()))?;
                send_in_parts(histograms, bytes, |histograms| send(Part::Histograms(histograms)))?;
            }
        }
        send_in_parts(self.notes, bytes, |notes| send(Part::Notes(notes)))
    }

    /// Adds a part. Returns whether it fits to those before it.
    #[must_use]
    pub fn add(&mut self, part: Part<'a>) -> bool {
        let is_new = matches!(&self.body, Body::Text(text) if text.is_empty());
        match (part, &mut self.body) {
            (Part::Notes(notes), _) => self.notes.extend(notes),
            (Part::Text(part), Body::Text(text)) => text.to_mut().push_str(&part),
            (Part::Cells(part), Body::Table(table)) => table.cells.extend(part),
            (Part::Places(part), Body::CallTree(places)) => places.extend(part),
            (Part::Histograms(part), Body::Histograms(histograms)) => histograms.extend(part),
            (Part::Heading(heading), body) if is_new => {
                *body = Body::Table(Table { heading, cells: Vec::new() });
            }
            (Part::Places(places), body) if is_new => *body = Body::CallTree(places),
            (Part::Histograms(histograms), body) if is_new => *body = Body::Histograms(histograms),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Definition;

    fn parts<'a>(view: &View<'a>, bytes: usize) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        let add = |part| {
            parts.push(part);
            Ok::<_, ()>(())
        };
        view.clone().send(bytes, add).unwrap();
        parts
    }

    #[test]
    fn a_view_is_the_same_in_parts() {
        let mut table = Table::new(["function", "calls"]);
        for calls in 0..100_u64 {
            table.push(Definition { path: "app::go", file: "a.rs", line: 3 }).push(calls);
        }
        let places = vec![Place { name: "app::go".into(), total: 7, ..Place::default() }; 50];
        let histogram = Histogram {
            path: "p".into(),
            file: "f".into(),
            line: 1,
            keys: vec![("k".into(), "v".into())],
            hits: 3,
            buckets: vec![(1_u64.into(), 2_u64.into(), 3)],
        };
        let bodies = [
            Body::Text("é".repeat(1000).into()),
            Body::Table(table),
            Body::Table(Table::new(["function"])),
            Body::CallTree(places),
            Body::CallTree(Vec::new()),
            Body::Histograms(vec![histogram; 9]),
            Body::Histograms(Vec::new()),
        ];
        for body in bodies {
            let view = View::new(body, vec!["a note".to_owned(); 20]);
            for bytes in [1, 300, 1 << 20] {
                let mut again = View::text("");
                for part in parts(&view, bytes) {
                    assert!(part.memory() <= bytes + 400, "{part:?}");
                    assert!(again.add(part));
                }
                assert_eq!(again, view);
            }
        }
    }

    #[test]
    fn a_document_is_the_same_in_parts() {
        let row = |calls: u64| Row::new().with("function", "app::go").with("calls", calls);
        let document = Document {
            head: row(1),
            rows: (0..90).map(row).collect(),
            rest: Row::new().with("lost", 3_u64),
            notes: vec!["a note".to_owned(), "another".to_owned()],
        };
        let mut again = Document::default();
        let Document { head, rows, rest, notes } = document.clone();
        let mut count = 0;
        let add = |part: Part<'static>| {
            count += 1;
            if again.add(part) { Ok(()) } else { Err(()) }
        };
        Document::send(head, rows.into_iter(), rest, notes, 1000, add).unwrap();
        assert_eq!(again, document);
        assert!(count > 10);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        assert!(!Document::default().add(Part::Cells(Vec::new())));
        assert!(!View::text("a").add(Part::Heading(Vec::new())));
        assert!(!View::text("").add(Part::Cells(Vec::new())));
        assert!(!View::text("").add(Part::Head(Row::new())));
    }
}
