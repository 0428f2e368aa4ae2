//! A discovery: one call site that has reached a hook.
//!
//! | state | the site | a hit |
//! |---|---|---|
//! | waiting | a real call; each hit, and each operation, tries to patch it | the hook leads it to the stub, or delivers it |
//! | patched | NOP5, or a CALL of its stub | by the stub |
//! | switched | across two words: a skip of the call, or the call; a jump, or a `ret` in its place | the hook leads it to the stub, or delivers it |
//! | unpatched | a real call, permanently, for a reason | the hook leads it to the stub, or delivers it |
//!
//! `is_enabled` records whether a consumer listens, as long as no bytes do. A thread that sets it
//! and a hook that patches the site each look afterwards at what the other one has done. So at
//! least one of the two sees both changes.

// Safety: relies on `inline_hook` and `name` being written by one thread each, before it publishes
// them. The holder of the control lock names a discovery, once.
#![expect(unsafe_code, reason = "see above")]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::call::{self, Call, MAX_CALL_LEN};
use super::call_cache::CachedEntries;
use super::call_patch::{CallPatch, ReturnTarget};
use super::chunk::{self, Chunk, ChunkPlace};
use super::counters;
use super::outcome::Reason;
use super::provider::ControlLocked;
use crate::engine::dispatch::{CounterAt, InlineHook, ReadGuard, Subscription};
use crate::engine::entry::backend;
use crate::engine::os::objects::Frozen;
use crate::engine::registry::ProbeId;
use crate::engine::registry::provider::{CallSite, ListedProbe};
use crate::engine::sites::{Instruction, Site, SiteAddr};
use probe_core::abi::{Convention, Definition, Kind};
use probe_hooks::{Fragment, Jump};

/// One call site. Zeroed memory is no call site.
#[repr(C, align(64))]
pub(super) struct Discovery {
    /// The chunk of its place, once the place is taken. It leads to the stub and the definition.
    pub(super) chunk: AtomicPtr<Chunk>,
    key: AtomicUsize,
    pub(super) function: AtomicUsize,
    /// The hook, for calls of another function that share the site. The stub reads function and
    /// hook.
    pub(super) hook: AtomicUsize,
    /// The return address; 0 if the call is not known: a jump to the hook, say.
    returns: AtomicUsize,
    /// The call's bytes, the first in the lowest place.
    bytes: AtomicU64,
    /// A pointer to a `ret`. A call through a pointer can be led there.
    ret: AtomicUsize,
    state: AtomicU8,
    reason: AtomicI32,
    kind: AtomicU8,
    is_enabled: AtomicBool,
    /// Whether a hit has failed to patch it.
    is_postponed: AtomicBool,
    /// Whether a hit has tried to patch it by itself.
    is_tried: AtomicBool,
    /// Whether another discovery has taken its key in the table.
    is_superseded: AtomicBool,
    /// Whether hits of other functions come by its call.
    is_shared: AtomicBool,
    /// The address of the call or jump where an operation found the function; 0 if a hit found it.
    pub(super) found_at: AtomicUsize,
    /// Whether there was no room for it where all discovered functions are counted.
    is_beyond_capacity: AtomicBool,
    /// The number of hooks that are changing its bytes.
    writers: AtomicUsize,
    /// The number of references that keep its place: the discovery, and its inline hook.
    references: AtomicUsize,
    /// A hash of the object that it was named by; 0 before.
    object: AtomicU64,
    probe: ListedProbe,
    /// The counter of its first hits, from 1; 0 without one.
    counter: AtomicUsize,
    pub(super) inline_hook: UnsafeCell<MaybeUninit<InlineHook>>,
    /// A name that is too long for the definition.
    long_name: AtomicPtr<u8>,
    long_name_len: AtomicUsize,
    /// Tail jumps to the hook, once the function's code was examined; see
    /// [`tail_jumps`](super::tail_jumps).
    pub(super) tail_jumps: AtomicPtr<TailJumps>,
    /// The number of hits that came by these jumps while no consumer listened.
    pub(super) unexpected_hits: AtomicUsize,
    /// Another call site of the same probe; see [`shared_calls`](super::shared_calls).
    pub(super) sibling: AtomicPtr<Discovery>,
    pub(super) cached: CachedEntries,
}

// SAFETY: all fields are atomics but for `inline_hook`, which is written before the discovery is
// published, and taken by the holder of the control lock.
unsafe impl Sync for Discovery {}

/// The state of a call site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// A real call, not patched yet.
    Waiting,
    /// A site, or a call that is switched in place.
    Patched,
    /// A real call, permanently.
    Unpatched(Reason),
}

/// The state that [`Discovery::set_enabled`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EnableOutcome {
    /// A real call; whether it is enabled has changed.
    Changed,
    /// A real call that was enabled or disabled before already.
    Unchanged,
    /// A site.
    Patched,
    /// A call that is switched in place: its bytes may have to change.
    Switched,
}

/// A function's jumps to a hook.
#[derive(Debug)]
pub(super) enum TailJumps {
    /// As the object's file has them.
    Decoded { fragments: Vec<Fragment>, jumps: Vec<Jump> },
    /// As the loaded object has them.
    Switched(Vec<CallPatch>),
}

/// The counter of a newly discovered probe.
pub(super) struct FirstHitCounter {
    /// The index of the counter.
    pub(super) counter: usize,
    pub(super) subscription: Arc<Subscription>,
}

impl Discovery {
    /// Writes a discovery into a place that no other thread knows yet. With a counter, hits are
    /// counted from the first one on.
    pub(super) fn write(
        place: ChunkPlace,
        key: usize,
        call: Option<Call>,
        hit: Hit,
        hook: usize,
        state: State,
        counter: Option<FirstHitCounter>,
    ) {
        let it = place.discovery();
        it.key.store(key, Ordering::Relaxed);
        it.function.store(hit.function, Ordering::Relaxed);
        it.hook.store(hook, Ordering::Relaxed);
        it.returns.store(call.map_or(0, Call::returns), Ordering::Relaxed);
        let mut bytes = [0; 8];
        bytes[..MAX_CALL_LEN].copy_from_slice(&call.map(Call::bytes).unwrap_or_default());
        it.bytes.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        it.ret.store(place.ret(), Ordering::Relaxed);
        it.is_postponed.store(false, Ordering::Relaxed);
        it.is_tried.store(false, Ordering::Relaxed);
        it.kind.store(hit.kind as u8, Ordering::Relaxed);
        it.object.store(0, Ordering::Relaxed);
        it.probe.clear();
        it.writers.store(0, Ordering::Relaxed);
        it.unexpected_hits.store(0, Ordering::Relaxed);
        it.references.store(1, Ordering::Relaxed);
        it.is_superseded.store(false, Ordering::Relaxed);
        it.is_shared.store(false, Ordering::Relaxed);
        it.sibling.store(ptr::null_mut(), Ordering::Relaxed);
        it.found_at.store(0, Ordering::Relaxed);
        it.cached.reset();
        it.is_beyond_capacity.store(false, Ordering::Relaxed);
        it.is_enabled.store(counter.is_some(), Ordering::Relaxed);
        it.counter.store(counter.as_ref().map_or(0, |counter| counter.counter + 1), Ordering::Relaxed);
        // SAFETY: a place of the chunk, which no other thread knows.
        unsafe { place.definition_at().write(definition(hit.kind, "", "", "", 0)) };
        if let Some(counter) = counter {
            let definition = place.definition();
            definition.entry().store(backend::entry(definition), Ordering::Relaxed);
            // SAFETY: as above; it lives where the definition does.
            unsafe {
                InlineHook::publish(
                    it.inline_hook.get().cast(),
                    definition,
                    CounterAt::new(counter.counter),
                    counter.subscription,
                );
            };
        }
        it.set_initial_state(state);
    }

    pub(super) fn key(&self) -> usize {
        self.key.load(Ordering::Relaxed)
    }

    pub(super) fn hit(&self) -> Hit {
        let kind =
            if self.kind.load(Ordering::Relaxed) == Kind::Exit as u8 { Kind::Exit } else { Kind::Entry };
        Hit { function: self.function.load(Ordering::Relaxed), kind }
    }

    /// Returns the address of the hook that its call leads to.
    pub(super) fn hook_address(&self) -> usize {
        self.hook.load(Ordering::Relaxed)
    }

    /// Returns the return address, if the call is known.
    pub(super) fn returns(&self) -> Option<usize> {
        Some(self.returns.load(Ordering::Relaxed)).filter(|returns| *returns != 0)
    }

    /// Returns an address in the text that calls the hook for the function: the call's, if it is
    /// known.
    pub(super) fn text_address(&self) -> usize {
        let found_at = || Some(self.found_at.load(Ordering::Relaxed)).filter(|at| *at != 0);
        self.returns().map(|returns| call::site(returns).0).or_else(found_at).unwrap_or(self.hit().function)
    }

    /// Returns its definition, for the hit that keeps its place.
    pub(super) fn definition_inside<'a>(&'static self, _inside: &'a ReadGuard) -> Option<&'a Definition> {
        ChunkPlace::of(self).map(ChunkPlace::definition)
    }

    /// Notes that a hit has failed to patch it, and counts that once.
    pub(super) fn postpone(&self) {
        if !self.is_postponed.load(Ordering::Relaxed) && !self.is_postponed.swap(true, Ordering::Relaxed) {
            counters::POSTPONED.add();
        }
    }

    /// Notes that a hit tries to patch it. Returns whether that is the first time.
    pub(super) fn is_first_try(&self) -> bool {
        !self.is_tried.swap(true, Ordering::Relaxed)
    }

    /// Returns the call that was found, if it is known.
    pub(super) fn call(&self) -> Option<Call> {
        let [bytes @ .., _, _] = self.bytes.load(Ordering::Relaxed).to_le_bytes();
        Call::before(self.returns()?, bytes)
    }

    /// Returns the switch of the call, if it lies across two words.
    pub(super) fn switch(&self) -> Option<CallPatch> {
        let target =
            ReturnTarget { ret: self.ret.load(Ordering::Relaxed), pointer: ptr::from_ref(&self.ret).addr() };
        CallPatch::of(self.call()?, target)
    }

    /// Notes that another discovery has taken its key.
    pub(super) fn mark_superseded(&self) {
        self.invalidate_cache();
        self.is_superseded.store(true, Ordering::Release);
    }

    /// Returns whether [`mark_superseded`](Self::mark_superseded) was called since the last call of
    /// this function.
    pub(super) fn take_superseded(&self) -> bool {
        self.is_superseded.load(Ordering::Acquire) && self.is_superseded.swap(false, Ordering::AcqRel)
    }

    /// Returns the CALL of its stub.
    pub(super) fn active(&'static self) -> Option<Instruction> {
        call::call(call::site(self.returns()?), ChunkPlace::of(self)?.stub())
    }

    /// Returns a hash of the object that it was named by; `None` before.
    pub(super) fn object(&self) -> Option<u64> {
        Some(self.object.load(Ordering::Acquire)).filter(|object| *object != 0)
    }

    /// Notes that there was no counter left for it, and counts that once for each attachment.
    pub(super) fn mark_beyond_capacity(&self) {
        if !self.is_beyond_capacity.swap(true, Ordering::Relaxed) {
            counters::BEYOND_CAPACITY.add();
        }
    }

    /// Allows the counting for another attachment.
    pub(super) fn clear_beyond_capacity(&self) {
        self.is_beyond_capacity.store(false, Ordering::Relaxed);
    }

    /// Makes its inline hook hold a reference to the place. Returns `false` if it has no inline
    /// hook, or if the hook was detached before.
    pub(super) fn detach_inline_hook(&self) -> bool {
        let has_hook = self.counter.swap(0, Ordering::Relaxed) != 0;
        if has_hook {
            self.references.fetch_add(1, Ordering::Relaxed);
        }
        has_hook
    }

    /// Drops a reference. The last one frees the place, since retired parts may be freed in any
    /// order.
    pub(super) fn release(&'static self) {
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.is_enabled.store(false, Ordering::SeqCst);
            self.invalidate_cache();
            self.free_long_name();
            self.drop_tail_jumps();
            ChunkPlace::of(self).into_iter().for_each(chunk::free);
        }
    }
}

impl CallSite for Discovery {
    fn definition<'a>(&'static self, _frozen: &'a Frozen) -> Option<&'a Definition> {
        ChunkPlace::of(self).map(ChunkPlace::definition)
    }

    fn site(&'static self) -> Option<Site> {
        let addr: SiteAddr = call::site(self.returns()?);
        // Another function may share the call, and only the stub can tell.
        Some(Site::new(addr, self.active()?).without_block())
    }

    fn is_settled(&self) -> bool {
        // In this order: the hook that has patched it was busy before, and no other hook begins to
        // change a site. Until then, `is_enabled` says what the bytes should be.
        self.is_site() && !self.is_changing()
    }

    fn places(&self) -> usize {
        self.tail_switches().len().max(1)
    }

    fn was_reached(&self) -> bool {
        self.found_at.load(Ordering::Relaxed) == 0
    }

    fn probe(&self) -> Option<ProbeId> {
        self.probe.get()
    }

    fn set_probe(&self, id: ProbeId) {
        self.probe.set(id);
    }

    fn counter(&self) -> Option<usize> {
        self.counter.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// Makes the definition of a call that the compiler expects.
fn definition(kind: Kind, text: &'static str, path: &str, file: &str, line: u32) -> Definition {
    Definition::discovered(kind, Convention::Call, text, path, file, "", line)
}

/// The function and the kind of a hook's hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hit {
    pub(super) function: usize,
    pub(super) kind: Kind,
}

impl Hit {
    /// Returns the key of a function whose call is not known. Its highest bit tells it from return
    /// addresses.
    pub(super) fn key(self) -> usize {
        1 << 63 | self.function << 1 | usize::from(self.kind == Kind::Exit)
    }
}

const WAITING: u8 = 1;
const PATCHED: u8 = 2;
const UNPATCHED: u8 = 3;
const SWITCHED: u8 = 4;

impl Discovery {
    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            PATCHED | SWITCHED => State::Patched,
            UNPATCHED => State::Unpatched(Reason::decode(self.reason.load(Ordering::Relaxed))),
            _ => State::Waiting,
        }
    }

    fn set_initial_state(&self, state: State) {
        let number = match state {
            State::Waiting => WAITING,
            State::Patched => PATCHED,
            State::Unpatched(reason) => {
                self.reason.store(reason.encode(), Ordering::Relaxed);
                UNPATCHED
            }
        };
        self.state.store(number, Ordering::SeqCst);
    }

    /// Makes a waiting call a real call permanently. A call that has become a site stays a site.
    pub(super) fn keep_unpatched(&self, reason: Reason) {
        self.reason.store(reason.encode(), Ordering::Relaxed);
        let _ = self.state.compare_exchange(WAITING, UNPATCHED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Makes an unpatched call wait for a patch again.
    pub(super) fn retry_patching(&self) {
        let _ = self.state.compare_exchange(UNPATCHED, WAITING, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Marks a call as a site. Returns whether the state has changed.
    pub(super) fn become_patched(&self) -> bool {
        self.state.swap(PATCHED, Ordering::SeqCst) != PATCHED
    }

    /// Marks a call as switched in place. Returns whether the state has changed.
    pub(super) fn become_switched(&self) -> bool {
        self.state.swap(SWITCHED, Ordering::SeqCst) != SWITCHED
    }

    pub(super) fn is_patched(&self) -> bool {
        self.state() == State::Patched
    }

    /// Returns whether it is a site, whose bytes differ from those of the call that it was.
    pub(super) fn is_site(&self) -> bool {
        self.state.load(Ordering::SeqCst) == PATCHED
    }

    /// Returns whether it is a call that is switched in place.
    pub(super) fn is_switched(&self) -> bool {
        self.state.load(Ordering::SeqCst) == SWITCHED
    }

    /// Marks a site as a shared call, which is real permanently, before its bytes become the call's
    /// again.
    pub(super) fn mark_shared_call(&self) {
        self.reason.store(Reason::Shared.encode(), Ordering::Relaxed);
        let _ = self.state.compare_exchange(PATCHED, UNPATCHED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Lets a hook change the bytes, until [`end_change`](Self::end_change), if the call still
    /// waits. Returns whether it may.
    pub(super) fn begin_change(&self) -> bool {
        self.writers.fetch_add(1, Ordering::SeqCst);
        let may_change = self.state() == State::Waiting;
        if !may_change {
            self.end_change();
        }
        may_change
    }

    /// Ends a change that [`begin_change`](Self::begin_change) has allowed.
    pub(super) fn end_change(&self) {
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether a hook is changing the bytes.
    pub(super) fn is_changing(&self) -> bool {
        self.writers.load(Ordering::SeqCst) != 0
    }
}

impl Discovery {
    /// Records whether a consumer listens. The result tells whether bytes may have to change, too.
    pub(super) fn set_enabled(&self, is_enabled: bool) -> EnableOutcome {
        let before = self.is_enabled.swap(is_enabled, Ordering::SeqCst);
        if before != is_enabled {
            self.invalidate_cache();
        }
        match (self.state.load(Ordering::SeqCst), before == is_enabled) {
            (PATCHED, _) => EnableOutcome::Patched,
            (SWITCHED, _) => EnableOutcome::Switched,
            (_, true) => EnableOutcome::Unchanged,
            (_, false) => EnableOutcome::Changed,
        }
    }

    /// Makes hooks look its hits up again.
    pub(super) fn invalidate_cache(&self) {
        self.cached.invalidate();
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::SeqCst)
    }

    /// Returns whether the bytes have to lead to the hook, or to the stub.
    pub(super) fn is_active(&self) -> bool {
        // A shared call also brings hits of other functions, which their own discoveries judge.
        self.is_enabled() || self.is_shared()
    }

    /// Notes that hits of other functions come by this call. Returns whether that is new.
    pub(super) fn become_shared(&self) -> bool {
        !self.is_shared() && !self.is_shared.swap(true, Ordering::SeqCst)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::SeqCst)
    }
}

impl Discovery {
    /// Names the discovery. From now on its definition may be read.
    pub(super) fn name(
        &'static self,
        _locked: &ControlLocked,
        object: u64,
        path: &str,
        file: &str,
        line: u32,
    ) {
        let Some(place) = ChunkPlace::of(self) else { return };
        // Most names are copied into the definition.
        let text: &'static mut str = Box::leak([path, file].concat().into_boxed_str());
        self.long_name_len.store(text.len(), Ordering::Relaxed);
        self.long_name.store(text.as_mut_ptr(), Ordering::Relaxed);
        let named = definition(self.hit().kind, text, path, file, line);
        // SAFETY: before it is named, no thread reads more of it than entry and hook. The control
        // lock's holder names it.
        unsafe { named.describe(place.definition_at()) };
        if named.text_elsewhere().is_none() {
            self.free_long_name();
        }
        self.object.store(object.max(1), Ordering::Release);
    }

    fn free_long_name(&self) {
        let (start, len) = (
            self.long_name.swap(ptr::null_mut(), Ordering::Relaxed),
            self.long_name_len.load(Ordering::Relaxed),
        );
        if !start.is_null() {
            // SAFETY: from `name`, taken out once; no definition that is read refers to it.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, len)) });
        }
    }
}
