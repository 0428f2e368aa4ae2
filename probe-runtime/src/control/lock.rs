//! The control lock, and what is held together with it.
//!
//! # Objects that come and go
//! Another thread may `dlclose` an object at any time, and its tables, definitions and text are gone. So whatever reads
//! or writes those of an object other than the executable is done *frozen*, while the dynamic linker can't unmap
//! anything ([`Control::with_objects`], [`os::objects::freeze`]): it first looks at which objects there are, brings
//! what is attached up to date with them, and only then does what was asked for. What was unloaded before is forgotten
//! by then, and what is there stays until the end. A program whose probes are all in its executable, which is never
//! unloaded, freezes for that look alone; and not at all to pause and resume in text that is open anyway, which would take
//! longer than the switch itself: these two alone notice nothing new there. (In text that is to be opened they do: another
//! copy of this crate, in a plugin, may be about to seal it, and the freeze lets one of the two do so at a time.)
//!
//! # Why this can't deadlock
//! Locks are taken in this order: the dynamic linker's outer lock (around `dlopen`, `dlclose`, constructors, destructors) ▸
//! the control lock ▸ the dynamic linker's inner lock (around the list of objects and unmapping). Constructors and
//! destructors may call this crate. A holder of the control lock never asks for the outer one: it opens no library, and
//! uses no thread-local that has a destructor, nor one for the first time ([`lock`] touches one before). Under the inner
//! lock nobody asks for the control lock, unless a program calls this crate from its own `dl_iterate_phdr` callback,
//! which it must not. No consumer is called, nor dropped, under any of them.
//!
//! # Cancellation and forks
//! Whatever may reach a cancellation point runs uncancellable: the dynamic linker, opening and sealing text (which asks the
//! kernel for its rights), writing it through the kernel, waiting for hits to end, dropping a consumer. Locking, allocating
//! and writing to text that is open reach none, so pausing and resuming in the executable's open text does without.
//! The lock is held across a fork, so the child finds what it guards
//! whole, and no thread of ours is frozen then: glibc would leave the inner lock taken in the child for ever.

use std::cell::Cell;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};

use super::ready;
use super::retired::tidy;
use super::state::Control;
use crate::dispatch::{self, Guarded};
use crate::os;
use crate::os::cancel::Uncancellable;
use crate::os::kept::Kept;
use crate::registry::provider;

static CONTROL: LazyLock<Mutex<Control>> = LazyLock::new(Mutex::default);

/// Set where a consumer has failed while the lock was taken; the next holder sweeps.
static SWEEP: AtomicBool = AtomicBool::new(false);

/// The lock, held. Consumers are not called on this thread meanwhile.
pub(super) struct Locked {
    // Unlocks before consumers may be called again.
    control: MutexGuard<'static, Control>,
    guarded: Guarded,
    // Looks again once the lock is free.
    sweeper: Sweeper,
}

/// Sweeps, if somebody asked for it while the lock was held.
struct Sweeper;

impl Drop for Sweeper {
    #[inline(always)]
    fn drop(&mut self) {
        if SWEEP.load(Ordering::SeqCst) {
            sweep();
        }
    }
}

/// Takes the lock.
pub(super) fn lock() -> Locked {
    lock_here()
}

/// The same, compiled into its caller: for what takes no longer than a call.
#[inline(always)]
pub(super) fn lock_here() -> Locked {
    ready::prepare();
    touch_thread_locals();
    let guarded = Guarded::new();
    // A panic under the lock is a bug of ours; the state is consistent between its steps all the same.
    let control = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
    Locked { control, guarded, sweeper: Sweeper }
}

impl Locked {
    /// Lets the lock go, as dropping does; compiled into its caller.
    #[inline(always)]
    pub(super) fn unlock(self) {
        let Self { control, guarded, sweeper } = self;
        drop(control);
        drop(guarded);
        drop(sweeper);
    }
}

/// Runs an operation: under the lock, with all objects known and none of them going away.
pub(super) fn operate<T>(run: impl FnOnce(&mut Control) -> T) -> T {
    let (mut run, mut done) = (Some(run), None);
    operate_through(&mut |control| done = run.take().map(|run| run(control)));
    done.expect("it was run")
}

/// The same, compiled once. Runs it once.
fn operate_through(run: &mut dyn FnMut(&mut Control)) {
    let _whole = Uncancellable::new();
    provider::get_ready();
    let mut locked = lock();
    locked.registry.name_pending();
    locked.with_objects(run);
    let has_unloaded = mem::take(&mut locked.has_unloaded);
    drop(locked);
    if has_unloaded {
        tidy();
    }
}

/// Detaches what has failed, now, or, where the lock is taken, as soon as its holder lets it go: who asks sets the mark
/// before he tries the lock, and who holds it looks at the mark after he has let it go.
pub(crate) fn sweep() {
    SWEEP.store(true, Ordering::SeqCst);
    let _whole = Uncancellable::new();
    touch_thread_locals();
    let guarded = Guarded::new();
    let control = match CONTROL.try_lock() {
        Ok(control) => control,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let mut locked = Locked { control, guarded, sweeper: Sweeper };
    if locked.registry.is_main_only() {
        locked.sweep_marked();
    } else {
        locked.with_objects(&mut Control::sweep_marked);
    }
}

impl Control {
    /// Runs `run`, once, with all objects known, and none of them going away.
    pub(super) fn with_objects(&mut self, run: &mut dyn FnMut(&mut Self)) {
        let mut run_swept = |control: &mut Self| {
            control.sweep_marked();
            run(control);
        };
        let is_fixed = os::objects::freeze(|frozen| {
            self.refresh(frozen);
            let is_fixed = self.registry.is_main_only();
            if !is_fixed {
                run_swept(self);
            }
            is_fixed
        });
        // The executable stays: nobody has to wait for the dynamic linker.
        if is_fixed {
            run_swept(self);
        }
    }

    /// Detaches what has failed, if anything has.
    fn sweep_marked(&mut self) {
        if SWEEP.swap(false, Ordering::SeqCst) {
            self.sweep();
        }
    }
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
    /// Makes sure that this thread has its copies of this object's thread-locals, which may take the dynamic linker's outer
    /// lock in a library that was loaded late.
    static TOUCHED: Cell<u8> = const { Cell::new(0) };
    static ACROSS_FORK: Kept<Locked> = const { Kept::new() };
}

fn touch_thread_locals() {
    TOUCHED.with(|touched| {
        // Its address is what has to be asked for.
        std::hint::black_box(touched.as_ptr());
    });
}

pub(super) fn before_fork() {
    let locked = lock();
    ACROSS_FORK.with(|kept| kept.keep(locked));
}

fn after_fork() -> Option<Locked> {
    ACROSS_FORK.with(Kept::take)
}

pub(super) fn after_fork_in_parent() {
    drop(after_fork());
}

/// The child has one thread, so nothing is unloaded meanwhile; but another thread of the parent may have been unloading
/// an object, and may have taken the dynamic linker's inner lock with it. So only sites of the executable are touched
/// here; where there are others, the child's first operation goes on. Of the C library it takes the heap only, which glibc
/// and musl make usable before they call this.
pub(super) fn after_fork_in_child() {
    dispatch::forget_other_threads();
    // One of them may have been about to say what it has discovered.
    provider::note_all();
    let Some(Locked { mut control, guarded, sweeper }) = after_fork() else { return };
    if control.orphan() {
        SWEEP.store(true, Ordering::SeqCst);
    }
    if control.registry.is_main_only() {
        control.sweep_marked();
    }
    // It would ask the dynamic linker.
    mem::forget(sweeper);
    drop(control);
    drop(guarded);
}
