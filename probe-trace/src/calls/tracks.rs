//! The open slices of each track: the calls and polls of a thread, and the futures that have begun
//! and not ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use probe_core::pairing::{self, OpenCalls, Place};

use super::{Begin, End, Ending, Fields, FutureId, OffProcessor, Slice, Step, Track};
use crate::item::{Definition, Off, ThreadId};

/// The most open slices of one thread. A program that is traced at its entries only would
/// otherwise fill the memory.
pub(super) const MAX_OPEN_SLICES: usize = 4096;

/// Receives the steps, and the futures whose polls end without a hit.
#[derive(Default)]
pub(super) struct Output {
    pub(super) steps: VecDeque<Step>,
    pub(super) abandoned: Vec<(FutureKey, FutureId, Ending)>,
}

/// A call or a poll that has begun.
pub(super) struct Frame {
    /// The call, as pairing knows it. Its function is the number of the path.
    pub(super) place: Place,
    pub(super) definition: Arc<Definition>,
    /// The future that is polled.
    pub(super) future: Option<(FutureKey, FutureId)>,
}

impl Frame {
    fn slice(&self) -> Slice {
        if self.future.is_some() { Slice::Poll } else { Slice::Call }
    }
}

/// Open slices of one thread, the outermost first.
pub(super) struct Stack {
    thread: ThreadId,
    frames: Vec<Frame>,
    /// The generation of the latest hit.
    generation: u64,
    /// The time of the latest step. Times of steps never decrease.
    last: u64,
    /// Whether the thread's time on a processor is told up to its last time off it; if not, since
    /// when the thread was on one.
    ran_from: RanFrom,
}

/// Since when a thread has been on a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RanFrom {
    /// Its next hit will tell.
    Unknown,
    Time(u64),
    /// Since the end of its last time off the processor.
    LastOff,
}

impl OpenCalls for Stack {
    fn count(&self) -> usize {
        self.frames.len()
    }

    fn call(&self, index: usize) -> Place {
        self.frames[index].place
    }
}

impl Stack {
    pub(super) fn new(thread: ThreadId) -> Self {
        Self { thread, frames: Vec::new(), generation: 0, last: 0, ran_from: RanFrom::Unknown }
    }

    /// Notes a time at which the thread was on a processor.
    pub(super) fn runs(&mut self, time: u64) {
        if self.ran_from == RanFrom::Unknown {
            self.ran_from = RanFrom::Time(time);
        }
    }

    /// Notes that times off the processor are not known. Returns since when.
    pub(super) fn lose_off(&mut self) -> u64 {
        self.ran_from = RanFrom::Unknown;
        self.last
    }

    /// Returns the step of a time off the processor.
    pub(super) fn off(&mut self, mut off: Off) -> OffProcessor {
        off.begin = self.advance(off.begin);
        off.end = off.end.map(|end| self.advance(end));
        let ran_from = match std::mem::replace(&mut self.ran_from, RanFrom::LastOff) {
            RanFrom::Time(time) => Some(time),
            RanFrom::Unknown | RanFrom::LastOff => None,
        };
        let inside = self.frames.last().map(|frame| Arc::clone(&frame.definition));
        OffProcessor { until: self.last, off, ran_from, inside }
    }

    /// Returns the time, or that of the latest step if that is later.
    pub(super) fn advance(&mut self, time: u64) -> u64 {
        self.last = self.last.max(time);
        self.last
    }

    /// Notes the generation of a hit; ends all slices if it differs from that of the hit before.
    pub(super) fn enter_generation(&mut self, generation: u64, time: u64, out: &mut Output) {
        if self.generation != generation {
            self.close(0, time, Ending::Generation, out);
            self.generation = generation;
        }
    }

    pub(super) fn begin(&mut self, frame: Frame, fields: Fields, time: u64, out: &mut Output) {
        self.close(pairing::open_at_entry(self, frame.place), time, Ending::Skipped, out);
        if self.frames.len() >= MAX_OPEN_SLICES {
            self.close(0, time, Ending::Limit, out);
        }
        let (track, slice, future) =
            (Track::Thread(self.thread), frame.slice(), frame.future.map(|(_, id)| id));
        out.steps.push_back(Step::Begin(Begin { track, time, slice, fields, began_before: false, future }));
        self.frames.push(frame);
    }

    /// Ends the call or poll of a hit, and all inside of it: slices of one track nest. Gives the
    /// fields back if there is no such call.
    pub(super) fn end(
        &mut self,
        place: Place,
        fields: Fields,
        ending: Ending,
        time: u64,
        out: &mut Output,
    ) -> Option<Fields> {
        let Some(index) = pairing::match_exit(self, place) else {
            self.close(pairing::open_at_exit(self, place), time, Ending::Skipped, out);
            return Some(fields);
        };
        self.close(index + 1, time, Ending::Skipped, out);
        if let Some(frame) = self.frames.pop() {
            self.push_end(&frame, Some(fields), time, ending, out);
        }
        None
    }

    /// Ends all slices but the outermost `depth` ones, the innermost first.
    pub(super) fn close(&mut self, depth: usize, time: u64, ending: Ending, out: &mut Output) {
        while self.frames.len() > depth
            && let Some(frame) = self.frames.pop()
        {
            self.push_end(&frame, None, time, ending, out);
            out.abandoned.extend(frame.future.map(|(key, id)| (key, id, ending)));
        }
    }

    fn push_end(&self, frame: &Frame, fields: Option<Fields>, time: u64, ending: Ending, out: &mut Output) {
        let (track, slice) = (Track::Thread(self.thread), frame.slice());
        let definition = Arc::clone(&frame.definition);
        out.steps.push_back(Step::End(End { track, time, slice, definition, fields, ending }));
    }
}

/// Tells the living futures of a trace apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FutureKey {
    pub(super) file: usize,
    pub(super) process: u64,
    /// Number of the path.
    pub(super) path: u32,
    pub(super) address: u64,
}

/// A hit of a future.
#[derive(Clone)]
pub(super) struct FutureHit {
    pub(super) key: FutureKey,
    pub(super) fields: Fields,
    pub(super) time: u64,
    pub(super) generation: u64,
}

/// A future that has begun and not ended. One slice inside of the future's own is open: a poll or
/// a wait.
struct Future {
    id: FutureId,
    definition: Arc<Definition>,
    open: Slice,
    generation: u64,
    /// The time of the latest step.
    last: u64,
}

/// All futures that have begun and not ended. Uses memory for each of them.
#[derive(Default)]
pub(super) struct Futures {
    living: HashMap<FutureKey, Future>,
    /// Number of the latest future.
    number: u64,
}

impl Futures {
    /// Begins a future and its first poll; ends an earlier future at the same address.
    pub(super) fn enter(&mut self, hit: FutureHit, steps: &mut VecDeque<Step>) -> FutureId {
        self.end(hit.key, None, Ending::Skipped, hit.time, steps);
        self.begin(hit, Slice::Poll, false, steps)
    }

    /// Ends the open poll or wait, and begins the other. The future itself begins here, marked, if
    /// its begin is not known.
    pub(super) fn switch_part(
        &mut self,
        hit: FutureHit,
        open: Slice,
        steps: &mut VecDeque<Step>,
    ) -> FutureId {
        self.end_other_generation(&hit, steps);
        let Some(future) = self.living.get_mut(&hit.key) else {
            return self.begin(hit, open, true, steps);
        };
        let ending = if future.open == open { Ending::Skipped } else { Ending::Exit };
        let time = hit.time.max(future.last);
        future.last = time;
        // A suspension ends the poll and has the fields; a resumption begins the next with them.
        let (of_end, of_begin) = match open {
            Slice::Wait => (Some(hit.fields.clone()), Fields { values: Vec::new(), ..hit.fields }),
            _ => (None, hit.fields),
        };
        steps.push_back(future.end(future.open, of_end, time, ending));
        future.open = open;
        steps.push_back(future.begin(open, of_begin, time, false));
        future.id
    }

    /// Ends a future. Gives `false` if it has not begun.
    pub(super) fn finish(&mut self, hit: FutureHit, ending: Ending, steps: &mut VecDeque<Step>) -> bool {
        self.end_other_generation(&hit, steps);
        self.end(hit.key, Some(hit.fields), ending, hit.time, steps)
    }

    /// Ends the futures whose polls ended without a hit, unless another one has the address now, or
    /// the future has a later hit: where a trace is read while it is written, a loss becomes known
    /// late.
    pub(super) fn abandon(&mut self, time: u64, out: &mut Output) {
        for (key, id, ending) in out.abandoned.drain(..) {
            if self.living.get(&key).is_some_and(|future| future.id == id && future.last <= time) {
                self.end(key, None, ending, time, &mut out.steps);
            }
        }
    }

    /// Ends all futures, in the order of their begins. `time` gives the end of a file.
    pub(super) fn close(&mut self, time: impl Fn(usize) -> u64, steps: &mut VecDeque<Step>) {
        let mut keys: Vec<_> = self.living.iter().map(|(key, future)| (future.id.number, *key)).collect();
        keys.sort_unstable_by_key(|(number, _)| *number);
        for (_, key) in keys {
            self.end(key, None, Ending::Trace, time(key.file), steps);
        }
    }

    fn end_other_generation(&mut self, hit: &FutureHit, steps: &mut VecDeque<Step>) {
        if self.living.get(&hit.key).is_some_and(|future| future.generation != hit.generation) {
            self.end(hit.key, None, Ending::Generation, hit.time, steps);
        }
    }

    fn begin(
        &mut self,
        hit: FutureHit,
        open: Slice,
        began_before: bool,
        steps: &mut VecDeque<Step>,
    ) -> FutureId {
        self.number += 1;
        let FutureHit { key, fields, time, generation } = hit;
        let id = FutureId { file: key.file, process: key.process, number: self.number };
        let definition = Arc::clone(&fields.definition);
        let future = Future { id, definition, open, generation, last: time };
        // The slice of the future has all fields, its first part none.
        let of_open = Fields { values: Vec::new(), ..fields.clone() };
        steps.push_back(future.begin(Slice::Future, Fields { hidden: 0, ..fields }, time, began_before));
        steps.push_back(future.begin(open, of_open, time, false));
        self.living.insert(key, future);
        id
    }

    fn end(
        &mut self,
        key: FutureKey,
        fields: Option<Fields>,
        ending: Ending,
        time: u64,
        steps: &mut VecDeque<Step>,
    ) -> bool {
        let Some(future) = self.living.remove(&key) else { return false };
        let time = time.max(future.last);
        // A future that has its result was polled; if its last part is a wait, a hit is missing.
        let of_open = match (future.open, ending) {
            (Slice::Wait, Ending::Exit) => Ending::Skipped,
            // A drop is a regular end of a wait.
            (Slice::Wait, Ending::Cancelled) => Ending::Exit,
            _ => ending,
        };
        steps.push_back(future.end(future.open, None, time, of_open));
        steps.push_back(future.end(Slice::Future, fields, time, ending));
        true
    }
}

impl Future {
    fn begin(&self, slice: Slice, fields: Fields, time: u64, began_before: bool) -> Step {
        let track = Track::Future(self.id);
        Step::Begin(Begin { track, time, slice, fields, began_before, future: None })
    }

    fn end(&self, slice: Slice, fields: Option<Fields>, time: u64, ending: Ending) -> Step {
        let (track, definition) = (Track::Future(self.id), Arc::clone(&self.definition));
        Step::End(End { track, time, slice, definition, fields, ending })
    }
}
