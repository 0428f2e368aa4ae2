//! Takes the rooms' locks around forks, in the order of the rooms.
//!
//! The first operation of any room installs the C library's hooks for all rooms. So a program's own
//! hooks come either before or after all of this crate's. Before a fork, the uppermost room that is
//! ready takes its lock first, as operations do. After the fork, the lowest room releases its lock
//! first, since the upper rooms' hooks in the child may need it.
//!
//! No room gets ready while a thread forks: [`lock_setup`] is taken before all rooms' locks. If a
//! room got ready during a fork, another thread could take its lock, and the lock would stay taken
//! in the child.

// Safety: relies on `add` getting references that stay valid for ever.
#![expect(unsafe_code, reason = "see above")]

use std::cell::RefCell;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::os::fork;

/// Rooms with locks, from the lowest up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rank {
    /// Open pages.
    Text,
    /// A lock of a crate above.
    Inner,
    /// A lock of a crate above, taken before the inner one.
    Outer,
    /// A lock of a crate above, taken before the outer one.
    Outermost,
    /// The tests' own lock.
    #[cfg(test)]
    Test,
    #[cfg(test)]
    Forked,
}

const RANKS: usize = Rank::Outermost as usize + 1 + if cfg!(test) { 2 } else { 0 };

/// A room's hooks around a fork, on the thread that forks.
pub struct AcrossForks {
    pub before: fn(),
    pub in_parent: fn(),
    /// Runs in the child, where no other thread of the parent runs.
    pub in_child: fn(),
}

/// A value that a thread holds from before a fork until after it, such as a lock's guard. It has no
/// destructor, so that a thread's last destructors may fork, and no lock is taken to register one.
pub struct HeldAcrossFork<T>(RefCell<ManuallyDrop<Option<T>>>);

impl<T> HeldAcrossFork<T> {
    /// Returns a place without a value.
    pub const fn new() -> Self {
        Self(RefCell::new(ManuallyDrop::new(None)))
    }

    pub fn keep(&self, value: T) {
        **self.0.borrow_mut() = Some(value);
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_none()
    }

    pub fn take(&self) -> Option<T> {
        self.0.borrow_mut().take()
    }
}

/// The rooms that are ready, by their ranks.
struct Rooms([AtomicPtr<AcrossForks>; RANKS]);

static ROOMS: Rooms = Rooms::new();

static SETUP: Mutex<()> = Mutex::new(());

thread_local! {
    static ACROSS_FORK: HeldAcrossFork<MutexGuard<'static, ()>> = const { HeldAcrossFork::new() };
}

/// Returns a guard that keeps other threads from forking and from getting a room ready. It is taken
/// before any room's lock. No thread waits for constructors while it holds the guard, since these
/// may get a room ready.
pub(super) fn lock_setup() -> MutexGuard<'static, ()> {
    // If the object was loaded late, a thread's first use of its thread-locals may wait for
    // constructors.
    ACROSS_FORK.with(|kept| _ = black_box(kept));
    // The lock guards no data that a panic could leave half changed.
    SETUP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a room's hooks, for all later forks. The caller holds the guard of [`lock_setup`].
pub(super) fn add(rank: Rank, hooks: &'static AcrossForks) {
    ROOMS.add(rank, hooks);
}

/// Installs the C library's hooks. The caller does not hold the guard of [`lock_setup`]: if another
/// thread has begun to fork, its child would never see that lock free.
pub(super) fn install() {
    static ARE_INSTALLED: AtomicBool = AtomicBool::new(false);
    // Not a `Once`: the child of such a fork could find it running for ever. So two threads may
    // install the hooks. The second call of each hook then has nothing to do.
    if !ARE_INSTALLED.load(Ordering::Acquire) {
        fork::install(before, in_parent, in_child);
        ARE_INSTALLED.store(true, Ordering::Release);
    }
}

extern "C" fn before() {
    ACROSS_FORK.with(|kept| {
        if kept.is_empty() {
            kept.keep(lock_setup());
            ROOMS.before();
        }
    });
}

extern "C" fn in_parent() {
    if let Some(_setup) = ACROSS_FORK.with(HeldAcrossFork::take) {
        ROOMS.in_parent();
    }
}

extern "C" fn in_child() {
    if let Some(_setup) = ACROSS_FORK.with(HeldAcrossFork::take) {
        ROOMS.in_child();
    }
}

impl Rooms {
    const fn new() -> Self {
        Self([const { AtomicPtr::new(ptr::null_mut()) }; RANKS])
    }

    fn add(&self, rank: Rank, hooks: &'static AcrossForks) {
        self.0[rank as usize].store(ptr::from_ref(hooks).cast_mut(), Ordering::Release);
    }

    /// Returns the rooms that are ready, from the lowest up.
    fn ready(&self) -> impl DoubleEndedIterator<Item = &'static AcrossForks> + use<'_> {
        // SAFETY: `add` stores addresses of hooks that stay for ever.
        self.0.iter().filter_map(|room| unsafe { room.load(Ordering::Acquire).as_ref() })
    }

    fn before(&self) {
        self.ready().rev().for_each(|room| (room.before)());
    }

    fn in_parent(&self) {
        self.ready().for_each(|room| (room.in_parent)());
    }

    fn in_child(&self) {
        self.ready().for_each(|room| (room.in_child)());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    use std::mem;

    /// Runs the C library's hooks as a fork does in the parent, and `meanwhile` between them.
    pub(in crate::lifecycle) fn forks(meanwhile: impl FnOnce()) {
        before();
        meanwhile();
        in_parent();
    }

    /// Returns whether a thread forks, or gets a room ready.
    pub(in crate::lifecycle) fn is_setup_locked() -> bool {
        SETUP.try_lock().is_err()
    }

    static LOG: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    fn log(what: &'static str) {
        LOG.lock().unwrap().push(what);
    }

    fn logged(run: impl FnOnce()) -> Vec<&'static str> {
        run();
        mem::take(&mut *LOG.lock().unwrap())
    }

    const LOWER: AcrossForks = AcrossForks {
        before: || log("lower before"),
        in_parent: || log("lower in parent"),
        in_child: || log("lower in child"),
    };
    const UPPER: AcrossForks = AcrossForks {
        before: || log("upper before"),
        in_parent: || log("upper in parent"),
        in_child: || log("upper in child"),
    };

    #[test]
    fn the_upper_room_takes_its_lock_first_and_lets_it_go_last() {
        let rooms = Rooms::new();
        assert!(logged(|| rooms.before()).is_empty());
        rooms.add(Rank::Outer, &UPPER);
        assert_eq!(logged(|| rooms.before()), ["upper before"]);
        // The order is that of their ranks, not that of their addition.
        rooms.add(Rank::Inner, &LOWER);
        assert_eq!(logged(|| rooms.before()), ["upper before", "lower before"]);
        assert_eq!(logged(|| rooms.in_parent()), ["lower in parent", "upper in parent"]);
        assert_eq!(logged(|| rooms.in_child()), ["lower in child", "upper in child"]);
    }

    #[test]
    fn hooks_that_were_installed_twice_take_and_let_go_once() {
        before();
        before();
        assert!(is_setup_locked());
        in_parent();
        assert!(ACROSS_FORK.with(HeldAcrossFork::is_empty));
        in_parent();
    }
}
