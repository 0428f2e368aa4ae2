//! The discovery of each return address: 16 bytes a call site, in a table that a hook may look into
//! anywhere.
//!
//! # Publishing
//! Puts call sites into the table, for hooks that reach them and for operations that find them
//! ahead.
//!
//! # Reclaiming
//! The remains of discoveries that no hit will find any more: their inline hooks, and their places.
//! Both are retired, and freed when no thread can be in a hit that has read them.

// Safety: relies on entries of zeroes being free ones; on discoveries, whose memory is never given
// back; and on callers, whose call sites are in text that stays mapped: a hook's own call's, or
// that of a loaded object. Inline hooks are dropped when `reclaimer` gives them out.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::call::{Call, read_call};
use super::call_site::{Discovery, Hit, State};
use super::chunk::{self, ChunkPlace};
use super::outcome::Reason;
use super::{counters, provider, shared_calls};
use crate::engine::dispatch::{InlineHook, ReadGuard};
use crate::engine::registry::provider::{CallSite, note_all};
use crate::engine::sites::SiteAddr;
use crate::engine::sites::table::{self, Table};

static TABLE: Table<CallEntry, { 1 << 12 }, 18> = Table::new();

/// One call site. Zeroes are a free entry.
#[repr(C)]
pub(super) struct CallEntry {
    key: AtomicUsize,
    discovery: AtomicPtr<Discovery>,
}

impl CallEntry {
    /// Returns its discovery, if it has one.
    pub(super) fn discovery(&self) -> Option<&'static Discovery> {
        // SAFETY: null, or a discovery, whose memory is never given back.
        unsafe { self.discovery.load(Ordering::Acquire).as_ref() }
    }

    /// Replaces the discovery, if it still is `old`. Otherwise returns the present one.
    pub(super) fn replace(
        &self,
        old: Option<&'static Discovery>,
        new: Option<&'static Discovery>,
    ) -> Result<(), Option<&'static Discovery>> {
        let pointer =
            |it: Option<&'static Discovery>| it.map_or(ptr::null_mut(), |it| ptr::from_ref(it).cast_mut());
        (self.discovery)
            .compare_exchange(pointer(old), pointer(new), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            // SAFETY: as above.
            .map_err(|found| unsafe { found.as_ref() })
    }
}

// SAFETY: atomics, of which zeroes are a free entry.
unsafe impl table::Entry for CallEntry {
    fn key(&self) -> usize {
        self.key.load(Ordering::Acquire)
    }

    fn take(&self, key: usize) -> Result<(), usize> {
        self.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

/// Finds the entry of a key, which is not 0.
pub(super) fn find(key: usize) -> Option<&'static CallEntry> {
    TABLE.find(key)
}

/// Finds the entry of a key, or makes it. Returns `None` if there is no memory.
pub(super) fn find_or_insert(key: usize) -> Option<&'static CallEntry> {
    TABLE.find_or_insert(key)
}

/// Finds the entry of a key, or makes it in memory that the table has.
pub(super) fn find_or_place(key: usize) -> Option<&'static CallEntry> {
    TABLE.find_or_place(key)
}

/// Makes sure that [`find_or_place`] has room for most keys, unless there is no memory.
pub(super) fn reserve() {
    TABLE.keep_room(published().count());
}

/// Returns the places of discoveries that the table knows.
pub(super) fn published() -> impl Iterator<Item = ChunkPlace> {
    chunk::all().filter(|place| is_published(place.discovery()))
}

/// Returns whether the table knows a discovery.
pub(super) fn is_published(discovery: &'static Discovery) -> bool {
    let known = find(discovery.key()).and_then(CallEntry::discovery);
    known.is_some_and(|known| ptr::eq(known, discovery))
}

/// Returns whether a discovery is out of date: another object was loaded there, or the same one
/// anew. Then a site is a call again, or the call is another one.
///
/// # Safety
/// The text before its return address stays mapped.
pub(super) unsafe fn is_stale(discovery: &Discovery, hook: usize) -> bool {
    // In this order: the thread that makes it a site has published it before.
    let is_site = discovery.is_site();
    // SAFETY: the caller's promise.
    let there = discovery.returns().and_then(|returns| unsafe { read_call(returns, hook) });
    there.is_some_and(|call| is_site || discovery.call() != Some(call))
}

/// The finder of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FoundBy {
    /// An operation, which has seen that the function tells the hook of itself here: the address
    /// of a call or a jump.
    Operation {
        at: usize,
    },
    Hit,
    /// A hit that makes no system calls, and so maps no memory.
    QuietHit,
}

/// Puts a call into the table. Returns whether it is new there; `None` if there is no memory. The
/// provider is registered.
///
/// # Safety
/// The text around the call, or of the function if the call is not known, stays mapped.
pub(super) unsafe fn publish(
    inside: &ReadGuard,
    hit: Hit,
    call: Option<Call>,
    owner: Option<&'static Discovery>,
    hook: usize,
    by: FoundBy,
) -> Option<(&'static Discovery, bool)> {
    let call = call.filter(|_| owner.is_none());
    let (key, near, state) = match call {
        Some(call) => (call.returns(), call.site(), State::Waiting),
        None => (hit.key(), SiteAddr(hit.function), State::Unpatched(Reason::NotACall)),
    };
    let may_map = by != FoundBy::QuietHit;
    let entry = if may_map { find_or_insert(key) } else { find_or_place(key) }?;
    loop {
        let old = entry.discovery();
        // SAFETY: a discovery of this call.
        if let Some(known) = old.filter(|old| !unsafe { is_stale(old, hook) }) {
            return Some((known, false));
        }
        let place = if may_map { chunk::allocate(near) } else { chunk::allocate_mapped() }?;
        let no_stub = place.refusal().filter(|_| state == State::Waiting);
        let state = no_stub.map_or(state, |errno| State::Unpatched(Reason::NoStub { errno }));
        let counter = counters::take_counter(inside);
        let is_beyond_capacity = counter.is_none() && counters::is_counting();
        Discovery::write(place, key, call, hit, hook, state, counter);
        if let FoundBy::Operation { at } = by {
            place.discovery().found_at.store(at, Ordering::Relaxed);
        }
        if let Some(owner) = owner {
            shared_calls::find_sibling(place.discovery(), owner);
        }
        if entry.replace(old, Some(place.discovery())).is_ok() {
            counters::DISCOVERED.add();
            if is_beyond_capacity {
                place.discovery().mark_beyond_capacity();
            }
            if let Some(old) = old {
                old.mark_superseded();
                note_all();
            }
            provider::note_pending(place.discovery());
            return Some((place.discovery(), true));
        }
        // Another thread was faster. No thread has seen this one.
        let counter = place.discovery().counter();
        drop(ReplacedHook::take(place.discovery()));
        chunk::free(place);
        counter.into_iter().for_each(|counter| counters::return_counter(inside, counter));
    }
}

/// An inline hook that was replaced. Freed when no thread can be reading it.
pub(super) struct ReplacedHook(&'static Discovery);

// SAFETY: the hook is owned, and all of its fields are `Send`.
unsafe impl Send for ReplacedHook {}

impl ReplacedHook {
    /// Takes a discovery's inline hook, once no definition refers to it. For the holder of the
    /// control lock.
    pub(super) fn take(discovery: &'static Discovery) -> Option<Self> {
        discovery.detach_inline_hook().then(|| Self(discovery))
    }
}

impl Drop for ReplacedHook {
    fn drop(&mut self) {
        // SAFETY: taken once, and dropped when `reclaimer` gives it out.
        unsafe { InlineHook::drop_in_place(self.0.inline_hook.get().cast()) };
        self.0.release();
    }
}

/// A discovery whose object is gone. Its place is given back when no hook can be looking at it.
pub(super) struct Unloaded(&'static Discovery);

impl Unloaded {
    /// Retires a discovery that the table does not have any more.
    pub(super) fn new(discovery: &'static Discovery) -> Self {
        if discovery.object().is_none() {
            counters::UNNAMED.add();
        }
        Self(discovery)
    }
}

impl Drop for Unloaded {
    fn drop(&mut self) {
        drop(ReplacedHook::take(self.0));
        self.0.release();
    }
}
