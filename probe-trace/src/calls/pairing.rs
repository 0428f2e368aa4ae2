//! Pairs the hits of all threads.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use probe_core::abi::Kind;
use probe_core::pairing::{CallKind, Place};
use rustc_hash::FxHashMap;

use super::tracks::{Frame, FutureHit, FutureKey, Futures, Output, Stack};
use super::{Ending, Fields, Instant, OffProcessor, Slice, Step};
use crate::item::{Definition, FieldValue, Gap, Item, Off, Thread, ThreadId, TraceEvent};

/// Makes steps of a trace's items. The first error ends the steps: it comes after the ends of all
/// open slices.
///
/// A thread has at most 4096 open slices. One more ends all of them, with [`Ending::Limit`]: a
/// program that is traced at its entries only would fill the memory otherwise.
///
/// ```
/// use std::convert::Infallible;
/// use probe_trace::{Item, calls};
/// let items: Vec<Result<Item, Infallible>> = Vec::new();
/// assert_eq!(calls::Calls::new(items).count(), 0);
/// ```
pub struct Calls<I, E> {
    items: I,
    pairing: Pairing,
    error: Option<E>,
    is_done: bool,
}

impl<I: Iterator<Item = Result<Item, E>>, E> Calls<I, E> {
    /// Pairs these items, which come in the order of time.
    pub fn new(items: impl IntoIterator<IntoIter = I>) -> Self {
        Self { items: items.into_iter(), pairing: Pairing::default(), error: None, is_done: false }
    }
}

impl<I: Iterator<Item = Result<Item, E>>, E> Iterator for Calls<I, E> {
    type Item = Result<Step, E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(step) = self.pairing.step() {
                return Some(Ok(step));
            }
            if self.is_done {
                return self.error.take().map(Err);
            }
            match self.items.next() {
                Some(Ok(item)) => self.pairing.take(item),
                end => {
                    self.error = end.and_then(Result::err);
                    self.is_done = true;
                    self.pairing.finish();
                }
            }
        }
    }
}

/// Makes steps of items, one item at a time: for items that come as a program runs.
/// [`Calls`](super::Calls) is for those of whole traces.
///
/// ```no_run
/// use std::fs::File;
///
/// use probe_trace::Followed;
/// use probe_trace::calls::{Pairing, Step};
///
/// let file = File::open("run.probetrace").unwrap();
/// let mut followed = Followed::begin("run.probetrace", file)?;
/// let mut pairing = Pairing::default();
/// followed.advance(|item| {
///     pairing.take(item);
///     while let Some(step) = pairing.step() {
///         if let Step::End(end) = step {
///             println!("{} has ended at {}", end.definition.path, end.time);
///         }
///     }
/// })?;
/// # Ok::<(), probe_trace::ReadError>(())
/// ```
#[derive(Default)]
pub struct Pairing {
    out: Output,
    threads: BTreeMap<ThreadId, Stack>,
    futures: Futures,
    /// Numbers of paths.
    paths: HashMap<String, u32>,
    /// The same numbers, by the addresses of definitions. Each definition is kept, so that no other
    /// one gets its address.
    path_numbers: FxHashMap<usize, (Arc<Definition>, u32)>,
    /// The latest time of each file.
    last: BTreeMap<usize, u64>,
    /// Times off the processor that have no end so far.
    still_off: Vec<OffProcessor>,
}

impl fmt::Debug for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pairing").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Pairing {
    /// Takes the next item.
    pub fn take(&mut self, item: Item) {
        match item {
            Item::Thread(thread) => self.thread(thread),
            Item::Event(event) => self.event(event),
            Item::Gap(gap) => self.gap(gap),
            Item::Off(off) => self.off(off),
            Item::OffLost(thread) => {
                if let Some(stack) = self.threads.get_mut(&thread) {
                    self.out.steps.push_back(Step::OffLost(thread, stack.lose_off()));
                }
            }
        }
    }

    /// Returns the next step that the items so far make. Each item makes its steps at once.
    pub fn step(&mut self) -> Option<Step> {
        self.out.steps.pop_front()
    }

    /// Ends all slices, at the end of the trace.
    pub fn finish(&mut self) {
        let Self { out, threads, futures, last, still_off, .. } = self;
        let last = |file| last.get(&file).copied().unwrap_or(0);
        for mut off in still_off.drain(..) {
            off.until = last(off.off.thread.file).max(off.off.begin);
            out.steps.push_back(Step::Off(off));
        }
        for (id, mut stack) in std::mem::take(threads) {
            let time = stack.advance(last(id.file));
            stack.close(0, time, Ending::Trace, out);
            futures.abandon(time, out);
        }
        futures.close(last, &mut out.steps);
    }

    fn thread(&mut self, thread: Thread) {
        self.threads.entry(thread.id).or_insert_with(|| {
            let stack = Stack::new(thread.id);
            self.out.steps.push_back(Step::Thread(thread));
            stack
        });
    }

    /// Notes the latest time of a file. Makes a thread known that the trace does not name.
    fn advance(&mut self, id: ThreadId, time: u64) {
        let last = self.last.entry(id.file).or_default();
        *last = time.max(*last);
        if !self.threads.contains_key(&id) {
            self.thread(Thread { id, name: String::new(), program: Arc::from("") });
        }
    }

    fn gap(&mut self, mut gap: Gap) {
        self.advance(gap.thread, gap.end);
        let Self { out, threads, futures, .. } = self;
        let Some(stack) = threads.get_mut(&gap.thread) else { return };
        let time = stack.advance(gap.begin);
        stack.close(0, time, Ending::Gap, out);
        futures.abandon(time, out);
        (gap.begin, gap.end) = (time, gap.end.max(time));
        out.steps.push_back(Step::Gap(gap));
    }

    fn off(&mut self, off: Off) {
        self.advance(off.thread, off.end.unwrap_or(off.begin));
        let Some(stack) = self.threads.get_mut(&off.thread) else { return };
        let off = stack.off(off);
        if off.off.end.is_none() && !off.off.has_ended {
            self.still_off.push(off);
        } else {
            self.out.steps.push_back(Step::Off(off));
        }
    }

    fn event(&mut self, event: TraceEvent) {
        let TraceEvent { thread, time, definition, fields, frame, generation } = event;
        self.advance(thread, time);
        let path = self.path_number(&definition);
        let Self { out, threads, futures, .. } = self;
        let Some(stack) = threads.get_mut(&thread) else { return };
        let time = stack.advance(time);
        stack.runs(time);
        stack.enter_generation(generation, time, out);
        futures.abandon(time, out);
        let address = match fields.first() {
            Some(FieldValue::U64(address)) if definition.is_future => Some(*address),
            _ => None,
        };
        let (kind, place) = (definition.kind, call_of(&definition, path, frame));
        let fields = Fields { definition, values: fields, hidden: usize::from(address.is_some()) };
        let unpaired = match (kind, address) {
            (None | Some(Kind::Point | Kind::Replace), _) => Some(fields),
            (Some(kind), Some(address)) => {
                let key = FutureKey { file: thread.file, process: thread.process, path, address };
                let hit = FutureHit { key, fields, time, generation };
                pair_future(stack, futures, kind, hit, out)
            }
            (Some(kind), None) => pair_call(stack, place, kind, fields, time, out),
        };
        if let Some(fields) = unpaired {
            let fields = Fields { hidden: 0, ..fields };
            let lacks_entry = kind == Some(Kind::Exit) || kind == Some(Kind::Drop) && address.is_some();
            out.steps.push_back(Step::Instant(Instant { thread, time, fields, lacks_entry }));
        }
        futures.abandon(time, out);
    }

    fn path_number(&mut self, definition: &Arc<Definition>) -> u32 {
        let address = Arc::as_ptr(definition).addr();
        if let Some((_, number)) = self.path_numbers.get(&address) {
            return *number;
        }
        let next = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        let number = *self.paths.entry(definition.path.clone()).or_insert(next);
        self.path_numbers.insert(address, (Arc::clone(definition), number));
        number
    }
}

/// Returns the call that a hit of this probe begins or ends.
fn call_of(definition: &Definition, path: u32, frame: Option<u64>) -> Place {
    let kind = match (definition.may_skip_exit, definition.has_frame) {
        (false, _) => CallKind::Plain,
        (true, false) => CallKind::Hooked,
        (true, true) => CallKind::Framed,
    };
    Place { function: path, kind, stack_pointer: frame.unwrap_or(0) }
}

/// Begins or ends a call. Gives the fields back if the hit does neither.
fn pair_call(
    stack: &mut Stack,
    place: Place,
    kind: Kind,
    fields: Fields,
    time: u64,
    out: &mut Output,
) -> Option<Fields> {
    match kind {
        Kind::Entry => {
            let definition = Arc::clone(&fields.definition);
            stack.begin(Frame { place, definition, future: None }, fields, time, out);
            None
        }
        Kind::Exit => stack.end(place, fields, Ending::Exit, time, out),
        // Parts of a future whose address is not known.
        _ => Some(fields),
    }
}

/// Begins or ends a poll, and the future itself. Gives the fields back if the hit ends a future
/// that has not begun.
fn pair_future(
    stack: &mut Stack,
    futures: &mut Futures,
    kind: Kind,
    hit: FutureHit,
    out: &mut Output,
) -> Option<Fields> {
    let (key, fields, time) = (hit.key, hit.fields.clone(), hit.time);
    let place = Place { function: key.path, kind: CallKind::Poll(key.address), stack_pointer: 0 };
    if matches!(kind, Kind::Entry | Kind::Resume) {
        let id = match kind {
            Kind::Entry => futures.enter(hit, &mut out.steps),
            _ => futures.switch_part(hit, Slice::Poll, &mut out.steps),
        };
        let definition = Arc::clone(&fields.definition);
        stack.begin(Frame { place, definition, future: Some((key, id)) }, fields, time, out);
        return None;
    }
    let ending = if kind == Kind::Drop { Ending::Cancelled } else { Ending::Exit };
    stack.end(place, fields.clone(), ending, time, out);
    if kind == Kind::Suspend {
        futures.switch_part(hit, Slice::Wait, &mut out.steps);
        return None;
    }
    let has_begun = futures.finish(hit, ending, &mut out.steps);
    (!has_begun).then_some(fields)
}
