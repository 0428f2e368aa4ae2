//! Decides which hits of an attachment get further, by a predicate.
//!
//! ```text
//! attach ▸ plan: which hit of a call decides, and the program for it     (per probe)
//! hit    ▸ alone: the program decides
//!          entry: the program decides for its whole call ──▶ a note in `calls`
//!          exit and polls: the note of their entry
//!          exit that decides: the program, with the call's time
//! ```
//! So no call is half seen: if its entry did not pass, neither does its exit, nor do the polls of
//! its future. If a predicate needs a field of the exit, or the time, the exit alone gets further.
//! Consumers that need entries refuse such a predicate.
//!
//! Life cycle: planned when its consumer is prepared; a thread's memory as for each consumer.
//!
//! Cost: a hit that decides alone takes a look-up of its probe and the program's steps. Pairing
//! costs what `calls` costs, and a reading of the clock where the time is asked for. `first N`
//! takes one locked instruction for each of the first N hits, and none after them.

// Safety: relies on zeroes being no faults.
#![expect(unsafe_code, reason = "see above")]

mod attach;
mod mismatches;
mod plan;

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::{fmt, mem};

use mismatches::Mismatches;
pub(super) use plan::{EvaluatedParts, Expressions, HitRole, HitsOfCall, Plan, fields};

use crate::engine::by_probe::ByProbe;
use crate::engine::calls::{CallEnd, Calls, Meter, add_single_writer};
use crate::engine::clock::{Clock, Scale};
use crate::engine::control::{ForkSafe, ProbeSet, Start, Switch};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::{Local, PerThread, Zeroed};
use crate::engine::registry::ProbeId;
use crate::engine::sites::Visibility;
use probe_lang::expression::{Datum, FAULTS, Fault, Program, Surroundings};
use probe_report::was;

/// A call's note: its entry was seen; it has passed. The rest is its consumer's.
const SEEN: u64 = 1;
const PASSED: u64 = 2;
const SHIFT: u32 = 2;

/// One thread's counts of hits without a decision.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Faults([AtomicU64; FAULTS.len()]);

// SAFETY: atomics only.
unsafe impl Zeroed for Faults {}

/// Notes of calls, and their times.
#[derive(Debug)]
pub(super) struct Notes {
    clock: Option<Clock>,
}

/// Messages between a hit and its call, on one thread.
#[repr(C)]
#[derive(Debug)]
pub(super) struct NoteExchange {
    /// For the call that begins.
    given: AtomicU64,
    /// Of the call that ends, or continues.
    note: AtomicU64,
    ticks: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for NoteExchange {}

impl Meter<1> for Notes {
    type Head = NoteExchange;
    type Part = ();
    const NOTES: bool = true;
    const KEEPS_NOTES: bool = true;

    #[inline(always)]
    fn read(&self, _: Local<'_, NoteExchange, ()>) -> [u64; 1] {
        [self.clock.map_or(0, Clock::now)]
    }

    #[inline(always)]
    fn read_inline(&self) -> Option<[u64; 1]> {
        match self.clock {
            None => Some([0]),
            Some(clock) => clock.counter().map(|now| [now]),
        }
    }

    #[inline(always)]
    fn begin(&self, local: Local<'_, NoteExchange, ()>, _function: usize, _outer: u64) -> u64 {
        let exchange = local.head();
        let given = exchange.given.load(Relaxed);
        exchange.note.store(given, Relaxed);
        given
    }

    fn resume(&self, local: Local<'_, NoteExchange, ()>, note: u64) {
        local.head().note.store(note, Relaxed);
    }

    #[inline(always)]
    fn end(&self, ended: &CallEnd<'_, 1, NoteExchange, ()>) {
        ended.head.note.store(ended.note, Relaxed);
        if let Some(call) = ended.completed {
            ended.head.ticks.store(call.total[0], Relaxed);
        }
    }
}

/// A hit, and what its expressions may ask for: its thread, the time, its call, and samples.
pub(super) struct HitContext<'a> {
    filter: &'a FilterState,
    event: &'a Event<'a>,
    /// Since the entry of its call.
    ticks: Option<u64>,
}

impl HitContext<'_> {
    #[inline]
    pub(super) fn value<'a>(&'a self, program: &'a Program) -> Result<Datum<'a>, Fault> {
        program.value(self.event.values(), self)
    }

    /// Nanoseconds since the entry of its call.
    pub(super) fn call_time(&self) -> Result<u64, Fault> {
        self.latency().ok_or(Fault::Unpaired)
    }
}

impl Surroundings for HitContext<'_> {
    fn thread(&self) -> u64 {
        self.event.thread()
    }

    fn time(&self) -> u64 {
        let filter = self.filter;
        filter.scale.nanoseconds(filter.clock.now().saturating_sub(filter.began))
    }

    fn latency(&self) -> Option<u64> {
        Some(self.filter.scale.nanoseconds(self.ticks?))
    }

    fn first(&self, sample: usize, hits: u64) -> bool {
        let Some(seen) = self.filter.firsts.get(sample) else { return false };
        // Only the first hits write, so that later ones execute no locked instruction.
        seen.load(Relaxed) < hits && seen.fetch_add(1, Relaxed) < hits
    }

    fn one_in(&self, sample: usize, hits: u64) -> bool {
        let Some(local) = self.filter.memory.of(self.event) else { return false };
        let Some(seen) = local.parts().get(sample) else { return false };
        add_single_writer(seen, 1);
        seen.load(Relaxed).is_multiple_of(hits)
    }
}

/// A plan, and the memory that it needs.
#[derive(Debug)]
pub(super) struct CallFilter {
    plan: OnceLock<FilterState>,
    switch: OnceLock<Switch>,
}

struct FilterState {
    roles: ByProbe<HitRole>,
    calls: Option<(Calls<1, Notes>, Notes)>,
    left: ForkSafe<Misfits>,
    /// Faults, and a count for each `1 in N`.
    memory: PerThread<Faults, AtomicU64>,
    /// The hits that each `first N` has seen, up to N.
    firsts: Box<[AtomicU64]>,
    clock: Clock,
    scale: Scale,
    began: u64,
}

/// The probes that are left out so far.
#[derive(Clone, Default)]
struct Misfits {
    for_good: Mismatches,
    /// Those of functions that lack a probe.
    so_far: Mismatches,
    incomplete: Vec<ProbeId>,
}

/// A hit that goes further.
pub(super) enum PassedHit {
    /// It begins a call, whose later hits get the number that is returned.
    Begin,
    /// It ends a call, continues with one, or has none. The number is that of its entry.
    Other(u64),
}

impl CallFilter {
    pub(super) const fn new() -> Self {
        Self { plan: OnceLock::new(), switch: OnceLock::new() }
    }

    /// Gets ready for the probes of a plan.
    pub(super) fn prepare(&self, probes: &ProbeSet, mut plan: Plan) -> Result<(), Error> {
        plan.check()?;
        let clock = Clock::new();
        let pairs = (plan.is_paired || probes.room() != 0).then(|| -> Result<_, Error> {
            let notes = || Notes { clock: plan.needs_latency.then_some(clock) };
            Ok((Calls::new(probes)?, notes()))
        });
        let state = FilterState {
            calls: pairs.transpose()?,
            memory: PerThread::new(plan.samples)?,
            firsts: (0..plan.samples).map(|_| AtomicU64::new(0)).collect(),
            // Knowing it takes milliseconds at a program's beginning.
            scale: if plan.needs_clock() { clock.scale() } else { Scale::UNUSED },
            began: clock.now(),
            clock,
            roles: ByProbe::new(probes.numbers()),
            left: ForkSafe::new(Misfits::default()),
        };
        state.add(&mut plan);
        let _ = self.plan.set(state);
        Ok(())
    }

    /// Returns the probes to plan for when these join: the new ones, and those of functions that
    /// lacked some.
    pub(super) fn joined_by(&self, probes: &ProbeSet) -> ProbeSet {
        let Some(state) = self.plan.get() else { return probes.clone() };
        probes.only(&|id| !state.is_known(*id)).with(&state.left.get().incomplete)
    }

    /// Returns an error if it has no room for these probes.
    pub(super) fn check(&self, probes: &ProbeSet) -> Result<(), Error> {
        let has_room = |state: &FilterState| probes.ids().iter().all(|id| state.roles.has(*id));
        if self.plan.get().is_none_or(has_room) {
            return Ok(());
        }
        Err(Error::Consumer("there are too many probes for one predicate; attach anew".into()))
    }

    /// Gets ready for the probes of a further plan.
    pub(super) fn join(&self, probes: &ProbeSet, mut plan: Plan) -> Result<(), Error> {
        self.check(probes)?;
        let Some(state) = self.plan.get() else { return Ok(()) };
        if let Some((calls, _)) = &state.calls {
            calls.join(probes)?;
        }
        let waiting = state.left.get();
        let is_off = |id: &ProbeId| state.roles.get(*id).is_none_or(|role| matches!(role, HitRole::Never));
        let on = waiting.incomplete.iter().filter(|id| is_off(id) && plan.has(**id));
        let on: Vec<_> = on.copied().collect();
        state.add(&mut plan);
        if let Some(switch) = self.switch.get().filter(|_| !on.is_empty()) {
            let _ = switch.on(&on, Visibility::Synchronous);
        }
        Ok(())
    }

    /// Keeps what switches probes on with the rest of their function.
    pub(super) fn attached(&self, switch: &Switch) {
        let _ = self.switch.set(switch.clone());
    }

    /// Returns how a consumer of all other probes starts on this one.
    pub(super) fn start(&self, id: ProbeId, start: Start) -> Start {
        let role = self.plan.get().and_then(|state| state.roles.get(id));
        match role {
            None | Some(HitRole::Never) => Start::Off,
            Some(_) => start,
        }
    }

    /// Calls `pass` if the hit gets further, or `alone` if it has no call, and its decision is
    /// quick.
    #[inline(always)]
    pub(super) fn hit(
        &self,
        event: &Event<'_>,
        alone: impl FnOnce(&HitContext<'_>),
        pass: impl Fn(PassedHit, &HitContext<'_>) -> u64 + Copy,
    ) {
        let Some(state) = self.plan.get() else { return };
        let Some(role) = state.roles.get(event.probe()) else { return };
        let decision = match role {
            HitRole::Alone(None) => Some(true),
            HitRole::Alone(Some(program)) => program.quick(event.values()),
            _ => None,
        };
        match decision {
            Some(true) => alone(&HitContext { filter: state, event, ticks: None }),
            Some(false) => (),
            // A copy, so that the closure is in registers on the way above.
            None => state.evaluate(role, event, &{ pass }),
        }
    }

    /// Counts a hit that has no value.
    #[cold]
    pub(super) fn fault(&self, event: &Event<'_>, fault: Fault) {
        if let Some(state) = self.plan.get() {
            state.fault(event, fault);
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let Some(state) = self.plan.get() else { return Vec::new() };
        let mut notes = Vec::new();
        let count =
            |at: usize| state.memory.iter().map(|local| local.head().0[at].load(Relaxed)).sum::<u64>();
        for (at, fault) in FAULTS.iter().enumerate() {
            match count(at) {
                0 => (),
                hits => notes.push(format!("{} left out: {fault}", was(hits, "hit"))),
            }
        }
        match state.memory.lost() + state.calls.as_ref().map_or(0, |(calls, _)| calls.lost()) {
            0 => (),
            hits => notes.push(format!("{hits} hits were left out: no memory for them")),
        }
        let left = state.left.get();
        notes.extend(left.for_good.note(&left.so_far));
        notes
    }
}

impl fmt::Debug for FilterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterState").field("pairs", &self.calls.is_some()).finish_non_exhaustive()
    }
}

impl FilterState {
    fn add(&self, plan: &mut Plan) {
        self.roles.add(plan.take_roles());
        let mut left = Misfits::clone(&self.left.get());
        left.for_good.extend(mem::take(&mut plan.left_out));
        left.so_far = mem::take(&mut plan.left_out_so_far);
        left.incomplete = mem::take(&mut plan.incomplete);
        self.left.set(left);
    }

    /// Returns whether the probe was planned for, with all of its function.
    fn is_known(&self, id: ProbeId) -> bool {
        self.roles.get(id).is_some()
    }

    fn decides(&self, program: Option<&Program>, event: &Event<'_>, context: &HitContext<'_>) -> bool {
        let Some(program) = program else { return true };
        let values = event.values();
        let passes = program.quick(values).map_or_else(|| program.passes(values, context), Ok);
        passes.unwrap_or_else(|fault| {
            self.fault(event, fault);
            false
        })
    }

    #[cold]
    fn fault(&self, event: &Event<'_>, fault: Fault) {
        let at = FAULTS.iter().position(|it| *it == fault).unwrap_or_default();
        if let Some(local) = self.memory.of(event) {
            add_single_writer(&local.head().0[at], 1);
        }
    }

    #[inline(never)]
    fn evaluate(&self, role: &HitRole, event: &Event<'_>, pass: &impl Fn(PassedHit, &HitContext<'_>) -> u64) {
        let context = HitContext { filter: self, event, ticks: None };
        match role {
            HitRole::Never => (),
            HitRole::Alone(program) => {
                if self.decides(program.as_ref(), event, &context) {
                    pass(PassedHit::Other(0), &context);
                }
            }
            HitRole::All => _ = pass(PassedHit::Other(0), &context),
            HitRole::Begin { program, passes_on } => {
                let mut note = SEEN;
                if self.decides(program.as_ref(), event, &context) {
                    let own = if *passes_on { pass(PassedHit::Begin, &context) } else { 0 };
                    note |= PASSED | own << SHIFT;
                }
                let _ = self.pass_to_call(event, note);
            }
            HitRole::Follow { passes_on } => {
                let (note, _) = self.pass_to_call(event, SEEN);
                if *passes_on && note & PASSED != 0 {
                    pass(PassedHit::Other(note >> SHIFT), &context);
                }
            }
            HitRole::End { program, needs_entry } => {
                let (note, ticks) = self.pass_to_call(event, 0);
                let is_seen = note & SEEN != 0;
                let context = HitContext { ticks: is_seen.then_some(ticks), ..context };
                if *needs_entry && note & PASSED == 0 {
                    if !is_seen {
                        self.fault(event, Fault::Unpaired);
                    }
                    return;
                }
                if self.decides(program.as_ref(), event, &context) {
                    pass(PassedHit::Other(note >> SHIFT), &context);
                }
            }
        }
    }

    /// Tells a call about its hit. Returns the note of its entry, 0 if that was missed, and the
    /// time since then.
    fn pass_to_call(&self, event: &Event<'_>, note: u64) -> (u64, u64) {
        let Some((calls, notes)) = &self.calls else { return (0, 0) };
        let Some(exchange) = calls.head(event) else { return (0, 0) };
        exchange.given.store(note, Relaxed);
        exchange.note.store(0, Relaxed);
        exchange.ticks.store(0, Relaxed);
        calls.hit(event, notes);
        (exchange.note.load(Relaxed), exchange.ticks.load(Relaxed))
    }
}
