//! Forks: a child has none of its parent's sockets, and its lock is free.

// Safety: relies on descriptors being closed only in a child that has no thread which uses them.
#![expect(unsafe_code, reason = "see above")]

use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::MutexGuard;

use super::state::{State, unprepared};
use crate::engine::control;
use crate::engine::error::Error;
use crate::engine::os::kept::Kept;
use crate::engine::os::{AcrossForks, Rank, Ready, room};

thread_local! {
    static ACROSS_FORK: Kept<MutexGuard<'static, State>> = const { Kept::new() };
}

/// Forks take the state's lock.
static READY: Ready = room(Rank::Outermost, ACROSS_FORKS, || ());

const ACROSS_FORKS: AcrossForks =
    AcrossForks { before: before_fork, in_parent: after_fork, in_child: after_fork_in_child };

pub(super) fn prepare() {
    control::init();
    READY.prepare();
}

/// Gets ready for threads that stay.
pub(super) fn require() -> Result<(), Error> {
    control::init();
    READY.require().map_err(|it| Error::Unpinned { object: it.object, reason: it.reason })
}

fn before_fork() {
    let state = unprepared();
    ACROSS_FORK.with(|kept| kept.keep(state));
}

fn after_fork() {
    drop(ACROSS_FORK.with(Kept::take));
}

fn after_fork_in_child() {
    if let Some(mut state) = ACROSS_FORK.with(Kept::take) {
        close_inherited(&mut state);
    }
}

/// Closes the sockets of the process that this one was forked from. Otherwise clients would wait
/// for answers after that process has ended.
pub(super) fn close_inherited(state: &mut State) {
    let (listener, channels) = state.inherit();
    // The program may have closed some, and have other files by their numbers.
    let of_listener = listener.iter().filter(|it| it.is_open()).map(|it| it.as_fd());
    let of_clients = channels.iter().filter(|it| it.is_open()).map(|it| it.as_fd());
    for descriptor in of_listener.chain(of_clients).map(|it| it.as_raw_fd()) {
        // SAFETY: the threads that use it, and would close it, are the parent's.
        unsafe { libc::close(descriptor) };
    }
    // Their descriptors are closed.
    mem::forget((listener, channels));
}
