//! The open slices of one thread.

use std::{collections::VecDeque, sync::Arc};

use super::rule::{self, OpenCalls, Place};
use super::{Begin, End, Ending, Fields, FutureId, Slice, Step, Track, future::FutureKey};
use crate::item::{Definition, ThreadId};

/// Open slices of one thread, at most. A program that is traced at its entries only would
/// otherwise fill the memory.
pub(super) const MAX_OPEN_SLICES: usize = 4096;

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

impl OpenCalls for Vec<Frame> {
    fn count(&self) -> usize {
        self.len()
    }

    fn call(&self, index: usize) -> Place {
        self[index].place
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
pub(super) struct Output {
    pub(super) steps: VecDeque<Step>,
    pub(super) abandoned: Vec<(FutureKey, FutureId, Ending)>,
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
    pub(super) fn enter_generation(&mut self, generation: u64, time: u64, out: &mut Output) {
        if self.generation != generation {
            self.close(0, time, Ending::Generation, out);
            self.generation = generation;
        }
    }

    pub(super) fn begin(&mut self, frame: Frame, fields: Fields, time: u64, out: &mut Output) {
        self.close(rule::open_at_entry(&self.frames, frame.place), time, Ending::Skipped, out);
        if self.frames.len() >= MAX_OPEN_SLICES {
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
        let Some(index) = rule::match_exit(&self.frames, place) else {
            self.close(rule::open_at_exit(&self.frames, place), time, Ending::Skipped, out);
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
            if let Some((key, id)) = frame.future {
                out.abandoned.push((key, id, ending));
            }
        }
    }

    fn push_end(&self, frame: &Frame, fields: Option<Fields>, time: u64, ending: Ending, out: &mut Output) {
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
