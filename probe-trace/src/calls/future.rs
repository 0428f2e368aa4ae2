//! The futures that have begun and not ended.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{Begin, End, Ending, Fields, FutureId, Slice, Step, Track};
use crate::item::Definition;

/// Tells the living futures of a trace apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FutureKey {
    pub(super) file: usize,
    pub(super) process: u64,
    /// Number of the path.
    pub(super) path: u32,
    pub(super) address: u64,
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

/// A hit of a future: its time and the number of its period without switches.
#[derive(Clone, Copy)]
pub(super) struct HitTime {
    pub(super) time: u64,
    pub(super) generation: u64,
}

impl Futures {
    /// Begins a future and its first poll; ends the one before that had the same address.
    pub(super) fn enter(
        &mut self,
        key: FutureKey,
        fields: Fields,
        at: HitTime,
        steps: &mut VecDeque<Step>,
    ) -> FutureId {
        self.end(key, None, Ending::Skipped, at.time, steps);
        self.begin(key, fields, Slice::Poll, false, at, steps)
    }

    /// Ends the open poll or wait, and begins the other. The future itself begins here, marked, if
    /// its begin is not known.
    pub(super) fn switch_part(
        &mut self,
        key: FutureKey,
        fields: Fields,
        open: Slice,
        at: HitTime,
        steps: &mut VecDeque<Step>,
    ) -> FutureId {
        self.end_other_generation(key, at, steps);
        let Some(future) = self.living.get_mut(&key) else {
            return self.begin(key, fields, open, true, at, steps);
        };
        let ending = if future.open == open { Ending::Skipped } else { Ending::Exit };
        let time = at.time.max(future.last);
        future.last = time;
        // A suspension ends the poll and has the fields; a resumption begins the next with them.
        let (of_end, of_begin) = match open {
            Slice::Wait => (Some(fields.clone()), Fields { values: Vec::new(), ..fields }),
            _ => (None, fields),
        };
        steps.push_back(future.end(future.open, of_end, time, ending));
        future.open = open;
        steps.push_back(future.begin(open, of_begin, time, false));
        future.id
    }

    /// Ends a future. Gives `false` if it has not begun.
    pub(super) fn finish(
        &mut self,
        key: FutureKey,
        fields: Fields,
        ending: Ending,
        at: HitTime,
        steps: &mut VecDeque<Step>,
    ) -> bool {
        self.end_other_generation(key, at, steps);
        self.end(key, Some(fields), ending, at.time, steps)
    }

    /// Ends a future whose poll ended without a hit, unless another one has its address now, or it
    /// went on later: a loss is told late where a trace is read while it is written.
    pub(super) fn abandon(
        &mut self,
        (key, id, ending): (FutureKey, FutureId, Ending),
        time: u64,
        steps: &mut VecDeque<Step>,
    ) {
        if self.living.get(&key).is_some_and(|future| future.id == id && future.last <= time) {
            self.end(key, None, ending, time, steps);
        }
    }

    /// Ends all futures, in the order of their begins. `time` gives the end of a file.
    pub(super) fn close(&mut self, time: impl Fn(usize) -> u64, steps: &mut VecDeque<Step>) {
        let mut keys: Vec<(u64, FutureKey)> =
            self.living.iter().map(|(key, future)| (future.id.number, *key)).collect();
        keys.sort_unstable_by_key(|(number, _)| *number);
        for (_, key) in keys {
            self.end(key, None, Ending::Trace, time(key.file), steps);
        }
    }

    fn end_other_generation(&mut self, key: FutureKey, at: HitTime, steps: &mut VecDeque<Step>) {
        if self.living.get(&key).is_some_and(|future| future.generation != at.generation) {
            self.end(key, None, Ending::Generation, at.time, steps);
        }
    }

    fn begin(
        &mut self,
        key: FutureKey,
        fields: Fields,
        open: Slice,
        began_before: bool,
        at: HitTime,
        steps: &mut VecDeque<Step>,
    ) -> FutureId {
        self.number += 1;
        let future = Future {
            id: FutureId { file: key.file, process: key.process, number: self.number },
            definition: Arc::clone(&fields.definition),
            open,
            generation: at.generation,
            last: at.time,
        };
        // The slice of the future has all fields, its first part none.
        let of_open = Fields { values: Vec::new(), ..fields.clone() };
        steps.push_back(future.begin(Slice::Future, Fields { hidden: 0, ..fields }, at.time, began_before));
        steps.push_back(future.begin(open, of_open, at.time, false));
        let id = future.id;
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
            // The drop ends the wait in the way that the program wants.
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
        let track = Track::Future(self.id);
        let definition = Arc::clone(&self.definition);
        Step::End(End { track, time, slice, definition, fields, ending })
    }
}
