//! The control lock.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError, TryLockError};

use super::state::Control;
use crate::dispatch::{self, Guarded};
use crate::os;

static CONTROL: LazyLock<Mutex<Control>> = LazyLock::new(Mutex::default);

/// Set where a consumer has failed while the lock was taken; the next holder sweeps.
static SWEEP: AtomicBool = AtomicBool::new(false);

/// The lock, held. Consumers are not called on this thread meanwhile.
pub(super) struct Locked {
    // Unlocks before consumers may be called again.
    control: MutexGuard<'static, Control>,
    _guarded: Guarded,
    // Looks again once the lock is free.
    _sweeper: Sweeper,
}

/// Sweeps, if somebody asked for it while the lock was held.
struct Sweeper;

impl Drop for Sweeper {
    fn drop(&mut self) {
        if SWEEP.load(Ordering::SeqCst) {
            sweep();
        }
    }
}

/// Takes the lock.
pub(super) fn lock() -> Locked {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        dispatch::prepare();
        #[cfg(probe_backend = "x86_64")]
        crate::patch::prepare();
        os::fork::install(before_fork, after_fork_in_parent, after_fork_in_child);
    });
    let guarded = Guarded::new();
    // A panic under the lock is a bug of ours; the state is consistent between its steps all the same.
    let control = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
    Locked { control, _guarded: guarded, _sweeper: Sweeper }
}

/// Detaches what has failed, now, or, where the lock is taken, as soon as its holder lets it go: who asks sets the mark
/// before he tries the lock, and who holds it looks at the mark after he has let it go.
pub(crate) fn sweep() {
    SWEEP.store(true, Ordering::SeqCst);
    let guarded = Guarded::new();
    let control = match CONTROL.try_lock() {
        Ok(control) => control,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    SWEEP.store(false, Ordering::SeqCst);
    Locked { control, _guarded: guarded, _sweeper: Sweeper }.sweep();
}

impl Deref for Locked {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Control {
        &mut self.control
    }
}

thread_local! {
    static ACROSS_FORK: RefCell<Option<Locked>> = const { RefCell::new(None) };
}

// The lock is held across a fork, so that the child finds what it guards whole.

extern "C" fn before_fork() {
    let locked = lock();
    let _ = ACROSS_FORK.try_with(|held| held.replace(Some(locked)));
}

extern "C" fn after_fork_in_parent() {
    let _ = ACROSS_FORK.try_with(RefCell::take);
}

extern "C" fn after_fork_in_child() {
    dispatch::forget_other_threads();
    let _ = ACROSS_FORK.try_with(RefCell::take);
}
