//! What the control has yet to look at.
//!
//! Life: a hook that discovers something, or leaves something to be done, notes the discovery: a
//! bit in its chunk. The next operation takes all that was noted, and looks at that alone. It looks
//! at everything where everything may have changed: how text is written, or that a process is a
//! forked child, whose parent's threads may have been about to note something.
//!
//! Cost: a locked instruction to note what is not noted yet, a load to note it again. To take the
//! notes, two cache lines for each 1,024 call sites, if there are any at all.

use std::sync::atomic::{AtomicBool, Ordering};

use super::chunk::{self, Place};
use super::discovery::Discovery;
use super::hooks::{is_published, published};

/// Something was noted since the control looked last.
static ANY: AtomicBool = AtomicBool::new(false);
/// The control has to look at everything.
static ALL: AtomicBool = AtomicBool::new(false);

/// What an operation looks at.
#[derive(Default)]
pub(crate) struct News {
    /// What was noted: it is in the table, and stays there for as long as the control lock is held.
    pub(super) discoveries: Vec<&'static Discovery>,
    /// Whether that is all there is.
    pub(crate) is_all: bool,
}

/// Has the control get ready for what is discovered from now on.
pub(super) fn expect_any() {
    ANY.store(true, Ordering::SeqCst);
}

/// Has the control look at a discovery.
pub(super) fn note(discovery: &'static Discovery) {
    if let Some(place) = Place::of(discovery) {
        place.note();
        expect_any();
    }
}

/// Has the control look at everything.
pub(crate) fn note_all() {
    ALL.store(true, Ordering::SeqCst);
    expect_any();
}

/// Whether the control has to look.
pub(crate) fn has_news() -> bool {
    ANY.load(Ordering::SeqCst)
}

/// Takes what was noted. For the holder of the control lock, who alone has discoveries leave the
/// table.
pub(crate) fn take_news() -> News {
    // In this order: what is noted meanwhile is taken now, or the next time.
    ANY.store(false, Ordering::SeqCst);
    let is_all = ALL.swap(false, Ordering::SeqCst);
    let noted: Vec<_> = chunk::take_noted().map(Place::discovery).filter(|it| is_published(it)).collect();
    let discoveries = if is_all { published().map(Place::discovery).collect() } else { noted };
    // A forked child of a program that has discovered nothing has nothing to look at.
    News { is_all: is_all && !discoveries.is_empty(), discoveries }
}

impl News {
    /// Whether there is nothing new.
    pub(crate) fn is_empty(&self) -> bool {
        self.discoveries.is_empty() && !self.is_all
    }

    /// Adds what was taken later.
    pub(crate) fn add(&mut self, other: Self) {
        self.discoveries.extend(other.discoveries);
        self.is_all |= other.is_all;
    }
}
