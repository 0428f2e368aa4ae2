//! The open slices of one thread.

use std::{collections::VecDeque, sync::Arc};

use super::{Begin, End, Ending, Fields, FutureId, Slice, Step, Track, future::Key};
use crate::definition::Definition;
use crate::item::ThreadId;

/// Open slices of one thread, at most. A program that is traced at its entries only would
/// otherwise fill the memory.
pub(super) const LIMIT: usize = 4096;

/// A call or a poll that has begun.
pub(super) struct Frame {
    /// Number of the path.
    pub(super) path: u32,
    pub(super) definition: Arc<Definition>,
    /// The stack pointer, of calls that may end without an exit.
    pub(super) stack_pointer: Option<u64>,
    /// The future that is polled.
    pub(super) future: Option<(Key, FutureId)>,
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
}

/// Receives a stack's steps, and the futures whose polls end without a hit.
#[derive(Default)]
pub(super) struct Out {
    pub(super) steps: VecDeque<Step>,
    pub(super) left: Vec<(Key, FutureId, Ending)>,
}

impl Stack {
    pub(super) fn new(thread: ThreadId) -> Self {
        Self { thread, frames: Vec::new(), generation: 0, last: 0 }
    }

    /// Returns the time, or that of the latest step if that is later.
    pub(super) fn advance(&mut self, time: u64) -> u64 {
        self.last = self.last.max(time);
        self.last
    }

    /// Notes the generation of a hit; ends all slices if it differs from that of the hit before.
    pub(super) fn enter_generation(&mut self, generation: u64, time: u64, out: &mut Out) {
        if self.generation != generation {
            self.close(0, time, Ending::Generation, out);
            self.generation = generation;
        }
    }

    pub(super) fn begin(&mut self, frame: Frame, fields: Fields, time: u64, out: &mut Out) {
        if let Some(stack_pointer) = frame.stack_pointer {
            self.unwind(stack_pointer, Some(frame.path), time, out);
        }
        if self.frames.len() >= LIMIT {
            self.close(0, time, Ending::Limit, out);
        }
        out.steps.push_back(Step::Begin(Begin {
            track: Track::Thread(self.thread),
            time,
            slice: frame.slice(),
            fields,
            began_before: false,
            future: frame.future.map(|(_, id)| id),
        }));
        self.frames.push(frame);
    }

    /// Ends the innermost call of this path that has this stack pointer, and all inside of it.
    /// Gives the fields back if there is no such call.
    pub(super) fn end_call(
        &mut self,
        (path, stack_pointer): (u32, Option<u64>),
        fields: Fields,
        time: u64,
        out: &mut Out,
    ) -> Option<Fields> {
        let found = self.frames.iter().rposition(|frame| {
            frame.path == path && frame.future.is_none() && frame.stack_pointer == stack_pointer
        });
        if found.is_none()
            && let Some(stack_pointer) = stack_pointer
        {
            self.unwind(stack_pointer, None, time, out);
        }
        self.end_at(found, fields, Ending::Exit, time, out)
    }

    /// Ends the innermost poll of this future, and all inside of it. Gives the fields back if this
    /// thread does not poll the future.
    pub(super) fn end_poll(
        &mut self,
        key: Key,
        fields: Fields,
        ending: Ending,
        time: u64,
        out: &mut Out,
    ) -> Option<Fields> {
        let found = self.frames.iter().rposition(|frame| frame.future.is_some_and(|(of, _)| of == key));
        self.end_at(found, fields, ending, time, out)
    }

    fn end_at(
        &mut self,
        found: Option<usize>,
        fields: Fields,
        ending: Ending,
        time: u64,
        out: &mut Out,
    ) -> Option<Fields> {
        let Some(index) = found else { return Some(fields) };
        self.close(index + 1, time, Ending::Skipped, out);
        if let Some(frame) = self.frames.pop() {
            self.push_end(&frame, Some(fields), time, ending, out);
        }
        None
    }

    /// Ends the calls that the program has left, now that it runs with this stack pointer: stacks
    /// grow down, so these have a lower one. A new call of `entered` with an equal one replaces the
    /// old call.
    fn unwind(&mut self, stack_pointer: u64, entered: Option<u32>, time: u64, out: &mut Out) {
        let is_left = |frame: &Frame| {
            frame
                .stack_pointer
                .is_some_and(|of| of < stack_pointer || (of == stack_pointer && entered == Some(frame.path)))
        };
        // The open calls have falling stack pointers, so those that were left are the innermost.
        // Rust functions, which have none here, lie between.
        let mut depth = self.frames.len();
        for (index, frame) in self.frames.iter().enumerate().rev() {
            if is_left(frame) {
                depth = index;
            } else if frame.stack_pointer.is_some() {
                break;
            }
        }
        self.close(depth, time, Ending::Skipped, out);
    }

    /// Ends all slices but the outermost `depth` ones, the innermost first.
    pub(super) fn close(&mut self, depth: usize, time: u64, ending: Ending, out: &mut Out) {
        while self.frames.len() > depth
            && let Some(frame) = self.frames.pop()
        {
            self.push_end(&frame, None, time, ending, out);
            if let Some((key, id)) = frame.future {
                out.left.push((key, id, ending));
            }
        }
    }

    fn push_end(&self, frame: &Frame, fields: Option<Fields>, time: u64, ending: Ending, out: &mut Out) {
        out.steps.push_back(Step::End(End {
            track: Track::Thread(self.thread),
            time,
            slice: frame.slice(),
            definition: Arc::clone(&frame.definition),
            fields,
            ending,
        }));
    }
}
