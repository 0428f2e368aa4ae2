//! What must be in place before the first operation on probes, see [`lifecycle`](crate::lifecycle).

use super::lock;
use crate::dispatch;
#[cfg(probe_backend = "x86_64")]
use crate::dispatch::guarded;
use crate::error::Error;
use crate::lifecycle::Ready;
use crate::os;
use crate::os::cancel::Uncancellable;
use crate::os::pin::{Unpinned, pin_object};
#[cfg(probe_backend = "x86_64")]
use crate::patch::{Quieting, set_quieting};

static READY: Ready = Ready::new(install);

/// Gets ready, if that has not been tried yet. Whoever holds a lock of this crate's, or is frozen,
/// has called it before: it waits for constructors.
#[inline]
pub(crate) fn prepare() {
    #[cfg(probe_backend = "x86_64")]
    crate::patch::READY.prepare();
    READY.prepare();
}

/// Whether it is, asked without waiting.
#[cfg(probe_discovers)]
pub(crate) fn is_ready() -> bool {
    READY.is_ready()
}

/// Gets ready; for those who put hooks into the program.
///
/// # Errors
/// [`Error::Unpinned`].
pub(super) fn require() -> Result<(), Error> {
    // Before the control's own: hooks before a fork run in the reverse order of their installation,
    // and the control's lock is taken before that of the pages.
    #[cfg(probe_backend = "x86_64")]
    crate::patch::READY.require().map_err(unpinned)?;
    READY.require().map_err(unpinned)
}

/// Keeps the object loaded that holds this address.
///
/// # Errors
/// [`Error::Unpinned`].
pub(super) fn keep(address: usize) -> Result<(), Error> {
    let _whole = Uncancellable::new();
    pin_object(address).map_err(unpinned)
}

fn unpinned(Unpinned { object, reason }: Unpinned) -> Error {
    Error::Unpinned { object, reason }
}

fn install() {
    dispatch::prepare();
    dispatch::on_failure(lock::sweep);
    #[cfg(probe_backend = "x86_64")]
    set_quieting(Quieting { begin: guarded::begin, end: guarded::end });
    os::fork::install(lock::before_fork, lock::after_fork_in_parent, lock::after_fork_in_child);
}
