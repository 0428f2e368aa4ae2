//! Discoveries that the control has yet to look at.
//!
//! Life: a hook that discovers something, or that puts something off, notes the discovery: a bit in
//! its chunk. The next operation takes all notes, and looks at these discoveries alone. It looks at
//! everything if everything may have changed: after the text policy has changed, and in a forked
//! child, since threads of the parent may have been about to note something.
//!
//! Cost: the first note of a discovery is a locked instruction, and further ones are a load. Taking
//! the notes reads two cache lines for each 1,024 call sites, if there are any notes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::chunk::{self, Place};
use super::discovery::Discovery;
use super::hooks::{is_published, published};

/// Something was noted since the control looked last.
static ANY: AtomicBool = AtomicBool::new(false);
/// The control has to look at everything.
static ALL: AtomicBool = AtomicBool::new(false);

/// The discoveries that an operation looks at.
#[derive(Default)]
pub(crate) struct News {
    /// Noted discoveries. They are in the table, and stay there for as long as the control lock is
    /// held.
    pub(super) discoveries: Vec<&'static Discovery>,
    /// Whether these are all discoveries.
    pub(crate) is_all: bool,
}

/// Makes the control get ready for later discoveries.
pub(super) fn expect_any() {
    ANY.store(true, Ordering::SeqCst);
}

/// Makes the control look at a discovery.
pub(super) fn note(discovery: &'static Discovery) {
    if let Some(place) = Place::of(discovery) {
        place.note();
        expect_any();
    }
}

/// Makes the control look at everything.
pub(crate) fn note_all() {
    ALL.store(true, Ordering::SeqCst);
    expect_any();
}

/// Whether the control has to look.
pub(crate) fn has_news() -> bool {
    ANY.load(Ordering::SeqCst)
}

/// Takes the notes. For the holder of the control lock, who alone removes discoveries from the
/// table.
pub(crate) fn take_news() -> News {
    // In this order: a note that is made meanwhile is taken now, or the next time.
    ANY.store(false, Ordering::SeqCst);
    let is_all = ALL.swap(false, Ordering::SeqCst);
    let noted: Vec<_> = chunk::take_noted().map(Place::discovery).filter(|it| is_published(it)).collect();
    let discoveries = if is_all { published().map(Place::discovery).collect() } else { noted };
    // A forked child of a program that has discovered nothing has nothing to look at.
    News { is_all: is_all && !discoveries.is_empty(), discoveries }
}

impl News {
    /// Whether there is no news.
    pub(crate) fn is_empty(&self) -> bool {
        self.discoveries.is_empty() && !self.is_all
    }

    /// Adds news that was taken later.
    pub(crate) fn add(&mut self, other: Self) {
        self.discoveries.extend(other.discoveries);
        self.is_all |= other.is_all;
    }
}
