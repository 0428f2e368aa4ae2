//! `parking_lot` with probes, and any raw lock of `lock_api`.
//!
//! The locks are `lock_api`'s own, so they have all of its methods and guards. Those that its `new`
//! creates all have the name `unnamed`. [`const_mutex`] and [`const_rwlock`] name a lock after the
//! place of their call, and `from_raw` takes a raw lock with a name:
//!
//! ```
//! use probe_sync::parking_lot::{Mutex, RawMutex, const_mutex};
//!
//! static SESSIONS: Mutex<Vec<u32>> = Mutex::from_raw(RawMutex::named("sessions"), Vec::new());
//! static ROUTES: Mutex<Vec<u32>> = const_mutex(Vec::new());
//! SESSIONS.lock().push(7);
//! ROUTES.lock().push(7);
//! ```
//!
//! A raw lock keeps no number of a reader's hold, and is not told which of them ends. It takes that
//! of the thread:
//! - A recursive read has no hold, and cancels the one that its thread has. The releases of both
//!   have no partner.
//! - If a thread reads twice otherwise, the first hold has no time, and the first release is taken
//!   for the end of the second.
//! - A guard that is sent to another thread ends a hold of that one, or none.

// Safety: relies on each function doing what the original's function of the same name does.
#![expect(unsafe_code, reason = "see above")]

mod types;

use lock_api::{
    RawMutexFair, RawMutexTimed, RawRwLockDowngrade, RawRwLockFair, RawRwLockRecursive,
    RawRwLockRecursiveTimed, RawRwLockTimed, RawRwLockUpgrade, RawRwLockUpgradeDowngrade,
    RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};
use probe_runtime::probe;

use crate::hold::{Exclusive, Key, Sites, hold, waits};
use crate::name::{Name, Probed};

pub use self::types::*;

/// A lock has one such hold of each thread at a time.
#[derive(Clone, Copy, Default, Debug)]
struct OnThread;

impl Key for OnThread {
    #[inline(always)]
    fn number(&mut self, name: &Name) -> usize {
        thread_local!(static HERE: u8 = const { 0 });
        // The upper bits of the one meet the lower bits of the other.
        let thread = HERE.with(|here| std::ptr::from_ref(here).addr());
        name.address() ^ thread.rotate_left(usize::BITS / 2)
    }
}

hold! {
    /// A mutex is held.
    Held(Exclusive), "hold"
}
hold! {
    /// A lock is held by a reader.
    Read(OnThread), "hold_read"
}
hold! {
    /// A lock is held by a writer.
    Written(Exclusive), "hold_write"
}
hold! {
    /// A lock is held by a reader that may become a writer.
    Upgradable(Exclusive), "hold_upgradable"
}

waits!(
    lock, lock_for, lock_until, read, read_for, read_until, read_recursive, read_recursive_for,
    read_recursive_until, write, write_for, write_until, upgradable_read, upgradable_read_for,
    upgradable_read_until, upgrade, upgrade_for, upgrade_until
);

const UNNAMED: Name = Name::given("unnamed");

/// Begins the hold of a lock, if it was acquired.
#[inline(always)]
fn held<S: Sites>(name: &Name, is_acquired: bool) -> bool {
    if is_acquired {
        S::begin(name);
    }
    is_acquired
}

/// Turns the hold of a reader into that of a writer, if it became one.
#[inline(always)]
fn upgraded(name: &Name, is_upgraded: bool) -> bool {
    if is_upgraded {
        Upgradable::end(name, Exclusive);
    }
    held::<Written>(name, is_upgraded)
}

/// Loses the hold of this thread, if a recursive read was acquired.
#[inline(always)]
fn unknown(name: &Name, is_acquired: bool) -> bool {
    if is_acquired {
        Read::lose(name, OnThread);
    }
    is_acquired
}

// SAFETY: each function is that of `R`.
unsafe impl<R: lock_api::RawMutex> lock_api::RawMutex for Probed<R> {
    const INIT: Self = Self::with(UNNAMED, R::INIT);

    type GuardMarker = R::GuardMarker;

    #[inline]
    fn lock(&self) {
        lock(&self.name, || self.original.lock());
        Held::begin(&self.name);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        held::<Held>(&self.name, self.original.try_lock())
    }

    #[inline]
    unsafe fn unlock(&self) {
        Held::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.unlock() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.original.is_locked()
    }
}

// SAFETY: as above.
unsafe impl<R: RawMutexFair> RawMutexFair for Probed<R> {
    #[inline]
    unsafe fn unlock_fair(&self) {
        Held::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.unlock_fair() }
    }

    #[inline]
    unsafe fn bump(&self) {
        Held::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.bump() }
        Held::begin(&self.name);
    }
}

// SAFETY: as above.
unsafe impl<R: RawMutexTimed> RawMutexTimed for Probed<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    #[inline]
    fn try_lock_for(&self, limit: R::Duration) -> bool {
        held::<Held>(&self.name, lock_for(&self.name, || self.original.try_lock_for(limit)))
    }

    #[inline]
    fn try_lock_until(&self, end: R::Instant) -> bool {
        held::<Held>(&self.name, lock_until(&self.name, || self.original.try_lock_until(end)))
    }
}

// SAFETY: each function is that of `R`.
unsafe impl<R: lock_api::RawRwLock> lock_api::RawRwLock for Probed<R> {
    const INIT: Self = Self::with(UNNAMED, R::INIT);

    type GuardMarker = R::GuardMarker;

    #[inline]
    fn lock_shared(&self) {
        read(&self.name, || self.original.lock_shared());
        Read::begin(&self.name);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        held::<Read>(&self.name, self.original.try_lock_shared())
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        Read::end(&self.name, OnThread);
        // SAFETY: the caller's promise.
        unsafe { self.original.unlock_shared() }
    }

    #[inline]
    fn lock_exclusive(&self) {
        write(&self.name, || self.original.lock_exclusive());
        Written::begin(&self.name);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        held::<Written>(&self.name, self.original.try_lock_exclusive())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        Written::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.unlock_exclusive() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.original.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.original.is_locked_exclusive()
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockFair> RawRwLockFair for Probed<R> {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        Read::end(&self.name, OnThread);
        // SAFETY: the caller's promise.
        unsafe { self.original.unlock_shared_fair() }
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        Written::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.unlock_exclusive_fair() }
    }

    #[inline]
    unsafe fn bump_shared(&self) {
        Read::end(&self.name, OnThread);
        // SAFETY: the caller's promise.
        unsafe { self.original.bump_shared() }
        Read::begin(&self.name);
    }

    #[inline]
    unsafe fn bump_exclusive(&self) {
        Written::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.bump_exclusive() }
        Written::begin(&self.name);
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockDowngrade> RawRwLockDowngrade for Probed<R> {
    #[inline]
    unsafe fn downgrade(&self) {
        Written::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.downgrade() }
        Read::begin(&self.name);
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockRecursive> RawRwLockRecursive for Probed<R> {
    #[inline]
    fn lock_shared_recursive(&self) {
        read_recursive(&self.name, || self.original.lock_shared_recursive());
        Read::lose(&self.name, OnThread);
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        unknown(&self.name, self.original.try_lock_shared_recursive())
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockRecursiveTimed> RawRwLockRecursiveTimed for Probed<R> {
    #[inline]
    fn try_lock_shared_recursive_for(&self, limit: R::Duration) -> bool {
        let acquire = || self.original.try_lock_shared_recursive_for(limit);
        unknown(&self.name, read_recursive_for(&self.name, acquire))
    }

    #[inline]
    fn try_lock_shared_recursive_until(&self, end: R::Instant) -> bool {
        let acquire = || self.original.try_lock_shared_recursive_until(end);
        unknown(&self.name, read_recursive_until(&self.name, acquire))
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockTimed> RawRwLockTimed for Probed<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    #[inline]
    fn try_lock_shared_for(&self, limit: R::Duration) -> bool {
        held::<Read>(&self.name, read_for(&self.name, || self.original.try_lock_shared_for(limit)))
    }

    #[inline]
    fn try_lock_shared_until(&self, end: R::Instant) -> bool {
        held::<Read>(&self.name, read_until(&self.name, || self.original.try_lock_shared_until(end)))
    }

    #[inline]
    fn try_lock_exclusive_for(&self, limit: R::Duration) -> bool {
        held::<Written>(&self.name, write_for(&self.name, || self.original.try_lock_exclusive_for(limit)))
    }

    #[inline]
    fn try_lock_exclusive_until(&self, end: R::Instant) -> bool {
        held::<Written>(&self.name, write_until(&self.name, || self.original.try_lock_exclusive_until(end)))
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgrade> RawRwLockUpgrade for Probed<R> {
    #[inline]
    fn lock_upgradable(&self) {
        upgradable_read(&self.name, || self.original.lock_upgradable());
        Upgradable::begin(&self.name);
    }

    #[inline]
    fn try_lock_upgradable(&self) -> bool {
        held::<Upgradable>(&self.name, self.original.try_lock_upgradable())
    }

    #[inline]
    unsafe fn unlock_upgradable(&self) {
        Upgradable::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.unlock_upgradable() }
    }

    #[inline]
    unsafe fn upgrade(&self) {
        Upgradable::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        upgrade(&self.name, || unsafe { self.original.upgrade() });
        Written::begin(&self.name);
    }

    #[inline]
    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: the caller's promise.
        upgraded(&self.name, unsafe { self.original.try_upgrade() })
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeFair> RawRwLockUpgradeFair for Probed<R> {
    #[inline]
    unsafe fn unlock_upgradable_fair(&self) {
        Upgradable::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.unlock_upgradable_fair() }
    }

    #[inline]
    unsafe fn bump_upgradable(&self) {
        Upgradable::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.bump_upgradable() }
        Upgradable::begin(&self.name);
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeTimed> RawRwLockUpgradeTimed for Probed<R> {
    #[inline]
    fn try_lock_upgradable_for(&self, limit: R::Duration) -> bool {
        let acquire = || self.original.try_lock_upgradable_for(limit);
        held::<Upgradable>(&self.name, upgradable_read_for(&self.name, acquire))
    }

    #[inline]
    fn try_lock_upgradable_until(&self, end: R::Instant) -> bool {
        let acquire = || self.original.try_lock_upgradable_until(end);
        held::<Upgradable>(&self.name, upgradable_read_until(&self.name, acquire))
    }

    #[inline]
    unsafe fn try_upgrade_for(&self, limit: R::Duration) -> bool {
        // SAFETY: the caller's promise.
        let acquire = || unsafe { self.original.try_upgrade_for(limit) };
        upgraded(&self.name, upgrade_for(&self.name, acquire))
    }

    #[inline]
    unsafe fn try_upgrade_until(&self, end: R::Instant) -> bool {
        // SAFETY: the caller's promise.
        let acquire = || unsafe { self.original.try_upgrade_until(end) };
        upgraded(&self.name, upgrade_until(&self.name, acquire))
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeDowngrade> RawRwLockUpgradeDowngrade for Probed<R> {
    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        Upgradable::end(&self.name, Exclusive);
        // SAFETY: the caller's promise.
        unsafe { self.original.downgrade_upgradable() }
        Read::begin(&self.name);
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        Written::end(&self.name, Exclusive);
        Upgradable::begin(&self.name);
        // SAFETY: the caller's promise.
        unsafe { self.original.downgrade_to_upgradable() }
    }
}
