//! Pairs hits to calls.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use super::functions::{AttachedFunctions, CallEffect, PackedAction};
use super::futures::FutureKey;
use super::meter::{CompletedCall, Meter, Unpaired, difference};
use super::thread::{CallMemory, Taken, Thread, ThreadData};
use super::{Function, LeftOut};
use crate::engine::control::ProbeSet;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::{Local, PerThread};
use crate::engine::registry::ProbeId;
use probe_core::pairing::{CallKind, Place};
use probe_report::source::{Period, Since};

/// The paired calls of a selection's functions; see the [module](crate::calls). Create it in
/// [`Consumer::prepare`](crate::Consumer::prepare), and pass each hit of the consumer to
/// [`hit`](Self::hit). [`LazyCalls`](super::LazyCalls) does both for the consumer that holds it.
///
/// ```
/// use std::sync::OnceLock;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::calls::{CallEnd, Calls, Meter, add_single_writer};
/// use probe_runtime::consumer::{Clock, Local};
/// use probe_runtime::{Consumer, Error, Event, ProbeSet, probe, select};
///
/// /// The longest call of each function, in ticks; and how many calls each thread has made.
/// #[derive(Default)]
/// struct Longest {
///     clock: Clock,
///     calls: OnceLock<Calls<1, Self>>,
/// }
///
/// impl Meter<1> for Longest {
///     type Head = AtomicU64;
///     type Part = AtomicU64;
///
///     fn read(&self, _: Local<'_, AtomicU64, ()>) -> [u64; 1] {
///         [self.clock.now()]
///     }
///
///     // Not needed, but faster.
///     fn read_inline(&self) -> Option<[u64; 1]> {
///         self.clock.counter().map(|now| [now])
///     }
///
///     fn end(&self, ended: &CallEnd<'_, 1, AtomicU64, AtomicU64>) {
///         if let Some(call) = ended.completed {
///             // Only this thread writes.
///             ended.part.store(ended.part.load(Relaxed).max(call.total[0]), Relaxed);
///             add_single_writer(ended.head, 1);
///         }
///     }
/// }
///
/// impl Consumer for Longest {
///     fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
///         let _ = self.calls.set(Calls::new(probes)?);
///         Ok(())
///     }
///
///     fn hit(&self, event: &Event<'_>) {
///         if let Some(calls) = self.calls.get() {
///             calls.hit(event, self);
///         }
///     }
/// }
///
/// #[probe]
/// fn longest() {}
///
/// let found = select("**::longest")?.attach(Longest::default())?;
/// longest();
/// let calls = found.calls.get().unwrap();
/// assert_eq!((calls.functions().len(), calls.left_out().len()), (1, 0));
/// assert!(calls.parts(0).map(|part| part.load(Relaxed)).max().unwrap() > 0);
/// assert_eq!(calls.heads().map(|local| local.head().load(Relaxed)).sum::<u64>(), 1);
/// assert_eq!((calls.unpaired(0).total(), calls.lost()), (0, 0));
/// # Ok::<(), Error>(())
/// ```
pub struct Calls<const N: usize, M: Meter<N>> {
    known: AttachedFunctions,
    memory: CallMemory<N, M>,
    since: Since,
}

impl<const N: usize, M: Meter<N>> Calls<N, M> {
    /// Prepares for the hits of these probes. If the set is [persistent](ProbeSet::persistent),
    /// there is room for functions that are [added](Self::join) later: addresses only, until they
    /// are called.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if there are no counters left.
    pub fn new(probes: &ProbeSet) -> Result<Self, Error> {
        let known = AttachedFunctions::new(probes);
        let memory = PerThread::new(known.room())?;
        Ok(Self { known, memory, since: Since::now() })
    }

    /// Adds the functions of probes that join a persistent attachment. Call this in
    /// [`Consumer::join`](crate::Consumer::join). A function is added with the last of its probes.
    ///
    /// # Errors
    /// [`Error::Consumer`] if there is no room for them. Nothing has changed then.
    pub fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.known.join(probes).map(drop)
    }

    /// Returns the period from its creation until now.
    pub(crate) fn period(&self) -> Period {
        self.since.period()
    }

    /// Returns the functions whose calls are paired, ordered by path; behind them those that were
    /// [added](Self::join).
    pub fn functions(&self) -> &[Function] {
        &self.known.functions
    }

    /// Returns the numbers of the functions that have any of these probes, in their order.
    pub(crate) fn functions_with(&self, probes: &[ProbeId]) -> Vec<usize> {
        self.known.functions_with(probes)
    }

    /// Returns the functions whose calls are not paired, because not all of their probes were
    /// selected, or have joined.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.known.left_out()
    }

    /// Returns the meter's data of the thread that makes this hit, which is of no call; and that of
    /// the function whose call is the innermost one under way there. There is no function without
    /// such a call, or if it is not known: while sites are switched, and in a call without a frame.
    #[inline(always)]
    pub(crate) fn innermost(&self, event: &Event<'_>) -> Option<(&M::Head, Option<&M::Part>)> {
        match self.steady(event).filter(|thread| !thread.head().frames.is_watched()) {
            Some(thread) => Some((&thread.head().own, thread.innermost())),
            None => self.innermost_of_known(event),
        }
    }

    /// The same, after popping the calls that are over.
    #[inline(never)]
    fn innermost_of_known(&self, event: &Event<'_>) -> Option<(&M::Head, Option<&M::Part>)> {
        // The hit of a point begins no call, but shows the same as the entry of one.
        let _ = self.thread(event, place(event, u32::MAX), true);
        let head = self.head(event)?;
        Some((head, self.steady(event).and_then(Thread::innermost)))
    }

    /// Returns the meter's data of the thread that makes this hit.
    #[inline(always)]
    pub(crate) fn head(&self, event: &Event<'_>) -> Option<&M::Head> {
        self.memory.of(event).map(|local| &local.head().own)
    }

    /// Iterates over the meter's data of all threads.
    pub fn heads(&self) -> impl Iterator<Item = Local<'_, M::Head, ()>> {
        self.memory.iter().map(|local| local.map(|head| &head.own))
    }

    /// Iterates over the meter's data of a function on all threads.
    pub fn parts(&self, function: usize) -> impl Iterator<Item = &M::Part> {
        self.memory.iter().filter_map(move |local| Some(&local.parts().get(function)?.own))
    }

    /// Counts the hits of a function that found no partner.
    pub fn unpaired(&self, function: usize) -> Unpaired {
        let parts = self.memory.iter().filter_map(|local| local.parts().get(function));
        let (mut unpaired, mut entered, mut finished) = (Unpaired::default(), 0, 0);
        for part in parts {
            unpaired.without_entry += part.without_entry.load(Relaxed);
            unpaired.without_exit += part.without_exit.load(Relaxed);
            unpaired.cancelled += part.cancelled.load(Relaxed);
            entered += part.entered.load(Relaxed);
            finished += part.finished.load(Relaxed) + part.cancelled.load(Relaxed);
        }
        unpaired.pending = if self.functions().get(function).is_some_and(Function::is_future) {
            entered.saturating_sub(finished)
        } else {
            0
        };
        unpaired
    }

    /// Counts the calls that were not measured, because their thread had too many calls under way
    /// (8192), too many pending futures (about 4096), or no memory. A thread without memory counts
    /// hits instead of calls.
    pub fn lost(&self) -> u64 {
        let heads = self.memory.iter().map(|local| local.head());
        let of = |head: &ThreadData<N, M::Head>| {
            head.frames.too_deep.load(Relaxed) + head.futures.lost.load(Relaxed)
        };
        heads.map(of).sum::<u64>() + self.memory.lost()
    }

    /// Begins or ends a call, as the event's probe says.
    #[inline(always)]
    pub fn hit(&self, event: &Event<'_>, meter: &M) {
        let action = self.known.action(event.probe());
        let function = action.function();
        // Most hits take a path without a call of another function, so that no registers are saved.
        // If that fails, the full path starts from the beginning.
        if action.is(CallEffect::Begin) {
            if self.begin_quickly(event, meter, function, |own| meter.read(own)).is_none() {
                self.begin(event, meter, function);
            }
        } else if action.is(CallEffect::End) {
            let now = meter.read_inline();
            if self.end_quickly(event, meter, function, now).is_none() {
                self.end(event, meter, function, now);
            }
        } else if !action.is(CallEffect::Nothing) {
            self.hit_of_future(event, meter, action);
        }
    }

    /// Does the same if that is the beginning or the end of a call on a path without surprises;
    /// else it changes nothing and returns `false`. The meter must read its numbers inline.
    #[inline(always)]
    pub(crate) fn hit_quickly(&self, event: &Event<'_>, meter: &M) -> bool {
        let action = self.known.action(event.probe());
        if action.is(CallEffect::Begin) {
            let read = |_| meter.read_inline().unwrap_or([0; N]);
            self.begin_quickly(event, meter, action.function(), read).is_some()
        } else if action.is(CallEffect::End) {
            self.end_quickly(event, meter, action.function(), meter.read_inline()).is_some()
        } else {
            action.is(CallEffect::Nothing)
        }
    }

    /// Begins a call on a thread that is known, in the current generation, if no other call is
    /// over.
    #[inline(always)]
    fn begin_quickly<'a>(
        &'a self,
        event: &Event<'_>,
        meter: &M,
        function: u32,
        read: impl FnOnce(Local<'a, M::Head, ()>) -> [u64; N],
    ) -> Option<()> {
        let thread = self.steady(event)?;
        let (frames, call) = (&thread.local.head().frames, place(event, function));
        if !M::NOTES && !M::READS_LOCALLY {
            frames.push_quickly(call, || meter.read_inline())?;
            thread.opened(function);
            return Some(());
        }
        let (frame, outer) = frames.push_quickly(call, || Some([0; N]))?;
        thread.opened(function);
        if M::NOTES {
            thread.note(meter, function, frame, outer);
        }
        // Read as late as possible, so that finding the note is not part of the call's time.
        frame.start(read(thread.own()));
        Some(())
    }

    /// Ends the innermost call, if it is the one that ends.
    #[inline(always)]
    fn end_quickly(&self, event: &Event<'_>, meter: &M, function: u32, now: Option<[u64; N]>) -> Option<()> {
        if now.is_none() && !M::READS_LOCALLY {
            return None;
        }
        let thread = self.steady(event)?;
        let (frame, outer) = thread.local.head().frames.pop_quickly(place(event, function))?;
        let now = if M::READS_LOCALLY { meter.read(thread.own()) } else { now? };
        thread.ended(meter, function, Taken { frame, outer, within: None }, now, false, |elapsed| {
            Some(CompletedCall { total: elapsed, busy: elapsed })
        });
        Some(())
    }

    /// Returns the thread of the hit, if all of its calls have frames, of this generation.
    #[inline(always)]
    fn steady(&self, event: &Event<'_>) -> Option<Thread<'_, N, M>> {
        let local = self.memory.known(event)?;
        let frames = &local.head().frames;
        let is_steady = frames.steady.load(Relaxed) == event.generation()
            && frames.thread.load(Relaxed) == local.thread();
        is_steady.then_some(Thread { memory: &self.memory, local })
    }

    #[inline(never)]
    fn begin(&self, event: &Event<'_>, meter: &M, function: u32) {
        let call = place(event, function);
        if let Some(thread) = self.thread(event, call, true) {
            let _ = thread.begin(meter, call);
        }
    }

    #[inline(never)]
    fn end(&self, event: &Event<'_>, meter: &M, function: u32, now: Option<[u64; N]>) {
        let exit = place(event, function);
        let Some(thread) = self.thread(event, exit, false) else { return };
        let now = now.unwrap_or_else(|| meter.read(thread.own()));
        if let Some(call) = thread.take(meter, exit) {
            thread.ended(meter, function, call, now, false, |elapsed| {
                Some(CompletedCall { total: elapsed, busy: elapsed })
            });
        }
    }

    #[inline(never)]
    fn hit_of_future(&self, event: &Event<'_>, meter: &M, action: PackedAction) {
        let (function, step) = (action.function(), action.effect());
        let now = meter.read_inline();
        let begins = matches!(step, CallEffect::Enter | CallEffect::Resume);
        let Some(future) = event.future() else { return };
        let poll = Place { kind: CallKind::Poll(future as u64), ..place(event, function) };
        let Some(thread) = self.thread(event, poll, begins) else { return };
        let now = now.unwrap_or_else(|| meter.read(thread.own()));
        let key = FutureKey { future, function, generation: event.generation() };
        match step {
            CallEffect::Enter => {
                let dropped = |function| thread.without_exit(function);
                thread.head().futures.enter(key, now, dropped);
                thread.count(function, |part| &part.entered);
                let frame = thread.begin(meter, poll);
                if let (true, Some(frame)) = (M::KEEPS_NOTES, frame)
                    && let Some(pending) = thread.head().futures.find(key)
                {
                    pending.note.store(frame.note.load(Relaxed), Relaxed);
                }
            }
            CallEffect::Resume => {
                let frame = thread.begin(meter, poll);
                if M::KEEPS_NOTES {
                    let note = thread.pending(key).map_or(0, |pending| pending.note.load(Relaxed));
                    if let Some(frame) = frame {
                        frame.note.store(note, Relaxed);
                    }
                    meter.resume(thread.own(), note);
                }
            }
            CallEffect::Suspend => {
                let Some(poll) = thread.take(meter, poll) else { return };
                thread.ended(meter, function, poll, now, true, |elapsed| {
                    if let Some(pending) = thread.pending(key) {
                        pending.add(elapsed);
                    }
                    None
                });
            }
            CallEffect::Finish => {
                let Some(poll) = thread.take(meter, poll) else {
                    if let Some(pending) = thread.pending(key) {
                        pending.free();
                    }
                    return;
                };
                thread.ended(meter, function, poll, now, true, |elapsed| {
                    let Some(pending) = thread.pending(key) else {
                        thread.count(function, |part| &part.without_entry);
                        return None;
                    };
                    pending.add(elapsed);
                    let (total, busy) = (difference(now, pending.start()), pending.busy());
                    pending.free();
                    thread.count(function, |part| &part.finished);
                    Some(CompletedCall { total, busy })
                });
            }
            CallEffect::Cancel => match thread.pending(key) {
                Some(pending) => {
                    if M::KEEPS_NOTES {
                        meter.resume(thread.own(), pending.note.load(Relaxed));
                    }
                    pending.free();
                    thread.count(function, |part| &part.cancelled);
                }
                None => thread.count(function, |part| &part.without_entry),
            },
            CallEffect::Nothing | CallEffect::Begin | CallEffect::End => (),
        }
    }

    /// Returns the thread of the hit, after popping the calls that are over. Returns `None` if the
    /// hit has no partner.
    fn thread(&self, event: &Event<'_>, hit: Place, begins: bool) -> Option<Thread<'_, N, M>> {
        let local = self.memory.of(event)?;
        let thread: Thread<'_, N, M> = Thread { memory: &self.memory, local };
        let frames = &local.head().frames;
        let dropped = |function| thread.without_exit(function);
        let is_known = frames.generation.load(Relaxed) == event.generation()
            && frames.thread.load(Relaxed) == local.thread();
        if !is_known {
            // The memory changed its thread, or the sites were switched, so the calls under way
            // can't be paired any more.
            frames.clear(dropped);
            let is_settled = !event.generation().is_multiple_of(2);
            frames.begin(if is_settled { event.generation() } else { 0 }, local.thread());
            if !is_settled {
                thread.count(
                    hit.function,
                    |part| if begins { &part.without_exit } else { &part.without_entry },
                );
                return None;
            }
        }
        frames.drop_over(hit, begins);
        if begins {
            frames.drop_left(hit, dropped);
        }
        // A call ends for which there was no frame.
        (begins || !frames.pop_over()).then_some(thread)
    }
}

/// Returns what pairing knows of a hit.
#[inline(always)]
pub(crate) fn place(event: &Event<'_>, function: u32) -> Place {
    let kind = match (event.has_frame(), event.may_skip_exit()) {
        (true, _) => CallKind::Framed,
        (false, true) => CallKind::Hooked,
        (false, false) => CallKind::Plain,
    };
    Place { function, kind, stack_pointer: stack_pointer(event) }
}

/// Returns the stack pointer; 0 if it is not known.
#[inline(always)]
fn stack_pointer(event: &Event<'_>) -> u64 {
    event.stack_pointer().map_or(0, |at| at as u64)
}

impl<const N: usize, M: Meter<N>> fmt::Debug for Calls<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("functions", &self.functions().len()).finish_non_exhaustive()
    }
}

/// The [`Calls`] of a consumer, created when it is attached. A [`Meter`] that holds this can be a
/// consumer.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::calls::{CallEnd, LazyCalls, Meter, add_single_writer};
/// use probe_runtime::consumer::Local;
/// use probe_runtime::{Consumer, Error, Event, ProbeSet, probe, select};
///
/// /// Counts calls that have ended.
/// struct EndedCalls(LazyCalls<0, Self>);
///
/// impl Meter<0> for EndedCalls {
///     type Head = ();
///     type Part = AtomicU64;
///
///     fn read(&self, _: Local<'_, (), ()>) -> [u64; 0] {
///         []
///     }
///
///     fn end(&self, ended: &CallEnd<'_, 0, (), AtomicU64>) {
///         add_single_writer(ended.part, 1);
///     }
/// }
///
/// impl Consumer for EndedCalls {
///     fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
///         self.0.prepare(probes)
///     }
///
///     fn hit(&self, event: &Event<'_>) {
///         self.0.hit(event, self);
///     }
/// }
///
/// #[probe]
/// fn finish() {}
///
/// let ended = select("**::finish")?.attach(EndedCalls(LazyCalls::new()))?;
/// finish();
/// let calls = ended.0.get().unwrap();
/// assert_eq!(calls.parts(0).map(|part| part.load(Relaxed)).sum::<u64>(), 1);
/// # Ok::<(), Error>(())
/// ```
pub struct LazyCalls<const N: usize, M: Meter<N>>(OnceLock<Calls<N, M>>);

impl<const N: usize, M: Meter<N>> LazyCalls<N, M> {
    /// Creates it without calls.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Creates the calls of these probes. Call this in
    /// [`Consumer::prepare`](crate::Consumer::prepare), which runs once.
    ///
    /// # Errors
    /// See [`Calls::new`].
    pub fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let _ = self.0.set(Calls::new(probes)?);
        Ok(())
    }

    /// Adds the functions of probes that have joined. Call this in
    /// [`Consumer::join`](crate::Consumer::join).
    ///
    /// # Errors
    /// See [`Calls::join`].
    pub fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.0.get().map_or(Ok(()), |calls| calls.join(probes))
    }

    /// Returns the calls; `None` before they were [prepared](Self::prepare).
    pub fn get(&self) -> Option<&Calls<N, M>> {
        self.0.get()
    }

    /// Passes a hit to [`Calls::hit`]. Call this in [`Consumer::hit`](crate::Consumer::hit).
    #[inline(always)]
    pub fn hit(&self, event: &Event<'_>, meter: &M) {
        if let Some(calls) = self.0.get() {
            calls.hit(event, meter);
        }
    }

    /// Passes a hit to [`Calls::hit_quickly`].
    #[inline(always)]
    pub(crate) fn hit_quickly(&self, event: &Event<'_>, meter: &M) -> bool {
        self.0.get().is_some_and(|calls| calls.hit_quickly(event, meter))
    }
}

impl<const N: usize, M: Meter<N>> Default for LazyCalls<N, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize, M: Meter<N>> fmt::Debug for LazyCalls<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
