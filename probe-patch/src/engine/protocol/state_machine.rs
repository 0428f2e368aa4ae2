//! The state machine of the trap protocol, for one instruction that is, or was, being replaced.
//!
//! ```text
//!            start                    lock written                rest written               first byte written
//!  Idle ──────────────▶ Locking ──────────────────▶ FirstWait ────────────────▶ SecondWait ─────────────────▶ Idle
//!   ▲                      │ found something else
//!   └──────────────────────┘
//! ```
//! One thread moves an entry from `Idle` to `FirstWait`. From there on **any thread** may take the
//! next step: the one that started the patch, another that finishes it, or one that ran into the
//! breakpoint and steps instead of waiting. So no thread waits long for one that was preempted, was
//! interrupted by a signal, or has forgotten its patch. (In `Locking`, between two neighbouring
//! writes, other threads can only wait. The owner itself need not, in a signal handler.)
//!
//! A thread that takes steps, or starts a patch, has *joined*, and the state counts it. A step has
//! the same effect on every thread. Taking it twice changes nothing, as long as no other patch of
//! the instruction has begun. So a patch begins only when no thread is joined to the last one. Each
//! patch has a generation, by which its owner tells it from a later one.
//!
//! All of it is async-signal-safe, and from `FirstWait` on lock-free.

use super::plan::Plan;
use sync::{AtomicU64, AtomicUsize, Ordering};

/// Atomics, threads and locks: the standard library's, or the model checker's.
pub(crate) mod sync {
    #[cfg(not(all(test, loom)))]
    pub(in crate::engine::protocol) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    #[cfg(all(test, loom))]
    pub(in crate::engine::protocol) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    #[cfg(all(test, not(loom)))]
    pub(in crate::engine::protocol) use std::{
        sync::{Arc, Mutex},
        thread,
    };

    #[cfg(all(test, loom))]
    pub(in crate::engine::protocol) use loom::{
        sync::{Arc, Mutex},
        thread,
    };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nothing is under way.
    Idle,
    /// One thread is about to write the breakpoint.
    Locking,
    /// The breakpoint is written. Not every thread may see it yet.
    FirstWait,
    /// The other bytes are written. Not every thread may see them yet.
    SecondWait,
}

/// Tells one patch of an entry from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(pub(crate) u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// A wait has not passed yet, or a thread has not left yet.
    Waiting,
    /// A step was taken.
    Stepped,
    /// The patch is over. `is_whole` is false if foreign code wrote over the breakpoint.
    Over { is_whole: bool },
}

/// The word of the state: phase, whether it failed, how many threads have joined, generation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    pub(crate) const FAILED: u64 = 1 << 2;
    pub(crate) const JOINED: u64 = 1 << 8;
    pub(crate) const ALL_JOINED: u64 = 0xffff << 8;
    pub(crate) const GENERATION: u64 = 1 << 24;

    pub(crate) fn phase(self) -> Phase {
        match self.0 & 3 {
            0 => Phase::Idle,
            1 => Phase::Locking,
            2 => Phase::FirstWait,
            _ => Phase::SecondWait,
        }
    }

    pub(crate) fn with_phase(self, phase: Phase) -> Self {
        Self(self.0 & !3 | phase as u64)
    }

    pub(crate) fn is_joined(self) -> bool {
        self.0 & Self::ALL_JOINED != 0
    }

    pub(crate) fn ticket(self) -> Ticket {
        Ticket(self.0 / Self::GENERATION)
    }

    /// Returns the state of the next patch, claimed.
    pub(crate) fn next(self) -> Self {
        Self((self.0 & !Self::FAILED).wrapping_add(Self::GENERATION)).with_phase(Phase::Locking)
    }

    pub(crate) fn progress(self, ticket: Ticket) -> Progress {
        if self.ticket() != ticket {
            // A later patch has begun. Owners ask before that, or do not need the answer.
            Progress::Over { is_whole: true }
        } else if self.phase() == Phase::Idle && !self.is_joined() {
            Progress::Over { is_whole: self.0 & Self::FAILED == 0 }
        } else {
            Progress::Waiting
        }
    }
}

/// The text and the waits that an entry works on. The caller keeps the text of the steps writable.
pub(crate) trait Backend {
    /// Puts the breakpoint at the first byte, if the instruction is as expected.
    fn lock(&self, method: Method, plan: &Plan) -> Result<(), NotStarted>;
    /// Takes the breakpoint away again. Returns whether it is gone.
    fn unlock(&self, method: Method, plan: &Plan) -> bool;
    /// Takes the breakpoint away again, if it is still there. Returns whether it was.
    fn take_back(&self, method: Method, plan: &Plan) -> bool;
    /// Replaces all but the first byte, while that is the breakpoint. Returns whether it could
    /// write.
    fn write_rest(&self, method: Method, plan: &Plan) -> bool;
    /// Replaces the breakpoint by the first byte.
    fn write_first(&self, method: Method, plan: &Plan) -> LastStep;
    /// Returns a stamp for all writes so far.
    fn stamp(&self, method: Method) -> u64;
    /// Returns whether every thread has seen the writes before the stamp.
    fn has_passed(&self, method: Method, stamp: u64) -> bool;
}

/// The result of the last step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LastStep {
    /// The first byte was written.
    Written,
    /// The breakpoint is gone: foreign code has written over it.
    Gone,
    /// The system did not allow the write. A later try may succeed.
    Failed,
}

/// Why a patch did not start.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum NotStarted {
    /// Another patch is under way.
    Busy,
    /// The instruction is not the one to be replaced.
    Found,
    /// The system does not allow the write, with this error number.
    Unwritable(i32),
}

/// The way in which a patch is carried out. Threads that join need to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// Waits by barriers.
    Barrier,
    /// Waits for this number of ticks.
    Tmax(u64),
    /// Waits by barriers, and writes through the kernel: the address of its
    /// [`Alias`](crate::os::mem::Alias).
    Alias(usize),
}

impl Method {
    /// Returns the value as two numbers: kind and argument.
    fn encode(self) -> (u64, u64) {
        match self {
            Self::Barrier => (0, 0),
            Self::Tmax(ticks) => (1, ticks),
            Self::Alias(addr) => (2, addr as u64),
        }
    }

    fn decode(kind: u64, argument: u64) -> Self {
        match (kind, usize::try_from(argument)) {
            (1, _) => Self::Tmax(argument),
            (2, Ok(addr)) => Self::Alias(addr),
            _ => Self::Barrier,
        }
    }
}

/// One instruction, by its address. 64 bytes; zeroes are a free entry.
#[repr(C, align(64))]
pub(crate) struct WordEntry {
    pub(crate) addr: AtomicUsize,
    state: AtomicU64,
    old: AtomicU64,
    new: AtomicU64,
    argument: AtomicU64,
    owner: AtomicUsize,
    /// The patch that the four fields above belong to, and how to read them.
    shape: AtomicU64,
    stamp: AtomicU64,
}

/// The shape's word: length, kind of [`Method`], generation.
#[derive(Clone, Copy)]
struct Shape(u64);

impl Shape {
    fn new(ticket: Ticket, len: usize, kind: u64) -> Self {
        Self((ticket.0 * State::GENERATION) | (kind << 4) | len as u64)
    }

    fn belongs_to(self, ticket: Ticket) -> bool {
        self.0 / State::GENERATION == ticket.0
    }

    fn len(self) -> usize {
        (self.0 & 0xf) as usize
    }

    fn kind(self) -> u64 {
        self.0 >> 4 & 0xf
    }
}

impl WordEntry {
    /// Returns a free entry.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            addr: AtomicUsize::new(0),
            state: zero(),
            old: zero(),
            new: zero(),
            argument: zero(),
            owner: AtomicUsize::new(0),
            shape: zero(),
            stamp: zero(),
        }
    }

    fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase()
    }

    /// Returns a value that changes whenever a patch starts or takes a step.
    pub(crate) fn version(&self) -> u64 {
        self.state().0 & !State::ALL_JOINED
    }

    /// Returns the present patch, and how it is carried out; `None` if its fields are not written
    /// yet.
    fn plan(&self, ticket: Ticket) -> Option<(Method, Plan)> {
        let shape = Shape(self.shape.load(Ordering::Acquire));
        let bytes = |number: &AtomicU64| Plan::bytes(number.load(Ordering::Relaxed), shape.len());
        let plan = Plan::new(self.addr.load(Ordering::Relaxed), bytes(&self.old)?, bytes(&self.new)?)?;
        let method = Method::decode(shape.kind(), self.argument.load(Ordering::Relaxed));
        shape.belongs_to(ticket).then_some((method, plan))
    }

    /// Returns whether `thread` has started the patch.
    pub(crate) fn is_owned_by(&self, thread: usize, ticket: Ticket) -> bool {
        let shape = Shape(self.shape.load(Ordering::Acquire));
        shape.belongs_to(ticket) && self.owner.load(Ordering::Relaxed) == thread
    }

    /// Starts a patch. Afterwards the breakpoint is at the first byte, and any thread may take the
    /// remaining steps.
    pub(crate) fn start(
        &self,
        plan: &Plan,
        method: Method,
        owner: usize,
        backend: &impl Backend,
    ) -> Result<Ticket, NotStarted> {
        let idle = self.state();
        if idle.phase() != Phase::Idle || idle.is_joined() {
            return Err(NotStarted::Busy);
        }
        // The starter has joined. So no other patch begins before it has left, even if another
        // thread ends this one meanwhile.
        let claimed = State(idle.next().0 + State::JOINED);
        self.state
            .compare_exchange(idle.0, claimed.0, Ordering::AcqRel, Ordering::Relaxed)
            .map_err(|_| NotStarted::Busy)?;
        let ticket = claimed.ticket();
        let (kind, argument) = method.encode();
        self.old.store(plan.expected().number(), Ordering::Relaxed);
        self.new.store(plan.value().number(), Ordering::Relaxed);
        self.argument.store(argument, Ordering::Relaxed);
        self.owner.store(owner, Ordering::Relaxed);
        self.shape.store(Shape::new(ticket, plan.expected().len(), kind).0, Ordering::Release);
        let started = self.lock(ticket, method, plan, backend);
        self.leave(ticket);
        started.map(|()| ticket)
    }

    fn lock(
        &self,
        ticket: Ticket,
        method: Method,
        plan: &Plan,
        backend: &impl Backend,
    ) -> Result<(), NotStarted> {
        if let Err(problem) = backend.lock(method, plan) {
            // If this fails, a signal handler on this thread took a foreign breakpoint for this
            // patch's, and took the patch's next steps.
            let is_undone = self.turn(ticket, Phase::Locking, State(0));
            return if is_undone { Err(problem) } else { Ok(()) };
        }
        let is_first = self.note_lock(ticket, method, backend);
        // A signal handler on this thread has forked. In the child it ended the patches that it
        // found, among them this one, before its breakpoint was written.
        let is_late = !is_first && self.phase() == Phase::Idle && backend.take_back(method, plan);
        if is_late { Err(NotStarted::Busy) } else { Ok(()) }
    }

    /// Notes that the breakpoint is written. Returns whether this call was the first to note it: a
    /// signal handler on this thread may have run into the breakpoint before.
    fn note_lock(&self, ticket: Ticket, method: Method, backend: &impl Backend) -> bool {
        self.stamp.store(backend.stamp(method), Ordering::Release);
        self.turn(ticket, Phase::Locking, State(0).with_phase(Phase::FirstWait))
    }

    /// Notes that the breakpoint is written, on the thread of the patch's owner, which was
    /// interrupted between writing the breakpoint and noting that.
    pub(crate) fn note_lock_for_owner(&self, ticket: Ticket, backend: &impl Backend) {
        if let Some((method, _)) = self.plan(ticket) {
            self.note_lock(ticket, method, backend);
        }
    }

    /// Returns the ticket of the present patch.
    pub(crate) fn ticket(&self) -> Ticket {
        self.state().ticket()
    }

    pub(crate) fn progress(&self, ticket: Ticket) -> Progress {
        self.state().progress(ticket)
    }

    /// Takes the next step, if its wait has passed.
    pub(crate) fn step(&self, ticket: Ticket, backend: &impl Backend) -> Progress {
        if !self.join(ticket) {
            return self.progress(ticket);
        }
        let stepped = self.take_step(ticket, backend);
        match self.leave(ticket).progress(ticket) {
            Progress::Waiting if stepped => Progress::Stepped,
            progress => progress,
        }
    }

    /// Leaves a patch. In the child of a fork, no thread is joined any more, not even one that had
    /// joined in the parent.
    fn leave(&self, ticket: Ticket) -> State {
        let leave = |state: u64| {
            let now = State(state);
            (now.ticket() == ticket && now.is_joined()).then(|| state - State::JOINED)
        };
        match self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, leave) {
            Ok(before) => State(before - State::JOINED),
            Err(state) => State(state),
        }
    }

    fn join(&self, ticket: Ticket) -> bool {
        let join = |state| {
            let now = State(state);
            let has_steps = matches!(now.phase(), Phase::FirstWait | Phase::SecondWait);
            let has_room = state & State::ALL_JOINED != State::ALL_JOINED;
            (now.ticket() == ticket && has_steps && has_room).then(|| state + State::JOINED)
        };
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, join).is_ok()
    }

    fn take_step(&self, ticket: Ticket, backend: &impl Backend) -> bool {
        // The phase is read first: its stamp was stored before it.
        let phase = self.phase();
        let Some((method, plan)) = self.plan(ticket) else { return false };
        if phase == Phase::Idle || !backend.has_passed(method, self.stamp.load(Ordering::Acquire)) {
            return false;
        }
        if phase == Phase::FirstWait {
            if !backend.write_rest(method, &plan) {
                return false;
            }
            // A later stamp of a slower thread only makes the wait longer.
            self.stamp.store(backend.stamp(method), Ordering::Release);
            self.turn(ticket, phase, State(0).with_phase(Phase::SecondWait));
        } else {
            match backend.write_first(method, &plan) {
                LastStep::Written => self.turn(ticket, phase, State(0)),
                LastStep::Gone => self.turn(ticket, phase, State(State::FAILED)),
                LastStep::Failed => return false,
            };
        }
        true
    }

    /// Moves from one phase to another, unless another thread has. Returns whether it did.
    fn turn(&self, ticket: Ticket, from: Phase, to: State) -> bool {
        let turn = |state| {
            let now = State(state);
            (now.ticket() == ticket && now.phase() == from).then(|| now.with_phase(Phase::Idle).0 | to.0)
        };
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, turn).is_ok()
    }

    /// Ends patches under way in the child of a fork, where only this thread runs, and clears the
    /// count of joined threads. If an instruction can't be written now, threads that run into it
    /// end its patch.
    pub(crate) fn finish_in_child(&self, backend: &impl Backend) {
        let state = self.state();
        if state.phase() == Phase::Idle && !state.is_joined() {
            return;
        }
        let plan = self.plan(state.ticket());
        let end = match (state.phase(), plan) {
            (Phase::Idle, _) | (_, None) => State(state.0 & State::FAILED),
            (Phase::Locking, Some((method, plan))) if backend.unlock(method, &plan) => State(0),
            (Phase::Locking, Some(_)) => State(0).with_phase(Phase::FirstWait),
            (phase, Some((method, plan))) => {
                let is_ready = backend.write_rest(method, &plan);
                match is_ready.then(|| backend.write_first(method, &plan)) {
                    Some(LastStep::Written) => State(0),
                    Some(LastStep::Gone) => State(State::FAILED),
                    Some(LastStep::Failed) | None => State(0).with_phase(phase),
                }
            }
        };
        let alone = state.0 & !(State::ALL_JOINED | State::FAILED);
        self.state.store(State(alone).with_phase(Phase::Idle).0 | end.0, Ordering::Release);
    }
}
