//! What a hit does to the calls of its thread.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use super::functions::{Act, Function, LeftOut, Selected, Step};
use super::futures::Which;
use super::meter::{Meter, Unpaired, Whole, difference};
use super::thread::{Head, Memory, Thread};
use crate::control::ProbeSet;
use crate::dispatch::Event;
use crate::error::Error;
use crate::per_thread::{Local, PerThread};
#[cfg(any(feature = "latency", feature = "call-tree", feature = "perf"))]
use crate::period::{Period, Since};

/// The calls of a selection's functions, paired: see the [module's](crate::calls) text. Made in
/// [`Consumer::prepare`](crate::Consumer::prepare); each hit of the consumer is handed to
/// [`hit`](Self::hit). [`OnceCalls`](super::OnceCalls) does both for a consumer that holds it.
///
/// ```
/// use std::sync::OnceLock;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::calls::{Calls, Ended, Meter, add};
/// use probe_runtime::{Clock, Consumer, Error, Event, Local, ProbeSet, probe, select};
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
///     fn glance(&self) -> Option<[u64; 1]> {
///         self.clock.counter().map(|now| [now])
///     }
///
///     fn end(&self, ended: &Ended<'_, 1, AtomicU64, AtomicU64>) {
///         if let Some(whole) = ended.whole {
///             // Only this thread writes.
///             ended.part.store(ended.part.load(Relaxed).max(whole.total[0]), Relaxed);
///             add(ended.head, 1);
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
    selected: Selected,
    memory: Memory<N, M>,
    #[cfg(any(feature = "latency", feature = "call-tree", feature = "perf"))]
    since: Since,
}

impl<const N: usize, M: Meter<N>> Calls<N, M> {
    /// Gets ready for the hits of these probes.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if too much is counted already.
    pub fn new(probes: &ProbeSet) -> Result<Self, Error> {
        let selected = Selected::of(probes);
        let memory = PerThread::new(selected.functions.len())?;
        Ok(Self {
            selected,
            memory,
            #[cfg(any(feature = "latency", feature = "call-tree", feature = "perf"))]
            since: Since::now(),
        })
    }

    /// From when it was made until now.
    #[cfg(any(feature = "latency", feature = "call-tree", feature = "perf"))]
    pub(crate) fn period(&self) -> Period {
        self.since.period()
    }

    /// The functions whose calls are paired, by path.
    pub fn functions(&self) -> &[Function] {
        &self.selected.functions
    }

    /// The functions whose calls are not, because not all of their probes were selected.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.selected.left_out
    }

    /// What the meter keeps for each thread, with the thread.
    pub fn heads(&self) -> impl Iterator<Item = Local<'_, M::Head, ()>> {
        self.memory.iter().map(|local| local.map(|head| &head.own))
    }

    /// What the meter keeps for a function, of each thread.
    pub fn parts(&self, function: usize) -> impl Iterator<Item = &M::Part> {
        self.memory.iter().filter_map(move |local| Some(&local.parts().get(function)?.own))
    }

    /// Which hits of a function found no partner.
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
        unpaired.pending = if self.selected.functions.get(function).is_some_and(Function::is_future) {
            entered.saturating_sub(finished)
        } else {
            0
        };
        unpaired
    }

    /// How many calls were not measured, because their thread had too many under way (8192), too
    /// many pending futures (4096, more or less), or no memory: the last counts hits.
    pub fn lost(&self) -> u64 {
        let heads = self.memory.iter().map(|local| local.head());
        let of =
            |head: &Head<N, M::Head>| head.frames.too_deep.load(Relaxed) + head.futures.lost.load(Relaxed);
        heads.map(of).sum::<u64>() + self.memory.lost()
    }

    /// What a hit means for the calls of its thread.
    #[inline(always)]
    pub fn hit(&self, event: &Event<'_>, meter: &M) {
        let Some(&Act { function, step }) = self.selected.acts.get(event.probe().index()) else { return };
        // Most hits take a way without a call, and so without registers to be kept over one; for
        // the others all is done anew.
        if step == Step::Begin {
            if self.begin_plain(event, meter, function).is_none() {
                self.begin(event, meter, function);
            }
        } else if step == Step::End {
            let now = meter.glance();
            if self.end_plain(event, meter, function, now).is_none() {
                self.end(event, meter, function, now);
            }
        } else if step != Step::Nothing {
            self.hit_of_future(event, meter, function, step);
        }
    }

    /// A call begins: in Rust, on a known thread, in the generation of its stack.
    #[inline(always)]
    fn begin_plain(&self, event: &Event<'_>, meter: &M, function: u32) -> Option<()> {
        let thread = self.plain(event)?;
        let head = thread.local.head();
        if !M::NOTES {
            head.frames.push_plain(function, || meter.glance())?;
            return Some(());
        }
        let (frame, outer) = head.frames.push_plain(function, || Some([0; N]))?;
        thread.note(meter, function, frame, outer);
        // As late as can be: looking for the note is not the call's.
        frame.start(meter.read(thread.own()));
        Some(())
    }

    /// A call ends that began so.
    #[inline(always)]
    fn end_plain(&self, event: &Event<'_>, meter: &M, function: u32, now: Option<[u64; N]>) -> Option<()> {
        let now = now?;
        let thread = self.plain(event)?;
        let call = thread.local.head().frames.pop_plain(function)?;
        thread.ended(meter, function, call, now, false, |elapsed| {
            Some(Whole { total: elapsed, busy: elapsed })
        });
        Some(())
    }

    #[inline(always)]
    fn plain(&self, event: &Event<'_>) -> Option<Thread<'_, N, M>> {
        let local = self.memory.known(event)?;
        let frames = &local.head().frames;
        let is_plain = frames.plain.load(Relaxed) == event.generation()
            && frames.thread.load(Relaxed) == local.thread()
            && !event.may_skip_exit();
        is_plain.then_some(Thread { memory: &self.memory, local })
    }

    #[inline(never)]
    fn begin(&self, event: &Event<'_>, meter: &M, function: u32) {
        if let Some(thread) = self.thread(event, function, true) {
            thread.begin(event, meter, function, frame(event));
        }
    }

    #[inline(never)]
    fn end(&self, event: &Event<'_>, meter: &M, function: u32, now: Option<[u64; N]>) {
        let Some(thread) = self.thread(event, function, false) else { return };
        let now = now.unwrap_or_else(|| meter.read(thread.own()));
        let mark = frame(event);
        if let Some(call) = thread.take(function, mark, mark != 0) {
            thread.ended(meter, function, call, now, false, |elapsed| {
                Some(Whole { total: elapsed, busy: elapsed })
            });
        }
    }

    #[inline(never)]
    fn hit_of_future(&self, event: &Event<'_>, meter: &M, function: u32, step: Step) {
        let now = meter.glance();
        let begins = matches!(step, Step::Enter | Step::Resume);
        let Some(thread) = self.thread(event, function, begins) else { return };
        let now = now.unwrap_or_else(|| meter.read(thread.own()));
        let Some(future) = event.future() else { return };
        let which = Which { future, function, generation: event.generation() };
        let mark = future;
        match step {
            Step::Enter => {
                let dropped = |function| thread.without_exit(function);
                thread.head().futures.enter(which, now, dropped);
                thread.count(function, |part| &part.entered);
                thread.begin(event, meter, function, mark);
            }
            Step::Resume => thread.begin(event, meter, function, mark),
            Step::Suspend => {
                let Some(poll) = thread.take(function, mark, false) else { return };
                thread.ended(meter, function, poll, now, true, |elapsed| {
                    if let Some(pending) = thread.pending(which) {
                        pending.add(elapsed);
                    }
                    None
                });
            }
            Step::Finish => {
                let Some(poll) = thread.take(function, mark, false) else {
                    if let Some(pending) = thread.pending(which) {
                        pending.free();
                    }
                    return;
                };
                thread.ended(meter, function, poll, now, true, |elapsed| {
                    let Some(pending) = thread.pending(which) else {
                        thread.count(function, |part| &part.without_entry);
                        return None;
                    };
                    pending.add(elapsed);
                    let (total, busy) = (difference(now, pending.start()), pending.busy());
                    pending.free();
                    thread.count(function, |part| &part.finished);
                    Some(Whole { total, busy })
                });
            }
            Step::Cancel => match thread.pending(which) {
                Some(pending) => {
                    pending.free();
                    thread.count(function, |part| &part.cancelled);
                }
                None => thread.count(function, |part| &part.without_entry),
            },
            Step::Nothing | Step::Begin | Step::End => (),
        }
    }

    /// The thread of this hit, with its stack up to date: calls that the hit finds over are taken
    /// off. `None` where it has no partner.
    fn thread(&self, event: &Event<'_>, function: u32, begins: bool) -> Option<Thread<'_, N, M>> {
        let local = self.memory.of(event)?;
        let thread: Thread<'_, N, M> = Thread { memory: &self.memory, local };
        let frames = &local.head().frames;
        let dropped = |function| thread.without_exit(function);
        let is_known = frames.generation.load(Relaxed) == event.generation()
            && frames.thread.load(Relaxed) == local.thread();
        if !is_known {
            // Another thread has the memory, or the sites were switched: what is under way can't be
            // paired any more.
            frames.clear(dropped);
            let is_settled = !event.generation().is_multiple_of(2);
            frames.begin(if is_settled { event.generation() } else { 0 }, local.thread());
            if !is_settled {
                thread.count(function, |part| if begins { &part.without_exit } else { &part.without_entry });
                return None;
            }
        }
        if let (true, Some(stack_pointer)) = (frames.is_watched(), event.stack_pointer()) {
            frames.drop_dead(stack_pointer, begins && event.has_frame(), dropped);
        }
        // A call that there was no room for ends.
        (begins || !frames.pop_over()).then_some(thread)
    }
}

/// The stack pointer, where it tells calls apart; else 0.
fn frame(event: &Event<'_>) -> usize {
    if event.has_frame() { event.stack_pointer().unwrap_or_default() } else { 0 }
}

impl<const N: usize, M: Meter<N>> fmt::Debug for Calls<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("functions", &self.functions().len()).finish_non_exhaustive()
    }
}
