//! Pairs the hits of all threads.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use rustc_hash::FxHashMap;

use super::{
    Ending, Fields, Instant, Slice, Step,
    future::{FutureKey, Futures, HitTime},
    rule::{CallKind, Place},
    stack::{Frame, Output, Stack},
};
use crate::item::{Definition, FieldValue, Gap, Item, Kind, Thread, ThreadId, TraceEvent};

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
    /// The same by the address of a definition that has the path, and that stays meanwhile.
    path_numbers: FxHashMap<usize, (Arc<Definition>, u32)>,
    /// The latest time of each file.
    last: BTreeMap<usize, u64>,
}

impl std::fmt::Debug for Pairing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        }
    }

    /// Returns the next step that the items so far make. Each item makes its steps at once.
    pub fn step(&mut self) -> Option<Step> {
        self.out.steps.pop_front()
    }

    /// Ends all slices, at the end of the trace.
    pub fn finish(&mut self) {
        for (id, mut stack) in std::mem::take(&mut self.threads) {
            let time = stack.advance(self.last.get(&id.file).copied().unwrap_or(0));
            stack.close(0, time, Ending::Trace, &mut self.out);
            self.abandon_polls(time);
        }
        let last = &self.last;
        self.futures.close(|file| last.get(&file).copied().unwrap_or(0), &mut self.out.steps);
    }

    fn thread(&mut self, thread: Thread) {
        self.threads.entry(thread.id).or_insert_with(|| {
            let stack = Stack::new(thread.id);
            self.out.steps.push_back(Step::Thread(thread));
            stack
        });
    }

    /// Makes a thread known that the trace does not name.
    fn ensure_thread(&mut self, id: ThreadId) {
        if !self.threads.contains_key(&id) {
            self.thread(Thread { id, name: String::new(), program: Arc::from("") });
        }
    }

    fn gap(&mut self, mut gap: Gap) {
        self.ensure_thread(gap.thread);
        let last = self.last.entry(gap.thread.file).or_default();
        *last = gap.end.max(*last);
        let Some(stack) = self.threads.get_mut(&gap.thread) else { return };
        let time = stack.advance(gap.begin);
        stack.close(0, time, Ending::Gap, &mut self.out);
        self.abandon_polls(time);
        (gap.begin, gap.end) = (time, gap.end.max(time));
        self.out.steps.push_back(Step::Gap(gap));
    }

    fn event(&mut self, event: TraceEvent) {
        let TraceEvent { thread, time, definition, fields, frame, generation } = event;
        self.ensure_thread(thread);
        let last = self.last.entry(thread.file).or_default();
        *last = time.max(*last);
        let path = self.path_number(&definition);
        let Some(stack) = self.threads.get_mut(&thread) else { return };
        let time = stack.advance(time);
        stack.enter_generation(generation, time, &mut self.out);
        self.abandon_polls(time);
        let at = HitTime { time, generation };
        let address = match fields.first() {
            Some(FieldValue::U64(address)) if definition.is_future => Some(*address),
            _ => None,
        };
        let kind = definition.kind;
        let fields = Fields { definition, values: fields, hidden: usize::from(address.is_some()) };
        match (kind, address) {
            (None | Some(Kind::Point | Kind::Replace), _) => self.instant(thread, at, fields, false),
            (Some(kind), Some(address)) => {
                let key = FutureKey { file: thread.file, process: thread.process, path, address };
                self.future(thread, key, kind, fields, at);
            }
            (Some(kind), None) => self.call(thread, (path, frame), kind, fields, at),
        }
        self.abandon_polls(time);
    }

    fn call(
        &mut self,
        thread: ThreadId,
        (path, frame): (u32, Option<u64>),
        kind: Kind,
        fields: Fields,
        at: HitTime,
    ) {
        let Some(stack) = self.threads.get_mut(&thread) else { return };
        let definition = Arc::clone(&fields.definition);
        let kind_of_call = match (definition.may_skip_exit, definition.has_frame) {
            (false, _) => CallKind::Plain,
            (true, false) => CallKind::Hooked,
            (true, true) => CallKind::Framed,
        };
        let place = Place { function: path, kind: kind_of_call, stack_pointer: frame.unwrap_or(0) };
        let left = match kind {
            Kind::Entry => {
                stack.begin(Frame { place, definition, future: None }, fields, at.time, &mut self.out);
                None
            }
            Kind::Exit => stack.end(place, fields, Ending::Exit, at.time, &mut self.out),
            // Parts of a future whose address is not known.
            _ => Some(fields),
        };
        if let Some(fields) = left {
            self.instant(thread, at, fields, kind == Kind::Exit);
        }
    }

    fn future(&mut self, thread: ThreadId, key: FutureKey, kind: Kind, fields: Fields, at: HitTime) {
        let Some(stack) = self.threads.get_mut(&thread) else { return };
        let out = &mut self.out;
        let place = Place { function: key.path, kind: CallKind::Poll(key.address), stack_pointer: 0 };
        let ending = if kind == Kind::Drop { Ending::Cancelled } else { Ending::Exit };
        match kind {
            Kind::Entry | Kind::Resume => {
                let id = if kind == Kind::Entry {
                    self.futures.enter(key, fields.clone(), at, &mut out.steps)
                } else {
                    self.futures.switch_part(key, fields.clone(), Slice::Poll, at, &mut out.steps)
                };
                let definition = Arc::clone(&fields.definition);
                stack.begin(Frame { place, definition, future: Some((key, id)) }, fields, at.time, out);
            }
            Kind::Suspend => {
                stack.end(place, fields.clone(), ending, at.time, out);
                self.futures.switch_part(key, fields, Slice::Wait, at, &mut out.steps);
            }
            _ => {
                stack.end(place, fields.clone(), ending, at.time, out);
                if !self.futures.finish(key, fields.clone(), ending, at, &mut out.steps) {
                    self.instant(thread, at, fields, true);
                }
            }
        }
    }

    fn instant(&mut self, thread: ThreadId, at: HitTime, fields: Fields, lacks_entry: bool) {
        let fields = Fields { hidden: 0, ..fields };
        self.out.steps.push_back(Step::Instant(Instant { thread, time: at.time, fields, lacks_entry }));
    }

    /// Ends the futures whose polls ended without a hit.
    fn abandon_polls(&mut self, time: u64) {
        for left in std::mem::take(&mut self.out.abandoned) {
            self.futures.abandon(left, time, &mut self.out.steps);
        }
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
