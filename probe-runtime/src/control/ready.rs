//! What must be in place before the first operation: this code stays loaded, and threads' ends and
//! forks are noticed.
//!
//! Life: the first operation of any kind, be it on probes or on text, keeps this code loaded and
//! installs all hooks; later ones find that done. It is one state for all of the crate, so that
//! nothing has hooks that another part lacks.
//!
//! A copy of this crate that is part of a plugin keeps that plugin loaded: sites of other objects,
//! threads that end and `fork` reach into it from then on. Where the dynamic linker does not allow
//! that, nothing of the kind is set up, and nothing can be attached; each attempt to attach tries
//! again.

use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{env, lock};
use crate::dispatch;
use crate::error::Error;
use crate::os;
use crate::os::cancel::Uncancellable;
use crate::os::pin::{Unpinned, pin, pin_object};

const NEW: u8 = 0;
const READY: u8 = 1;
const UNPINNED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NEW);

/// Gets ready, if that has not been tried yet. Whoever holds a lock of this crate's, or is frozen,
/// has called it before: it waits for constructors.
#[inline]
pub(crate) fn prepare() {
    if STATE.load(Ordering::Acquire) == NEW {
        // Who attaches is told.
        let _ = require();
    }
}

/// Whether it is, asked without waiting.
#[cfg(probe_discovers)]
pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

/// Gets ready; for those who put hooks into the program.
///
/// # Errors
/// [`Error::Unpinned`].
pub(crate) fn require() -> Result<(), Error> {
    if STATE.load(Ordering::Acquire) == READY {
        return Ok(());
    }
    // Loading and saying why not may be cancellation points.
    let _whole = Uncancellable::new();
    // Not within the `Once`, nor under the control lock: it waits for constructors, and these may
    // wait for either. Several threads may do it.
    match pin() {
        Ok(()) => {
            install();
            STATE.store(READY, Ordering::Release);
            Ok(())
        }
        Err(Unpinned { object, reason }) => {
            let _ = STATE.compare_exchange(NEW, UNPINNED, Ordering::AcqRel, Ordering::Acquire);
            Err(Error::Unpinned { object, reason })
        }
    }
}

/// Keeps the object loaded that holds this address.
///
/// # Errors
/// [`Error::Unpinned`].
pub(super) fn keep(address: usize) -> Result<(), Error> {
    let _whole = Uncancellable::new();
    pin_object(address).map_err(|Unpinned { object, reason }| Error::Unpinned { object, reason })
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        dispatch::prepare();
        // Before the control's own: hooks before a fork run in the reverse order of their
        // installation, and the control's lock is taken before that of the pages.
        #[cfg(probe_backend = "x86_64")]
        crate::patch::cross_forks();
        os::fork::install(lock::before_fork, lock::after_fork_in_parent, lock::after_fork_in_child);
        // After them: reports take the control lock under their own.
        env::cross_forks();
    });
}
