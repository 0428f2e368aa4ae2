//! What is known of one call site whose hook was reached.
//!
//! | state | the site | a hit |
//! |---|---|---|
//! | waiting | a real call; each hit, and each operation, tries to patch it | the hook delivers it |
//! | patched | NOP5, or a CALL of its stub | by the stub |
//! | switched | across two words: what skips the call, or the call; a jump, or a `ret` in its place | the hook delivers it |
//! | kept | a real call for good, for a reason | the hook delivers it |
//!
//! `is_wanted` says whether somebody listens, as long as there are no bytes that do: who changes it, and who patches the site,
//! look at what the other has done afterwards, so that one of the two sees both ([`Discovery::set_wanted`]).

// Safety: relies on `early` and `name` being written by one thread each, before it publishes them.
#![expect(unsafe_code, reason = "see above")]

mod text;

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::call::{self, Call, LOOKED_AT};
use super::chunk::{self, Chunk, Place};
use super::counters;
use super::fast;
use super::growing::Member;
use super::hooks;
use super::reason::Reason;
use super::switch::{Nothing, Switch};
use super::tails::Tails;
use super::vanished::Taken;
use crate::abi::{Definition, Kind};
use crate::arch::backend;
use crate::dispatch::{Early, TallyAt};
use crate::patch::{Instruction, Site, SiteAddr};
use crate::registry::ProbeId;

/// What became of a call site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// A real call, not patched yet.
    Waiting,
    /// A site, or a call that is switched.
    Patched,
    /// A real call for good.
    Kept(Reason),
}

/// One call site. Zeroes are none.
#[repr(C, align(64))]
pub(crate) struct Discovery {
    /// Where its place is, from when that is taken on. The stub and the definition are found by it.
    pub(super) chunk: AtomicPtr<Chunk>,
    key: AtomicUsize,
    pub(super) function: AtomicUsize,
    /// The hook, for calls of another function that share the site. Its stub reads both.
    pub(super) hook: AtomicUsize,
    /// 0 where the call is not known: a jump to the hook, say.
    returns: AtomicUsize,
    /// The call's bytes, the first in the lowest place.
    bytes: AtomicU64,
    /// A pointer to a `ret`, which a call through a pointer may be led to.
    ret: AtomicUsize,
    state: AtomicU8,
    reason: AtomicI32,
    kind: AtomicU8,
    is_wanted: AtomicBool,
    /// A hit could not patch it.
    is_postponed: AtomicBool,
    /// A hit could have patched it, by itself.
    is_tried: AtomicBool,
    /// Another one has its place in the table.
    is_left: AtomicBool,
    /// Other functions' hits come by its call.
    is_shared: AtomicBool,
    /// The growing attachment had no counter left for it, and says so.
    is_beyond: AtomicBool,
    /// How many hooks are about to change its bytes.
    busy: AtomicUsize,
    /// Who keeps its place from being given back: itself, and its early hook.
    owners: AtomicUsize,
    /// Which object it was named by; 0 before.
    object: AtomicU64,
    /// Which probe the registry has it for, from 1; 0 before.
    probe: AtomicUsize,
    /// The counter that it has in a growing attachment, from 1; 0 without one.
    tally: AtomicUsize,
    pub(super) early: UnsafeCell<MaybeUninit<Early>>,
    /// A name that is too long for the definition.
    text: AtomicPtr<u8>,
    text_len: AtomicUsize,
    /// Of a function that jumps to the hook, once its code was looked into; see [`tails`](super::tails).
    pub(super) tails: AtomicPtr<Tails>,
    /// How many hits of these nobody has wanted.
    pub(super) strays: AtomicUsize,
    /// Another call site of its probe's; see [`shared`](super::shared).
    pub(super) twin: AtomicPtr<Discovery>,
}

// SAFETY: atomics, but for `early`, which is written before the discovery is published, and taken by the holder of the
// control lock.
unsafe impl Sync for Discovery {}

const WAITING: u8 = 1;
const PATCHED: u8 = 2;
const KEPT: u8 = 3;
const SWITCHED: u8 = 4;

/// What the hook was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hit {
    pub(super) function: usize,
    pub(super) kind: Kind,
}

impl Hit {
    /// The key of a function whose call is not known. No return address looks like that.
    pub(super) fn key(self) -> usize {
        1 << 63 | self.function << 1 | usize::from(self.kind == Kind::Exit)
    }
}

impl Discovery {
    /// Writes it, into a place that is nobody else's yet. With a member, hits have something to count with from the first one on.
    pub(super) fn write(
        place: Place,
        key: usize,
        call: Option<Call>,
        hit: Hit,
        state: State,
        member: Option<Member>,
    ) {
        let it = place.discovery();
        it.key.store(key, Ordering::Relaxed);
        it.function.store(hit.function, Ordering::Relaxed);
        it.hook.store(hooks::address(hit.kind == Kind::Entry), Ordering::Relaxed);
        it.returns.store(call.map_or(0, Call::returns), Ordering::Relaxed);
        let mut bytes = [0; 8];
        bytes[..LOOKED_AT].copy_from_slice(&call.map(Call::bytes).unwrap_or_default());
        it.bytes.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        it.ret.store(place.ret(), Ordering::Relaxed);
        it.is_postponed.store(false, Ordering::Relaxed);
        it.is_tried.store(false, Ordering::Relaxed);
        it.kind.store(hit.kind as u8, Ordering::Relaxed);
        it.object.store(0, Ordering::Relaxed);
        it.probe.store(0, Ordering::Relaxed);
        it.busy.store(0, Ordering::Relaxed);
        it.strays.store(0, Ordering::Relaxed);
        it.owners.store(1, Ordering::Relaxed);
        it.is_left.store(false, Ordering::Relaxed);
        it.is_shared.store(false, Ordering::Relaxed);
        it.twin.store(ptr::null_mut(), Ordering::Relaxed);
        it.is_beyond.store(false, Ordering::Relaxed);
        let is_wanted = member.as_ref().is_some_and(|member| !member.is_paused);
        it.is_wanted.store(is_wanted, Ordering::Relaxed);
        it.tally.store(member.as_ref().map_or(0, |member| member.tally + 1), Ordering::Relaxed);
        // SAFETY: a place of the chunk, which nobody else knows.
        unsafe { place.definition_at().write(Definition::discovered(hit.kind, "", "", "", 0)) };
        if let Some(member) = member {
            let definition = place.definition();
            definition.entry().store(backend::entry(definition), Ordering::Relaxed);
            // SAFETY: as above; it lives where the definition does.
            unsafe {
                Early::publish(
                    it.early.get().cast(),
                    definition,
                    TallyAt::new(member.tally),
                    member.subscription,
                );
            };
        }
        it.begin(state);
    }

    pub(super) fn key(&self) -> usize {
        self.key.load(Ordering::Relaxed)
    }

    pub(super) fn hit(&self) -> Hit {
        let kind =
            if self.kind.load(Ordering::Relaxed) == Kind::Exit as u8 { Kind::Exit } else { Kind::Entry };
        Hit { function: self.function.load(Ordering::Relaxed), kind }
    }

    /// Where the call returns to, if the call is known.
    pub(super) fn returns(&self) -> Option<usize> {
        Some(self.returns.load(Ordering::Relaxed)).filter(|returns| *returns != 0)
    }

    /// An address in the text that it is about.
    pub(super) fn text(&self) -> usize {
        self.returns().map_or(self.hit().function, |returns| call::site(returns).0)
    }

    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            PATCHED | SWITCHED => State::Patched,
            KEPT => State::Kept(Reason::decode(self.reason.load(Ordering::Relaxed))),
            _ => State::Waiting,
        }
    }

    fn begin(&self, state: State) {
        let number = match state {
            State::Waiting => WAITING,
            State::Patched => PATCHED,
            State::Kept(reason) => {
                self.reason.store(reason.encode(), Ordering::Relaxed);
                KEPT
            }
        };
        self.state.store(number, Ordering::SeqCst);
    }

    /// A real call for good, unless it is a site by now.
    pub(super) fn keep(&self, reason: Reason) {
        self.reason.store(reason.encode(), Ordering::Relaxed);
        let _ = self.state.compare_exchange(WAITING, KEPT, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// A real call that may become a site after all.
    pub(super) fn wait_again(&self) {
        let _ = self.state.compare_exchange(KEPT, WAITING, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// A site from now on; tells whether it was none before.
    pub(super) fn become_patched(&self) -> bool {
        self.state.swap(PATCHED, Ordering::SeqCst) != PATCHED
    }

    /// The same for a call that is switched in place.
    pub(super) fn become_switched(&self) -> bool {
        self.state.swap(SWITCHED, Ordering::SeqCst) != SWITCHED
    }

    pub(crate) fn is_patched(&self) -> bool {
        self.state() == State::Patched
    }

    /// Whether it is a site, with bytes that tell it from the call that it was.
    pub(super) fn is_site(&self) -> bool {
        self.state.load(Ordering::SeqCst) == PATCHED
    }

    /// Whether it is a call that is switched in place.
    pub(super) fn is_switched(&self) -> bool {
        self.state.load(Ordering::SeqCst) == SWITCHED
    }

    /// A hit could not patch it; tells whether that is the first time.
    pub(super) fn postpone(&self) -> bool {
        !self.is_postponed.load(Ordering::Relaxed) && !self.is_postponed.swap(true, Ordering::Relaxed)
    }

    /// Whether no hit has tried to patch it yet; once.
    pub(super) fn is_first_try(&self) -> bool {
        !self.is_tried.swap(true, Ordering::Relaxed)
    }

    /// The call that was found, if it is known.
    pub(super) fn call(&self) -> Option<Call> {
        let [bytes @ .., _, _] = self.bytes.load(Ordering::Relaxed).to_le_bytes();
        Call::before(self.returns()?, bytes)
    }

    /// How it is switched, if it lies across two words.
    pub(super) fn switch(&self) -> Option<Switch> {
        let nothing =
            Nothing { ret: self.ret.load(Ordering::Relaxed), pointer: ptr::from_ref(&self.ret).addr() };
        Switch::of(self.call()?, nothing)
    }

    /// Whether its bytes are the control's alone to change. Until then, `is_wanted` says what they should be.
    pub(crate) fn is_settled(&self) -> bool {
        // In this order: whoever has patched it was busy before, and no other hook begins to change it.
        self.is_site() && !self.is_busy()
    }

    /// Whether a hook is about to change its bytes.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) != 0
    }

    /// Lets a hook change its bytes, if they are still a call's; until [`end_change`](Self::end_change).
    pub(super) fn begin_change(&self) -> bool {
        self.busy.fetch_add(1, Ordering::SeqCst);
        let may_change = self.state() == State::Waiting;
        if !may_change {
            self.end_change();
        }
        may_change
    }

    /// The hook has changed what it was to change.
    pub(super) fn end_change(&self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }

    /// Says that other functions' hits come by its call; tells whether that is new.
    pub(super) fn become_shared(&self) -> bool {
        !self.is_shared() && !self.is_shared.swap(true, Ordering::SeqCst)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::SeqCst)
    }

    /// No site any more: its bytes are about to be the call's again.
    pub(super) fn end_site(&self) {
        self.reason.store(Reason::Shared.encode(), Ordering::Relaxed);
        let _ = self.state.compare_exchange(PATCHED, KEPT, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether its bytes are to lead to the hook, or to its stub.
    pub(super) fn is_active(&self) -> bool {
        // By a shared call hits come that another function's discovery has to judge.
        self.is_wanted() || self.is_shared()
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }

    /// It is no call site's any more.
    pub(super) fn leave(&self) {
        fast::empty(self);
        self.is_left.store(true, Ordering::Release);
    }

    /// Whether that has been said; once.
    pub(super) fn has_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire) && self.is_left.swap(false, Ordering::AcqRel)
    }

    /// Says whether somebody listens to a real call. Tells whether it was one, or still is: its bytes may be another's to change.
    pub(crate) fn set_wanted(&self, is_wanted: bool) -> Wanted {
        let before = self.is_wanted.swap(is_wanted, Ordering::SeqCst);
        if !is_wanted {
            fast::empty(self);
        }
        match (self.state.load(Ordering::SeqCst), before == is_wanted) {
            (PATCHED, _) => Wanted::Patched,
            (SWITCHED, _) => Wanted::Switched,
            (_, true) => Wanted::Unchanged,
            (_, false) => Wanted::Changed,
        }
    }

    pub(crate) fn definition(&'static self) -> Option<&'static Definition> {
        Place::of(self).map(Place::definition)
    }

    /// The site, and what it is while active.
    pub(crate) fn site(&'static self) -> Option<Site> {
        let addr: SiteAddr = call::site(self.returns()?);
        Some(Site { addr, active: self.active()? })
    }

    /// The CALL of its stub.
    pub(super) fn active(&'static self) -> Option<Instruction> {
        call::call(call::site(self.returns()?), Place::of(self)?.stub())
    }

    /// The object that it was named by, a hash of it; `None` before.
    pub(super) fn object(&self) -> Option<u64> {
        Some(self.object.load(Ordering::Acquire)).filter(|object| *object != 0)
    }

    /// The probe that the registry has it for. For the holder of the control lock.
    pub(crate) fn probe(&self) -> Option<ProbeId> {
        self.probe.load(Ordering::Relaxed).checked_sub(1).map(ProbeId::new)
    }

    pub(crate) fn set_probe(&self, id: ProbeId) {
        self.probe.store(id.index() + 1, Ordering::Relaxed);
    }

    /// Which counter it has in a growing attachment, of all counters.
    pub(crate) fn tally(&self) -> Option<usize> {
        self.tally.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Says that there was no counter left for it; counts it, once for each attachment.
    pub(crate) fn go_beyond(&self) {
        if !self.is_beyond.swap(true, Ordering::Relaxed) {
            counters::BEYOND.add();
        }
    }

    /// Lets it be counted for another attachment.
    pub(crate) fn come_back(&self) {
        self.is_beyond.store(false, Ordering::Relaxed);
    }

    /// Takes its early hook's member, once the hook is no definition's any more. For the control lock's holder.
    pub(crate) fn take_early(&'static self) -> Option<Taken> {
        (self.tally.swap(0, Ordering::Relaxed) != 0).then(|| {
            self.owners.fetch_add(1, Ordering::Relaxed);
            Taken::new(self)
        })
    }

    /// One of its owners is done with it. The last one gives the place back: of what is retired, any may be freed first.
    pub(super) fn disown(&'static self) {
        if self.owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.is_wanted.store(false, Ordering::SeqCst);
            fast::empty(self);
            self.forget_text();
            self.forget_tails();
            Place::of(self).into_iter().for_each(chunk::give_back);
        }
    }
}

/// What [`Discovery::set_wanted`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// A real call, of which it has changed.
    Changed,
    /// A real call, of which it was so.
    Unchanged,
    /// A site, by now.
    Patched,
    /// A call that is switched in place: its bytes may have to change.
    Switched,
}
