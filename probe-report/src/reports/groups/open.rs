//! Intervals that are under way when a report is made.

use std::borrow::Cow;

use super::Threads;
use crate::row::{Cell, Row};
use probe_lang::units::Time;

/// An interval of `until` or `held` that has begun and not ended, such as a lock that is held.
///
/// ```
/// use probe_runtime::{Aggregate, point, select};
///
/// let take = |lock: u64| point!("took", lock = lock);
/// let give = |lock: u64| point!("gave", lock = lock);
/// (take(0), give(0));
/// let held = select("**::took, **::gave")?.attach(Aggregate::new("until(**::gave) by(lock)")?)?;
/// take(7);
/// let groups = held.groups();
/// let open = &groups.get(&["7"]).unwrap().open()[0];
/// assert!(!open.has_thread_ended() && !open.may_have_ended());
/// println!("thread {} ({}) for {} ns", open.thread(), open.thread_name(), open.elapsed());
/// give(7);
/// assert_eq!(held.groups().get(&["7"]).unwrap().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OpenInterval {
    #[doc(hidden)]
    pub thread: u64,
    #[doc(hidden)]
    pub thread_name: String,
    #[doc(hidden)]
    pub elapsed: u64,
    #[doc(hidden)]
    pub has_thread_ended: bool,
    #[doc(hidden)]
    pub may_have_ended: bool,
}

impl OpenInterval {
    /// Returns the number of the thread that has begun it. Threads are counted from 1 in the order
    /// of their first hits of any probe.
    pub fn thread(&self) -> u64 {
        self.thread
    }

    /// Returns the thread's name at its first hit; empty if it is not known.
    pub fn thread_name(&self) -> &str {
        &self.thread_name
    }

    /// Returns the time since it has begun, in nanoseconds.
    pub fn elapsed(&self) -> u64 {
        self.elapsed
    }

    /// Returns whether the thread has ended, and the interval has not.
    pub fn has_thread_ended(&self) -> bool {
        self.has_thread_ended
    }

    /// Returns whether another thread has had an end without a beginning since, which may have
    /// ended this one.
    pub fn may_have_ended(&self) -> bool {
        self.may_have_ended
    }

    pub(super) fn row(&self) -> Row<'static> {
        let row = Row::new().with("thread", self.thread).with("name", self.thread_name.clone());
        let row = row.with("elapsed_ns", self.elapsed).with("thread_ended", self.has_thread_ended);
        row.with("may_have_ended", self.may_have_ended)
    }
}

/// Shows the longest of a group's open intervals, and how many there are besides.
pub(super) fn shown(open: &[OpenInterval], threads: &Threads) -> Option<String> {
    let longest = longest(open)?;
    let thread = threads.shown(&longest.thread.to_string());
    let ended = if longest.has_thread_ended { ", which has ended" } else { "" };
    let may_have = if longest.may_have_ended { ", if no other thread has ended it" } else { "" };
    let shown = format!("{} by {thread}{ended}{may_have}", Time(longest.elapsed));
    Some(match open.len() - 1 {
        0 => shown,
        more => format!("{shown}; {more} more"),
    })
}

/// Cells for tables of programs: how many there are, and the longest one.
pub(super) fn cells(open: &[OpenInterval]) -> [(&'static str, Cell<'static>); 3] {
    let longest = longest(open);
    let or_nothing = |number: fn(&OpenInterval) -> u64| longest.map_or(Cell::Nothing, |it| number(it).into());
    [
        ("open", open.len().into()),
        ("open_ns", or_nothing(OpenInterval::elapsed)),
        ("open_thread", or_nothing(OpenInterval::thread)),
    ]
}

/// The heading of the column for people.
pub(super) const HEADING: Cow<'static, str> = Cow::Borrowed("open");

fn longest(open: &[OpenInterval]) -> Option<&OpenInterval> {
    open.iter().max_by_key(|it| it.elapsed)
}
