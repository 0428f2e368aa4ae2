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

mod around;
mod left_out;
mod plan;

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use around::Around;
pub(super) use around::Moment;
pub(super) use plan::{Asked, Place, Plan, Role};

use crate::calls::{CallEnd, Calls, Meter, add_single_writer};
use crate::clock::{Clock, Scale};
use crate::control::{ProbeSet, Start};
use crate::dispatch::Event;
use crate::error::Error;
use crate::expression::{FAULTS, Fault, Program};
use crate::per_thread::{Local, PerThread, Zeroed};
use crate::registry::ProbeId;

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
pub(super) struct Told {
    /// For the call that begins.
    given: AtomicU64,
    /// Of the call that ends, or goes on.
    note: AtomicU64,
    ticks: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Told {}

impl Meter<1> for Notes {
    type Head = Told;
    type Part = ();
    const NOTES: bool = true;
    const KEEPS_NOTES: bool = true;

    #[inline(always)]
    fn read(&self, _: Local<'_, Told, ()>) -> [u64; 1] {
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
    fn begin(&self, local: Local<'_, Told, ()>, _function: usize, _outer: u64) -> u64 {
        let told = local.head();
        let given = told.given.load(Relaxed);
        told.note.store(given, Relaxed);
        given
    }

    fn resume(&self, local: Local<'_, Told, ()>, note: u64) {
        local.head().note.store(note, Relaxed);
    }

    #[inline(always)]
    fn end(&self, ended: &CallEnd<'_, 1, Told, ()>) {
        ended.head.note.store(ended.note, Relaxed);
        if let Some(call) = ended.completed {
            ended.head.ticks.store(call.total[0], Relaxed);
        }
    }
}

/// A plan, and the memory that it needs.
#[derive(Debug)]
pub(super) struct Judge {
    plan: OnceLock<Planned>,
}

struct Planned {
    plan: Plan,
    calls: Option<(Calls<1, Notes>, Notes)>,
    /// Faults, and a count for each `1 in N`.
    memory: PerThread<Faults, AtomicU64>,
    /// The hits that each `first N` has seen, up to N.
    firsts: Box<[AtomicU64]>,
    clock: Clock,
    scale: Scale,
    began: u64,
}

/// A hit that goes further.
pub(super) enum Passed {
    /// It begins a call, whose later hits get the number that is returned.
    Begin,
    /// It ends a call, goes on with one, or has none. The number is that of its entry.
    Other(u64),
}

impl Judge {
    pub(super) const fn new() -> Self {
        Self { plan: OnceLock::new() }
    }

    pub(super) fn prepare(&self, probes: &ProbeSet, plan: Plan) -> Result<(), Error> {
        let clock = Clock::new();
        let pairs = plan.is_paired.then(|| -> Result<_, Error> {
            let notes = || Notes { clock: plan.needs_latency.then_some(clock) };
            Ok((Calls::new(probes)?, notes()))
        });
        let planned = Planned {
            calls: pairs.transpose()?,
            memory: PerThread::new(plan.samples)?,
            firsts: (0..plan.samples).map(|_| AtomicU64::new(0)).collect(),
            // Knowing it takes milliseconds at a program's beginning.
            scale: if plan.needs_clock() { clock.scale() } else { Scale::UNUSED },
            began: clock.now(),
            clock,
            plan,
        };
        let _ = self.plan.set(planned);
        Ok(())
    }

    pub(super) fn plan(&self) -> Option<&Plan> {
        self.plan.get().map(|planned| &planned.plan)
    }

    /// Returns how a consumer of all other probes starts on this one.
    pub(super) fn start(&self, id: ProbeId, start: Start) -> Start {
        match self.plan().and_then(|plan| plan.roles.get(id.index())) {
            Some(Role::Never) => Start::Off,
            _ => start,
        }
    }

    /// Calls `pass` if the hit gets further.
    #[inline(always)]
    pub(super) fn hit(&self, event: &Event<'_>, pass: impl Fn(Passed, &Moment<'_>) -> u64) {
        let Some(planned) = self.plan.get() else { return };
        let Some(role) = planned.plan.roles.get(event.probe().index()) else { return };
        if let Role::Alone(program) = role {
            let around = Around { planned, event, ticks: None };
            if planned.decides(program.as_deref(), event, &around) {
                pass(Passed::Other(0), &around.moment());
            }
            return;
        }
        planned.hit_of_call(role, event, &pass);
    }

    /// Counts a hit that has no value.
    #[cold]
    pub(super) fn fault(&self, event: &Event<'_>, fault: Fault) {
        if let Some(planned) = self.plan.get() {
            planned.fault(event, fault);
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let Some(planned) = self.plan.get() else { return Vec::new() };
        let mut notes = Vec::new();
        let count =
            |at: usize| planned.memory.iter().map(|local| local.head().0[at].load(Relaxed)).sum::<u64>();
        for (at, fault) in FAULTS.iter().enumerate() {
            match count(at) {
                0 => (),
                1 => notes.push(format!("1 hit was left out: {fault}")),
                hits => notes.push(format!("{hits} hits were left out: {fault}")),
            }
        }
        match planned.memory.lost() + planned.calls.as_ref().map_or(0, |(calls, _)| calls.lost()) {
            0 => (),
            hits => notes.push(format!("{hits} hits were left out: no memory for them")),
        }
        notes.extend(planned.plan.left_out.notes());
        notes
    }
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned").field("is_paired", &self.plan.is_paired).finish_non_exhaustive()
    }
}

impl Planned {
    #[inline(always)]
    fn decides(&self, program: Option<&Program>, event: &Event<'_>, around: &Around<'_>) -> bool {
        let Some(program) = program else { return true };
        match program.passes(event.values(), around) {
            Ok(passes) => passes,
            Err(fault) => {
                self.fault(event, fault);
                false
            }
        }
    }

    #[cold]
    fn fault(&self, event: &Event<'_>, fault: Fault) {
        let at = FAULTS.iter().position(|it| *it == fault).unwrap_or_default();
        if let Some(local) = self.memory.of(event) {
            add_single_writer(&local.head().0[at], 1);
        }
    }

    fn hit_of_call(&self, role: &Role, event: &Event<'_>, pass: &impl Fn(Passed, &Moment<'_>) -> u64) {
        match role {
            Role::Alone(_) | Role::Never => (),
            Role::All => _ = pass(Passed::Other(0), &Around { planned: self, event, ticks: None }.moment()),
            Role::Begin { program, passes_on } => {
                let around = Around { planned: self, event, ticks: None };
                let mut note = SEEN;
                if self.decides(program.as_deref(), event, &around) {
                    let own = if *passes_on { pass(Passed::Begin, &around.moment()) } else { 0 };
                    note |= PASSED | own << SHIFT;
                }
                let _ = self.tell(event, note);
            }
            Role::Follow { passes_on } => {
                let (note, _) = self.tell(event, SEEN);
                if *passes_on && note & PASSED != 0 {
                    let around = Around { planned: self, event, ticks: None };
                    pass(Passed::Other(note >> SHIFT), &around.moment());
                }
            }
            Role::End { program, needs_entry } => {
                let (note, ticks) = self.tell(event, 0);
                let is_seen = note & SEEN != 0;
                let around = Around { planned: self, event, ticks: is_seen.then_some(ticks) };
                if *needs_entry && note & PASSED == 0 {
                    if !is_seen {
                        self.fault(event, Fault::Unpaired);
                    }
                    return;
                }
                if self.decides(program.as_deref(), event, &around) {
                    pass(Passed::Other(note >> SHIFT), &around.moment());
                }
            }
        }
    }

    /// Tells a call about its hit. Returns the note of its entry, 0 if that was missed, and the
    /// time since then.
    fn tell(&self, event: &Event<'_>, note: u64) -> (u64, u64) {
        let Some((calls, notes)) = &self.calls else { return (0, 0) };
        let Some(told) = calls.head(event) else { return (0, 0) };
        told.given.store(note, Relaxed);
        told.note.store(0, Relaxed);
        told.ticks.store(0, Relaxed);
        calls.hit(event, notes);
        (told.note.load(Relaxed), told.ticks.load(Relaxed))
    }
}
