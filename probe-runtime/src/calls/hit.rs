//! What a hit does to the calls of its thread.

// Safety: relies on what is kept being made of what is a value where it is zero.
#![expect(unsafe_code, reason = "see above")]

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::frames::{Frame, Frames, Mark, add};
use super::functions::{Act, Function, LeftOut, Selected, Step};
use super::futures::{Futures, Pending, Which};
use crate::control::ProbeSet;
use crate::dispatch::Event;
use crate::error::Error;
use crate::per_thread::{Local, PerThread, Zeroed};

/// What is measured of calls: `N` numbers that only grow, read where a call begins and where it ends.
///
/// Its methods are called on hits: no heap, no lock, no panic.
pub trait Meter<const N: usize> {
    /// What it keeps for each thread.
    type Head: Zeroed;
    /// What it keeps for each function, on each thread.
    type Part: Zeroed;

    /// Whether [`begin`](Self::begin) is called. Where it is not, all notes are 0.
    const NOTES: bool = false;

    /// The numbers as they are now, on this thread.
    fn read(&self) -> [u64; N];

    /// A call, or a poll, begins. Returns a note that the call's [end](Ended::note) gets, and the calls inside as `outer`. The outermost
    /// calls of a thread get 0. Called if [`NOTES`](Self::NOTES) says so.
    fn begin(&self, local: Local<'_, Self::Head, ()>, function: usize, outer: u64) -> u64 {
        let _ = (local, function, outer);
        0
    }

    /// A call, or a poll, has ended.
    fn end(&self, ended: &Ended<'_, N, Self::Head, Self::Part>);
}

/// A call, or a poll of a future, that has ended, on the thread that made it.
#[derive(Debug)]
pub struct Ended<'a, const N: usize, H, P> {
    /// Which of [`Calls::functions`].
    pub function: usize,
    /// What the meter keeps for this thread.
    pub head: &'a H,
    /// What it keeps for this function on this thread.
    pub part: &'a P,
    /// How much the numbers have grown from its begin to its end.
    pub elapsed: [u64; N],
    /// How much of that in calls inside, of functions that are measured, too.
    pub inner: [u64; N],
    /// What [`Meter::begin`] has returned.
    pub note: u64,
    /// Whether it is a poll of a future.
    pub is_poll: bool,
    /// The whole of it, if this was its end. `None` of a poll that ends without a result, and of a future whose entry was not seen.
    pub whole: Option<Whole<N>>,
}

impl<const N: usize, H, P> Ended<'_, N, H, P> {
    /// How much of it in no call inside.
    pub fn own(&self) -> [u64; N] {
        difference(self.elapsed, self.inner)
    }
}

/// A call from its entry to its exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole<const N: usize> {
    /// From entry to exit. Of a future, only a clock tells something in between its polls; they may be on several threads.
    pub total: [u64; N],
    /// In all its polls. Of other calls the same as `total`.
    pub busy: [u64; N],
}

/// Hits of a function that found no partner, and futures that were cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Unpaired {
    /// Exits, of calls that began before the sites were switched on.
    pub without_entry: u64,
    /// Entries, of calls whose exits can't come any more: the sites were switched, or the call was left by `longjmp` or an exception.
    pub without_exit: u64,
    /// Futures that were dropped before their end. They had an entry, and have no exit.
    pub cancelled: u64,
    /// Futures that have been entered, and have neither ended nor been cancelled so far.
    pub pending: u64,
}

impl Unpaired {
    /// Entries without exits and exits without entries.
    pub fn total(self) -> u64 {
        self.without_entry + self.without_exit
    }
}

/// What is kept for each thread.
#[repr(C)]
struct Head<const N: usize, H> {
    frames: Frames<N>,
    own: H,
    futures: Futures<N>,
}

// SAFETY: as its parts.
unsafe impl<const N: usize, H: Zeroed> Zeroed for Head<N, H> {}

/// What is kept for each function, on each thread.
#[repr(C)]
struct Part<P> {
    own: P,
    without_entry: AtomicU64,
    without_exit: AtomicU64,
    /// Of futures: entered, ended with their entry seen, dropped before.
    entered: AtomicU64,
    finished: AtomicU64,
    cancelled: AtomicU64,
}

// SAFETY: as its parts.
unsafe impl<P: Zeroed> Zeroed for Part<P> {}

/// The calls of a selection's functions, paired: see the [module's](self) text. Made in [`Consumer::prepare`](crate::Consumer::prepare);
/// each hit of the consumer is handed to [`hit`](Self::hit).
///
/// ```
/// use std::sync::OnceLock;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::calls::{Calls, Ended, Meter};
/// use probe_runtime::{Clock, Consumer, Error, Event, ProbeSet, probe, select};
///
/// /// The longest call of each function, in ticks.
/// struct Longest {
///     clock: Clock,
///     calls: OnceLock<Calls<1, Self>>,
/// }
///
/// impl Meter<1> for Longest {
///     type Head = ();
///     type Part = AtomicU64;
///
///     fn read(&self) -> [u64; 1] {
///         [self.clock.now()]
///     }
///
///     fn end(&self, ended: &Ended<'_, 1, (), AtomicU64>) {
///         if let Some(whole) = ended.whole {
///             // Only this thread writes.
///             ended.part.store(ended.part.load(Relaxed).max(whole.total[0]), Relaxed);
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
/// fn work() {}
///
/// let longest = select("**::work")?.attach(Longest { clock: Clock::new(), calls: OnceLock::new() })?;
/// work();
/// let calls = longest.calls.get().unwrap();
/// assert_eq!(calls.functions().len(), 1);
/// assert!(calls.parts(0).map(|part| part.load(Relaxed)).max().unwrap() > 0);
/// assert_eq!(calls.unpaired(0).total(), 0);
/// # Ok::<(), Error>(())
/// ```
pub struct Calls<const N: usize, M: Meter<N>> {
    selected: Selected,
    memory: PerThread<Head<N, M::Head>, Part<M::Part>>,
}

/// The frame of a call that has ended, and that of the call around it.
type Taken<'a, const N: usize> = (&'a Frame<N>, Option<&'a Frame<N>>);

/// The memory of the thread of a hit.
struct Thread<'a, const N: usize, M: Meter<N>> {
    calls: &'a Calls<N, M>,
    local: Local<'a, Head<N, M::Head>, Part<M::Part>>,
}

impl<const N: usize, M: Meter<N>> Calls<N, M> {
    /// Gets ready for the hits of these probes.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if too much is counted already.
    pub fn new(probes: &ProbeSet) -> Result<Self, Error> {
        let selected = Selected::new(&probes.probes());
        let memory = PerThread::new(selected.functions.len())?;
        Ok(Self { selected, memory })
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

    /// How many calls were not measured, because their thread had too many under way (8192), too many pending futures (4096,
    /// more or less), or no memory: the last counts hits.
    pub fn lost(&self) -> u64 {
        let heads = self.memory.iter().map(|local| local.head());
        let of = |head: &Head<N, M::Head>| head.frames.too_deep.load(Relaxed) + head.futures.lost.load(Relaxed);
        heads.map(of).sum::<u64>() + self.memory.lost()
    }

    /// What a hit means for the calls of its thread.
    #[inline(always)]
    pub fn hit(&self, event: &Event<'_>, meter: &M) {
        let Some(&Act { function, step }) = self.selected.acts.get(event.probe().index()) else { return };
        if step == Step::Begin {
            let Some(thread) = self.thread(event, function, true) else { return };
            thread.begin(event, meter, function, frame(event));
        } else if step == Step::End {
            let now = meter.read();
            let Some(thread) = self.thread(event, function, false) else { return };
            let mark = frame(event);
            if let Some(call) = thread.take(function, mark, mark != 0) {
                thread.ended(meter, function, call, now, false, |elapsed| Some(Whole { total: elapsed, busy: elapsed }));
            }
        } else if step != Step::Nothing {
            self.hit_of_future(event, meter, function, step);
        }
    }

    /// Whether a hit that is not one of the plain ones has a partner: calls that it finds over are taken off before.
    #[cold]
    #[inline(never)]
    fn look(&self, event: &Event<'_>, function: u32, begins: bool) -> bool {
        let Some(local) = self.memory.of(event) else { return false };
        let thread = Thread { calls: self, local };
        let frames = &local.head().frames;
        let dropped = |function| thread.without_exit(function);
        let is_known = frames.generation.load(Relaxed) == event.generation()
            && frames.thread.load(Relaxed) == local.thread();
        if !is_known {
            // Another thread has the memory, or the sites were switched: what is under way can't be paired any more.
            frames.clear(dropped);
            let is_settled = !event.generation().is_multiple_of(2);
            frames.begin(if is_settled { event.generation() } else { 0 }, local.thread());
            if !is_settled {
                thread.count(function, |part| if begins { &part.without_exit } else { &part.without_entry });
                return false;
            }
        }
        if let (true, Some(stack_pointer)) = (frames.is_watched(), event.stack_pointer()) {
            frames.drop_dead(stack_pointer, begins && event.has_frame(), dropped);
        }
        // A call that there was no room for ends.
        begins || !frames.pop_over()
    }

    #[inline(never)]
    fn hit_of_future(&self, event: &Event<'_>, meter: &M, function: u32, step: Step) {
        let now = meter.read();
        let begins = matches!(step, Step::Enter | Step::Resume);
        let Some(thread) = self.thread(event, function, begins) else { return };
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

    /// The thread of this hit, with its stack up to date; `None` where the hit has no partner.
    #[inline(always)]
    fn thread(&self, event: &Event<'_>, function: u32, begins: bool) -> Option<Thread<'_, N, M>> {
        let local = self.memory.of(event)?;
        let thread = Thread { calls: self, local };
        let frames = &local.head().frames;
        let is_plain =
            frames.plain.load(Relaxed) == event.generation() && frames.thread.load(Relaxed) == local.thread();
        if is_plain || self.look(event, function, begins) { Some(thread) } else { None }
    }
}

// By value, so that it lies in registers.
impl<const N: usize, M: Meter<N>> Clone for Thread<'_, N, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const N: usize, M: Meter<N>> Copy for Thread<'_, N, M> {}

impl<'a, const N: usize, M: Meter<N>> Thread<'a, N, M> {
    #[inline(always)]
    fn head(self) -> &'a Head<N, M::Head> {
        self.local.head()
    }

    /// Counts something of a function.
    fn count(self, function: u32, of: impl FnOnce(&Part<M::Part>) -> &AtomicU64) {
        if let Some(part) = self.local.parts().get(function as usize) {
            add(of(part), 1);
        }
    }

    fn without_exit(self, function: u32) {
        self.count(function, |part| &part.without_exit);
    }

    #[inline(always)]
    fn begin(self, event: &Event<'_>, meter: &M, function: u32, mark: Mark) {
        let frames = &self.head().frames;
        let Some((frame, outer)) = frames.push(function, mark) else { return };
        if event.may_skip_exit() {
            Self::watch(frames, event);
        }
        if M::NOTES {
            let outer = outer.map_or(0, |outer| outer.note.load(Relaxed));
            let note = meter.begin(self.local.map(|head| &head.own), function as usize, outer);
            frame.note.store(note, Relaxed);
        }
        // As late as can be: what is done here is not the call's.
        let now = meter.read();
        for at in 0..N {
            frame.start[at].store(now[at], Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn watch(frames: &Frames<N>, event: &Event<'_>) {
        if let Some(stack_pointer) = event.stack_pointer() {
            frames.watch(stack_pointer);
        }
    }

    /// The frame of the call or poll that ends, taken off its stack, and that of the call around it.
    #[inline(always)]
    fn take(self, function: u32, mark: Mark, is_framed: bool) -> Option<Taken<'a, N>> {
        let taken = self.head().frames.pop_if(function, mark);
        if taken.is_none() { self.take_inside(function, mark, is_framed) } else { taken }
    }

    /// The same where the innermost call is another one.
    #[cold]
    #[inline(never)]
    fn take_inside(self, function: u32, mark: Mark, is_framed: bool) -> Option<Taken<'a, N>> {
        let frames = &self.head().frames;
        frames.drop_inside(function, mark, is_framed, |function| self.without_exit(function));
        let taken = frames.pop_if(function, mark);
        if taken.is_none() {
            self.count(function, |part| &part.without_entry);
        }
        taken
    }

    #[inline(always)]
    fn ended(
        self,
        meter: &M,
        function: u32,
        (frame, outer): Taken<'_, N>,
        now: [u64; N],
        is_poll: bool,
        whole: impl FnOnce([u64; N]) -> Option<Whole<N>>,
    ) {
        let (mut elapsed, mut inner) = ([0; N], [0; N]);
        for at in 0..N {
            // Of clocks that are not quite the same on all processors, never less than nothing.
            elapsed[at] = now[at].saturating_sub(frame.start[at].load(Relaxed));
            inner[at] = frame.inner[at].load(Relaxed);
        }
        if let Some(outer) = outer {
            for at in 0..N {
                add(&outer.inner[at], elapsed[at]);
            }
        }
        let function = function as usize;
        let Some(part) = self.local.parts().get(function) else { return };
        let note = if M::NOTES { frame.note.load(Relaxed) } else { 0 };
        let whole = whole(elapsed);
        meter.end(&Ended { function, head: &self.head().own, part: &part.own, elapsed, inner, note, is_poll, whole });
    }

    /// Where a future is noted: on this thread most likely, else on another.
    fn pending(self, which: Which) -> Option<&'a Pending<N>> {
        let own = self.head().futures.find(which);
        own.or_else(|| self.calls.memory.iter().find_map(|local| local.head().futures.find(which)))
    }
}

/// The stack pointer, where it tells calls apart; else 0.
#[inline(always)]
fn frame(event: &Event<'_>) -> usize {
    // In Rust, what is asked first says it all.
    if event.may_skip_exit() && event.has_frame() { event.stack_pointer().unwrap_or_default() } else { 0 }
}

/// Of clocks that are not quite the same on all processors, never less than nothing.
#[inline(always)]
fn difference<const N: usize>(now: [u64; N], start: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(start[at]))
}

impl<const N: usize, M: Meter<N>> fmt::Debug for Calls<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("functions", &self.functions().len()).finish_non_exhaustive()
    }
}
