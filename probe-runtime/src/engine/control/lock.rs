//! The control lock, the state that it guards, and the other locks that are held with it.
//!
//! # Objects that come and go
//! Another thread may `dlclose` an object at any time, which unmaps its tables, definitions and
//! text. So code that reads or writes these in any object but the executable runs *frozen*: the
//! dynamic linker can't unmap anything meanwhile ([`with_objects`],
//! [`os::objects::freeze`]). A frozen operation first looks for objects that came or went, brings
//! attachments up to date with them, and then does its work. By then, unloaded objects are
//! forgotten, and present ones stay until the operation ends.
//!
//! The executable is never unloaded. If all probes are in it, an operation freezes only to list
//! them. Pausing and resuming in its open text do not freeze at all, since that would take longer
//! than the switch itself; these two alone notice no new objects there. If they have to open text,
//! they do freeze: another copy of this crate, in a plugin, may be about to seal it, and only one
//! copy at a time can do so under the freeze.
//!
//! # Why this can't deadlock
//! Locks are taken in this order: the dynamic linker's outer lock (around `dlopen`, `dlclose`,
//! constructors, destructors) ▸ initialisation (`probe_patch`'s `lifecycle`) ▸ the agent's state ▸
//! the list of reports ▸ the join lock ▸ the control lock ▸ the dynamic linker's inner lock
//! (around the list of objects and unmapping) ▸ pages. Constructors and destructors may call this
//! crate. A holder of the control lock never takes the outer one: it opens no library, uses no
//! thread-local that has a destructor, and uses no thread-local for the first time ([`lock`]
//! touches one before). No thread takes the control lock under the inner lock, unless a program
//! calls this crate from its own `dl_iterate_phdr` callback, which is forbidden. No consumer is
//! called or dropped under any of these locks.
//!
//! # Cancellation and forks
//! Code that may reach a cancellation point runs uncancellable: calls of the dynamic linker,
//! opening and sealing text (which reads its rights from the kernel), writing it through the
//! kernel, waiting for hits to end, dropping a consumer. Locking, allocating and writing to open
//! text reach none, so pausing and resuming in the executable's open text run without this.
//!
//! The lock is held across a fork, so the child finds the control's state whole. No thread of this
//! crate is frozen then, or glibc would leave the inner lock taken in the child for ever.

use std::cell::Cell;
use std::collections::HashMap;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};

use super::attachments::AttachmentTable;
use super::join::JoinState;
use super::lazy_discovery::{LazyDiscovery, PeriodicDiscovery};
#[cfg(probe_backend = "patched")]
use super::patched_sites::UnswitchedSites;
use super::reclaim::{Reclaimable, reclaim_hooks};
use super::{init, join_lock};
use crate::engine::dispatch::{self, Reclaimer, ReentrancyGuard};
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::kept::Kept;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, ProbeInfo, Registry, provider};

/// All of the control's state.
#[derive(Default)]
pub(super) struct Control {
    pub(super) registry: Registry,
    /// The number of times that probes came or went.
    pub(super) changes: u64,
    pub(super) attachments: AttachmentTable,
    /// Memory that hits may still be reading.
    pub(super) reclaimer: Reclaimer<Reclaimable>,
    /// Whether `reclaimer` holds unloaded call sites, whose places others could use.
    pub(super) has_unloaded_calls: bool,
    #[cfg(probe_backend = "patched")]
    pub(super) unswitched: UnswitchedSites,
    /// Copies of the data of attached probes that may be unloaded.
    pub(super) kept_infos: HashMap<ProbeId, ProbeInfo>,
    pub(super) lazy_discovery: LazyDiscovery,
}

impl Control {
    /// Calls `run` with the proof that all objects stay loaded, if the executable alone is known.
    /// Returns whether it did.
    pub(super) fn with_executable(&mut self, run: &mut dyn FnMut(&mut Self, KeptLoaded<'_>)) -> bool {
        Registry::with_kept_loaded(self, |control| &control.registry, run).is_some()
    }
}

static CONTROL: LazyLock<Mutex<Control>> = LazyLock::new(Mutex::default);

/// Set when a consumer fails while the lock is taken. The next holder pauses its attachment.
static FAILURE_PENDING: AtomicBool = AtomicBool::new(false);

/// The held lock. Consumers are not called on this thread meanwhile.
pub(super) struct ControlGuard {
    // Dropped first: the lock is free before consumers may be called again.
    control: MutexGuard<'static, Control>,
    guarded: ReentrancyGuard,
    // Dropped last: the lock must be free.
    pauser: PauseFailedOnDrop,
}

/// Pauses failed attachments when dropped, if a consumer failed while the lock was held.
struct PauseFailedOnDrop;

impl Drop for PauseFailedOnDrop {
    #[inline(always)]
    fn drop(&mut self) {
        if FAILURE_PENDING.load(Ordering::SeqCst) {
            pause_failed();
        }
    }
}

/// Takes the lock.
pub(super) fn lock() -> ControlGuard {
    lock_inlined()
}

/// [`lock`], inlined for callers whose own work takes no longer than a call.
#[inline(always)]
pub(super) fn lock_inlined() -> ControlGuard {
    init();
    touch_thread_locals();
    let guarded = ReentrancyGuard::new();
    // A panic under the lock is a bug in this crate. The state is consistent between steps even
    // then.
    let control = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
    ControlGuard { control, guarded, pauser: PauseFailedOnDrop }
}

impl ControlGuard {
    /// Releases the lock, as dropping does, inlined into the caller.
    #[inline(always)]
    pub(super) fn unlock(self) {
        let Self { control, guarded, pauser } = self;
        drop(control);
        drop(guarded);
        drop(pauser);
    }

    /// Calls `run` once, with none of the known objects unloaded meanwhile. Looks for others only
    /// if it has to freeze: if the executable alone is known, nothing can be unloaded.
    pub(super) fn with_known_objects(&mut self, run: &mut dyn FnMut(&mut Control, KeptLoaded<'_>)) {
        if !self.with_executable(run) {
            let _whole = Uncancellable::new();
            with_objects(self, run);
        }
    }
}

/// Runs an operation under the lock, with all objects known and none of them unloaded meanwhile.
pub(super) fn operate<T>(run: impl FnOnce(&mut Control, KeptLoaded<'_>) -> T) -> T {
    let (mut run, mut done) = (Some(run), None);
    operate_through(&mut |control, loaded| done = run.take().map(|run| run(control, loaded)));
    done.expect("it was run")
}

/// The part of [`operate`] that is compiled once. Calls `run` once.
fn operate_through(run: &mut dyn FnMut(&mut Control, KeptLoaded<'_>)) {
    let _whole = Uncancellable::new();
    #[cfg(probe_backend = "patched")]
    os::guarded_read::look();
    let mut has_joined = false;
    loop {
        provider::get_ready();
        let mut locked = lock();
        locked.registry.name_pending();
        let mut is_due = false;
        with_objects(&mut locked, &mut |control, loaded| {
            is_due = !has_joined && join_lock::is_due();
            if !is_due {
                run(control, loaded);
            }
        });
        let has_unloaded_calls = mem::take(&mut locked.has_unloaded_calls);
        let looks = provider::looks();
        drop(locked);
        if has_unloaded_calls {
            reclaim_hooks();
        }
        if !is_due {
            if join_lock::is_complete() {
                provider::end_looks(looks);
            }
            return;
        }
        // Once: probes that appear meanwhile are left to the next operation.
        has_joined = true;
        join_lock::run_requested();
    }
}

/// Pauses the attachments whose consumers have failed: now, or, if the lock is taken, once its
/// holder releases it. The caller sets the mark before it tries the lock, and each holder checks
/// the mark after it has released the lock.
pub(crate) fn pause_failed() {
    FAILURE_PENDING.store(true, Ordering::SeqCst);
    let _whole = Uncancellable::new();
    touch_thread_locals();
    let guarded = ReentrancyGuard::new();
    let control = match CONTROL.try_lock() {
        Ok(control) => control,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let mut locked = ControlGuard { control, guarded, pauser: PauseFailedOnDrop };
    locked.with_known_objects(&mut pause_failed_if_pending);
}

/// Calls `run` once, with all objects known and none of them unloaded meanwhile.
pub(super) fn with_objects(control: &mut Control, run: &mut dyn FnMut(&mut Control, KeptLoaded<'_>)) {
    let mut run_after_pausing = |control: &mut Control, loaded: KeptLoaded<'_>| {
        pause_failed_if_pending(control, loaded);
        run(control, loaded);
    };
    os::objects::freeze(|frozen| {
        let loaded = control.refresh(frozen);
        if !control.registry.is_main_only() {
            run_after_pausing(control, loaded);
        }
    });
    // The executable stays loaded: the dynamic linker need not be kept waiting.
    control.with_executable(&mut run_after_pausing);
}

/// Pauses the attachments whose consumers have failed, if the mark is set.
fn pause_failed_if_pending(control: &mut Control, loaded: KeptLoaded<'_>) {
    if FAILURE_PENDING.swap(false, Ordering::SeqCst) {
        control.pause_failed(loaded);
    }
}

impl Deref for ControlGuard {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl DerefMut for ControlGuard {
    fn deref_mut(&mut self) -> &mut Control {
        &mut self.control
    }
}

thread_local! {
    /// Touched so that this thread has its copies of this object's thread-locals. In a library that
    /// was loaded late, their first use may take the dynamic linker's outer lock.
    static TOUCHED: Cell<u8> = const { Cell::new(0) };
    static ACROSS_FORK: Kept<ControlGuard> = const { Kept::new() };
}

fn touch_thread_locals() {
    TOUCHED.with(|touched| {
        // Taking the address allocates the thread-local.
        std::hint::black_box(touched.as_ptr());
    });
}

pub(super) fn before_fork() {
    join_lock::before_fork();
    let locked = lock();
    ACROSS_FORK.with(|kept| kept.keep(locked));
}

fn after_fork() -> Option<ControlGuard> {
    ACROSS_FORK.with(Kept::take)
}

pub(super) fn after_fork_in_parent() {
    drop(after_fork());
    join_lock::after_fork();
}

/// Pauses the attachments of orphaned consumers and releases the lock in a forked child.
///
/// The child has one thread, so no object is unloaded meanwhile. But another thread of the parent
/// may have been unloading an object, and may have held the dynamic linker's inner lock. So only
/// sites of the executable are touched here; if there are others, the child's first operation
/// handles them. Of the C library, this uses only the heap, which glibc and musl make usable before
/// they call this.
pub(super) fn after_fork_in_child() {
    dispatch::forget_other_threads();
    PeriodicDiscovery::forget_all();
    // Another thread of the parent may have been about to note its discoveries.
    provider::note_all();
    let is_orphaned = join_lock::after_fork_in_child();
    let Some(ControlGuard { mut control, guarded, pauser }) = after_fork() else { return };
    if is_orphaned {
        control.attachments.join_states_mut().for_each(JoinState::abort);
    }
    if control.attachments.fail_orphans() {
        FAILURE_PENDING.store(true, Ordering::SeqCst);
    }
    control.with_executable(&mut pause_failed_if_pending);
    // Dropping it would call the dynamic linker.
    mem::forget(pauser);
    drop(control);
    drop(guarded);
}

/// A value that its owner replaces while others read it, and that no fork leaves half replaced.
///
/// It is read and replaced under the control lock, which is held across forks: a child finds the
/// value whole, and its lock free. A reader gets a share of the value, so that it holds the lock
/// for a moment only. No method may be called under the control lock.
pub(crate) struct ForkSafe<T>(Mutex<Arc<T>>);

impl<T> ForkSafe<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(Arc::new(value)))
    }

    /// Returns the value.
    pub(crate) fn get(&self) -> Arc<T> {
        let _locked = lock();
        Arc::clone(&self.value())
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        let mut value = Arc::new(value);
        let locked = lock();
        mem::swap(&mut *self.value(), &mut value);
        drop(locked);
        // The former value is dropped without the lock.
    }

    /// Replaces the value if it still is the one that the caller has got. Returns whether it was.
    pub(super) fn replace(&self, former: &Arc<T>, value: &Arc<T>) -> bool {
        let _locked = lock();
        let mut held = self.value();
        let is_same = Arc::ptr_eq(&held, former);
        if is_same {
            // The caller drops the former value, without the lock.
            *held = Arc::clone(value);
        }
        is_same
    }

    /// Locks the value, for a holder of the control lock.
    fn value(&self) -> MutexGuard<'_, Arc<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_as_it_was() {
        let held = ForkSafe::new(vec![1, 2]);
        let before = held.get();
        held.set(vec![3]);
        assert_eq!((&*before, &*held.get()), (&vec![1, 2], &vec![3]));
        assert_eq!(Arc::strong_count(&before), 1, "the former value goes with its last reader");
    }

    #[test]
    fn a_value_is_replaced_once() {
        let held = ForkSafe::new(1);
        let (former, value) = (held.get(), Arc::new(1));
        assert_eq!([held.replace(&former, &value), held.replace(&former, &value)], [true, false]);
        assert!(Arc::ptr_eq(&held.get(), &value));
    }
}
