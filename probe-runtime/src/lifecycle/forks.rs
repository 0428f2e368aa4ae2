//! Rooms' locks across forks, in the order of the rooms.
//!
//! The hooks of the C library are installed at the first operation of any room, for all of them, so
//! that a program's own hooks come before or after all of this crate's. Before a fork, the uppermost
//! room that is ready takes its lock first, as operations do. After it, the lowest one is the first
//! to let go: what upper rooms do then, in the child, may need it.

// Safety: relies on `add` being given what stays for ever.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::os::fork;

/// Rooms with locks, from the lowest up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rank {
    /// Open pages.
    #[cfg(probe_backend = "x86_64")]
    Text,
    Probes,
    Reports,
    /// A test's own.
    #[cfg(test)]
    Test,
}

const RANKS: usize = Rank::Reports as usize + 1 + cfg!(test) as usize;

/// What a room does around a fork, on the thread that forks.
pub(crate) struct AcrossForks {
    pub(crate) before: fn(),
    pub(crate) in_parent: fn(),
    /// No other thread of the parent's goes on here.
    pub(crate) in_child: fn(),
}

static ROOMS: [AtomicPtr<AcrossForks>; RANKS] = [const { AtomicPtr::new(ptr::null_mut()) }; RANKS];

/// A room's hooks from here on.
pub(super) fn add(rank: Rank, hooks: &'static AcrossForks) {
    ROOMS[rank as usize].store(ptr::from_ref(hooks).cast_mut(), Ordering::Release);
}

/// Installs the C library's hooks, once.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| fork::install(before, in_parent, in_child));
}

/// The rooms that are ready, from the lowest up.
fn rooms() -> impl DoubleEndedIterator<Item = &'static AcrossForks> {
    // SAFETY: `add` stores addresses of what stays for ever.
    ROOMS.iter().filter_map(|room| unsafe { room.load(Ordering::Acquire).as_ref() })
}

extern "C" fn before() {
    rooms().rev().for_each(|room| (room.before)());
}

extern "C" fn in_parent() {
    rooms().for_each(|room| (room.in_parent)());
}

extern "C" fn in_child() {
    rooms().for_each(|room| (room.in_child)());
}
