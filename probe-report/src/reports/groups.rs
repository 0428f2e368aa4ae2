//! The groups of hits at one moment, merged over all threads.

mod formats;
mod open;

pub use open::OpenInterval;

use std::collections::BTreeMap;

use crate::histogram::grown;
use crate::source::Period;
use probe_lang::aggregation::Aggregation;

/// The groups of an `Aggregate` at one moment: the one with the most hits
/// first. Prints as a table.
///
/// ```
/// use probe_runtime::{Aggregate, point, select};
/// let send = |bytes: u64| point!("sent", bytes = bytes);
/// send(0);
/// let sent = select("**::sent")?.attach(Aggregate::new("quantize(bytes)")?)?;
/// [1, 5, 6, 7].map(send);
/// let groups = sent.reset();
/// assert_eq!(groups[0].buckets(), [(1, 1, 1), (4, 7, 3)]);
/// assert!(groups.to_csv().ends_with(",4,7,3\n"));
/// assert!(sent.groups().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Groups {
    aggregation: Aggregation,
    rows: Vec<Group>,
    threads: Threads,
    lost: u64,
    /// Hits and probes that are left out, a line each.
    notes: Vec<String>,
    period: Period,
}

/// One group of hits, see [`Groups`].
///
/// ```
/// use probe_runtime::{Aggregate, point, select};
/// let send = |bytes: i64| point!("moved", bytes = bytes);
/// send(0);
/// let moved = select("**::moved")?.attach(Aggregate::new("avg(bytes) by(bytes < 0 || true, thread)")?);
/// assert!(moved.is_err(), "a condition is no key");
/// let moved = select("**::moved")?.attach(Aggregate::new("avg(bytes)")?)?;
/// [-1, 5].map(send);
/// let groups = moved.groups();
/// let group = &groups[0];
/// assert_eq!((group.count(), group.sum(), group.min(), group.max()), (2, 4.0, -1.0, 5.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Group {
    #[doc(hidden)]
    pub path: String,
    #[doc(hidden)]
    pub file: String,
    #[doc(hidden)]
    pub line: u32,
    #[doc(hidden)]
    pub is_others: bool,
    /// Whether its numbers are nanoseconds.
    #[doc(hidden)]
    pub is_time: bool,
    /// The key that is a thread's number, counted from 0.
    #[doc(hidden)]
    pub thread: Option<usize>,
    /// The key that is a stack, counted from 0.
    #[doc(hidden)]
    pub stack: Option<usize>,
    #[doc(hidden)]
    pub keys: Vec<String>,
    /// The keys as they were written: texts that were cut are apart here.
    #[doc(hidden)]
    pub written: Vec<u64>,
    #[doc(hidden)]
    pub figures: Figures,
    #[doc(hidden)]
    pub open: Vec<OpenInterval>,
}

#[doc(hidden)]
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Figures {
    pub count: u64,
    pub sum: Number,
    pub min: Number,
    pub max: Number,
    /// Whether `min` and `max` may be of hits before the last reset.
    pub are_bounds: bool,
    /// The least and the greatest number of buckets that are not empty, ascending, and their hits.
    pub buckets: Vec<((i128, i128), u64)>,
}

/// A whole or a floating-point number.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Int(i128),
    Float(f64),
}

impl Default for Number {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Self::Int(it) => it as f64,
            Self::Float(it) => it,
        }
    }

    fn join(self, other: Self, ints: fn(i128, i128) -> i128, floats: fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Self::Int(ints(a, b)),
            (a, b) => Self::Float(floats(a.float(), b.float())),
        }
    }
}

impl Figures {
    pub fn add(&mut self, other: Self) {
        if self.count == 0 {
            *self = other;
            return;
        }
        if other.count == 0 {
            return;
        }
        self.count += other.count;
        self.sum = self.sum.join(other.sum, |a, b| a + b, |a, b| a + b);
        self.min = self.min.join(other.min, Ord::min, f64::min);
        self.max = self.max.join(other.max, Ord::max, f64::max);
        let mut buckets: BTreeMap<_, _> = self.buckets.drain(..).collect();
        other.buckets.into_iter().for_each(|(at, hits)| *buckets.entry(at).or_default() += hits);
        self.buckets = buckets.into_iter().collect();
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum: self.sum.join(earlier.sum, |a, b| a - b, |a, b| a - b),
            are_bounds: self.are_bounds || earlier.count != 0,
            buckets: grown(&self.buckets, &earlier.buckets),
            ..*self
        }
    }
}

/// The names of threads, by their numbers.
#[doc(hidden)]
#[derive(Clone, Default, Debug)]
pub struct Threads(pub BTreeMap<u64, String>);

impl Threads {
    /// Returns a thread's name, with its number if another one has that name; the number alone if
    /// the name is not known.
    fn shown(&self, number: &str) -> String {
        let Some(name) = number.parse().ok().and_then(|it| self.0.get(&it)) else { return number.to_owned() };
        let is_ambiguous = self.0.values().filter(|it| *it == name).nth(1).is_some();
        if is_ambiguous { format!("{name} ({number})") } else { name.clone() }
    }
}

impl Groups {
    /// Returns a group's keys for people: threads have their names.
    fn shown_keys(&self, group: &Group) -> Vec<String> {
        let mut keys = group.keys.clone();
        if let Some(key) = group.thread.and_then(|at| keys.get_mut(at)) {
            *key = self.threads.shown(key);
        }
        keys
    }

    #[doc(hidden)]
    pub fn new(
        aggregation: &Aggregation,
        rows: Vec<Group>,
        threads: Threads,
        lost: u64,
        notes: Vec<String>,
        period: Period,
    ) -> Self {
        Self { aggregation: aggregation.clone(), rows, threads, lost, notes, period }.sorted()
    }

    fn sorted(mut self) -> Self {
        let place = |it: &Group| (it.is_others, std::cmp::Reverse(it.figures.count));
        self.rows.sort_by(|a, b| {
            let order = place(a).cmp(&place(b)).then_with(|| a.path.cmp(&b.path));
            order.then_with(|| a.keys.cmp(&b.keys)).then_with(|| a.written.cmp(&b.written))
        });
        self
    }

    /// Returns the hits after an earlier reading of the same attachment. A least or greatest number
    /// of that time is not known then: those of all hits are bounds of it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if !self.period.begins_with(earlier.period) {
            return self.clone();
        }
        let key = |it: &Group| (it.path.clone(), it.file.clone(), it.line, it.is_others, it.written.clone());
        let before: BTreeMap<_, _> = earlier.rows.iter().map(|it| (key(it), &it.figures)).collect();
        let since = |it: &Group| match before.get(&key(it)) {
            None => it.clone(),
            Some(before) => Group { figures: it.figures.since(before), ..it.clone() },
        };
        let groups = self.rows.iter().map(since).filter(|it| it.figures.count != 0 || !it.open.is_empty());
        Self {
            aggregation: self.aggregation.clone(),
            rows: groups.collect(),
            threads: self.threads.clone(),
            lost: self.lost.saturating_sub(earlier.lost),
            notes: self.notes.clone(),
            period: self.period.after(earlier.period),
        }
        .sorted()
    }

    /// Returns the first group with these keys, of any probe.
    pub fn get(&self, keys: &[&str]) -> Option<&Group> {
        self.rows.iter().find(|group| !group.is_others && group.keys == keys)
    }

    /// Returns the hits that found no room for a group of their own.
    pub fn others(&self) -> u64 {
        self.rows.iter().filter(|it| it.is_others).map(Group::count).sum()
    }

    /// Returns notes on hits and probes that are left out, and on groups without room, a line each.
    /// They are about all hits since it was attached.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        match self.others() {
            0 => (),
            hits => notes.push(format!("{hits} hits are in no group of their own: there are too many")),
        }
        if self.lost != 0 {
            notes.push(format!("{} hits were lost: no memory for their threads' groups", self.lost));
        }
        notes
    }

    /// Returns the hits of threads for which there was no memory.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

list!(Groups, rows, Group, "groups");

impl Group {
    /// Returns the path of its probe or function; `(others)` for hits that found no room.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the values of its keys, in the order of the text. A long one ends with `…`.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Returns whether these are the hits that found no room for a group of their own.
    pub fn is_others(&self) -> bool {
        self.is_others
    }

    /// Returns its hits: those whose number could be added, if there is one.
    pub fn count(&self) -> u64 {
        self.figures.count
    }

    /// Returns the sum of its numbers, rounded to a floating-point number. Times are in
    /// nanoseconds.
    pub fn sum(&self) -> f64 {
        self.figures.sum.float()
    }

    /// Returns the mean of its numbers; 0 without any.
    pub fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum() / self.count() as f64 }
    }

    /// Returns its least number, of all hits since it was attached.
    pub fn min(&self) -> f64 {
        self.figures.min.float()
    }

    /// Returns its greatest number, of all hits since it was attached.
    pub fn max(&self) -> f64 {
        self.figures.max.float()
    }

    /// Returns the intervals of `until` and `held` that have begun, and had not ended when this was
    /// read.
    pub fn open(&self) -> &[OpenInterval] {
        &self.open
    }

    /// Returns the buckets that hold hits: the least and the greatest number of each, and its hits.
    /// `quantize` has one for each power of two, functions of times 32, others none.
    pub fn buckets(&self) -> Vec<(i128, i128, u64)> {
        self.figures.buckets.iter().map(|((low, high), hits)| (*low, *high, *hits)).collect()
    }

    /// Returns the number that this part of all is at most, such as 0.99, to the resolution of its
    /// [`buckets`](Self::buckets); 0 without any.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
    pub fn quantile(&self, part: f64) -> f64 {
        let buckets = self.buckets();
        let all: u64 = buckets.iter().map(|(_, _, hits)| hits).sum();
        let rank = ((all as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        for (low, high, hits) in buckets {
            below += hits;
            if below >= rank {
                let middle = (low + (high - low) / 2) as f64;
                return if self.figures.are_bounds { middle } else { middle.max(self.min()).min(self.max()) };
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_shown_by_their_names() {
        let names = [(1, "main"), (2, "worker"), (3, "worker"), (12, "io")];
        let threads = Threads(names.map(|(number, name)| (number, name.to_owned())).into());
        let shown = ["1", "2", "3", "12", "4", "(absent)"].map(|it| threads.shown(it));
        assert_eq!(shown, ["main", "worker (2)", "worker (3)", "io", "4", "(absent)"]);
    }
}
