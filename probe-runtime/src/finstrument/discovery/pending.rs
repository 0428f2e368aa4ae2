//! Discoveries that the control has yet to look at.
//!
//! Life: a hook that makes a discovery, or defers work on one, notes the discovery: a bit in its
//! chunk. The next operation takes all notes, and looks at these discoveries alone. It looks at
//! everything if everything may have changed: after the text policy has changed, and in a forked
//! child, since threads of the parent may have been about to note something.
//!
//! Cost: the first note of a discovery is a locked instruction, and further ones are a load. Taking
//! the notes reads two cache lines for each 1,024 call sites, if there are any notes.

use super::call_site::Discovery;
use super::chunk::{self, ChunkPlace};
use super::counters;
use super::table::{is_published, published};
use super::tokens::ControlLocked;
use crate::engine::registry::provider::{Due, note as expect_any};

/// The discoveries that an operation looks at.
#[derive(Default)]
pub(super) struct PendingDiscoveries {
    /// Noted discoveries. They are in the table, and stay there for as long as the control lock is
    /// held.
    pub(super) discoveries: Vec<&'static Discovery>,
    /// Whether these are all discoveries.
    pub(super) is_all: bool,
}

/// Makes the control look at a discovery.
pub(super) fn note(discovery: &'static Discovery) {
    if let Some(place) = ChunkPlace::of(discovery) {
        place.note();
        expect_any();
    }
}

/// Marks a discovery as a site, counts it, and notes it.
pub(super) fn note_patched(discovery: &'static Discovery) {
    if discovery.become_patched() {
        counters::PATCHED.add();
        note(discovery);
    }
}

impl PendingDiscoveries {
    /// Takes the notes. Only the holder of the control lock removes discoveries from the table.
    pub(super) fn take(_locked: &ControlLocked, is_all: bool) -> Self {
        let noted: Vec<_> =
            chunk::take_noted().map(ChunkPlace::discovery).filter(|it| is_published(it)).collect();
        let discoveries = if is_all { published().map(ChunkPlace::discovery).collect() } else { noted };
        // A forked child of a program that has discovered nothing has nothing to look at.
        Self { is_all: is_all && !discoveries.is_empty(), discoveries }
    }

    /// Returns how much there is to look at.
    pub(super) fn due(&self) -> Due {
        match (self.is_all, self.discoveries.is_empty()) {
            (true, _) => Due::All,
            (false, true) => Due::Nothing,
            (false, false) => Due::Some,
        }
    }

    /// Adds discoveries that were noted later.
    pub(super) fn add(&mut self, other: Self) {
        self.discoveries.extend(other.discoveries);
        self.is_all |= other.is_all;
    }
}
