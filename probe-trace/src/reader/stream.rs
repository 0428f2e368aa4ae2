//! The items of one ring, in the order in which its threads made them.
//!
//! Memory: one sub-buffer at a time.

use std::collections::VecDeque;
use std::io;

use super::file::{Located, TraceFile};
use super::payload;
use crate::item::{Gap, Item, Thread, ThreadId, TraceEvent};
use crate::layout::{control, event, ring, sub_buffer};

/// One ring of one file.
#[derive(Debug)]
pub(super) struct Stream {
    file: usize,
    ring: u64,
    /// Nanoseconds from the file's time to that of all files.
    shift: i128,
    left: VecDeque<Located>,
    words: Vec<u64>,
    /// The next record in `words`.
    at: usize,
    base: u64,
    generation: u64,
    thread: Option<ThreadId>,
    /// Time of the last item. A counter of another processor may be behind it.
    last: u64,
    /// Events that were read or told to be lost, and those that were written before.
    lost: u64,
    /// Events written before the next sub-buffer; `None` before the first.
    written: Option<u64>,
    /// Items that come before the next record.
    pending: VecDeque<Item>,
    has_ended: bool,
    /// Events of probes without a definition.
    pub(super) undefined: u64,
}

impl Stream {
    pub(super) fn new(file: usize, shift: i128, sub_buffers: &[Located]) -> Self {
        Self {
            file,
            ring: sub_buffers.first().map_or(0, |it| it.ring),
            shift,
            left: sub_buffers.iter().copied().collect(),
            words: Vec::new(),
            at: 0,
            base: 0,
            generation: 0,
            thread: None,
            last: 0,
            lost: 0,
            written: None,
            pending: VecDeque::new(),
            has_ended: false,
            undefined: 0,
        }
    }

    /// Returns the next item.
    pub(super) fn next(&mut self, of: &mut TraceFile) -> io::Result<Option<Item>> {
        loop {
            if let Some(item) = self.pending.pop_front() {
                return Ok(Some(item));
            }
            if let Some(event) = self.record(of) {
                return Ok(Some(Item::Event(event)));
            }
            if self.at < self.words.len() {
                continue;
            }
            match self.left.pop_front() {
                Some(next) => {
                    // The next header tells the events of one that is gone by now.
                    let Some(words) = of.sub_buffer(next)? else { continue };
                    self.words = words;
                    self.begin(of);
                }
                None if self.has_ended => return Ok(None),
                None => self.end(of),
            }
        }
    }

    /// Reads a sub-buffer's header.
    fn begin(&mut self, of: &TraceFile) {
        let word = |at| self.words[at];
        let thread = of.thread(self.file, word(sub_buffer::THREAD), word(sub_buffer::TID));
        let (base, generation) = (word(sub_buffer::BASE), word(sub_buffer::GENERATION));
        let (written, lost) = (word(sub_buffer::WRITTEN_BEFORE), word(sub_buffer::LOST_BEFORE));
        let gap = [word(sub_buffer::GAP_BEGIN), word(sub_buffer::GAP_END)];
        let name = [word(sub_buffer::NAME), word(sub_buffer::NAME + 1)];
        // Events before the first sub-buffer were replaced, and are no gap.
        let replaced = self.written.map_or(0, |before| written.saturating_sub(before));
        self.gap(of, thread, lost.saturating_sub(self.lost), gap);
        self.gap(of, thread, replaced, [base, base]);
        (self.base, self.generation, self.lost, self.written) = (base, generation, lost, Some(written));
        self.at = sub_buffer::WORDS;
        if self.thread != Some(thread) {
            self.thread = Some(thread);
            let program = of.program.clone();
            self.pending.push_back(Item::Thread(Thread { id: thread, name: text(name), program }));
        }
    }

    /// Tells the events that were lost after the last sub-buffer.
    fn end(&mut self, of: &TraceFile) {
        self.has_ended = true;
        let Some(head) = of.heads.get(&self.ring) else { return };
        let thread = of.thread(self.file, head[ring::THREAD], head[ring::TID]);
        let lost = head[ring::LOST].saturating_sub(self.lost);
        self.gap(of, thread, lost, [head[ring::GAP_BEGIN], head[ring::GAP_END]]);
    }

    fn gap(&mut self, of: &TraceFile, thread: ThreadId, lost: u64, stamps: [u64; 2]) {
        if lost != 0 {
            let [begin, end] = stamps.map(|ticks| self.time(of, ticks).max(self.last));
            self.last = end.max(begin);
            self.pending.push_back(Item::Gap(Gap { thread, begin, end: self.last, lost }));
        }
    }

    /// Reads the next record; `None` if it is no event, or if there is none.
    fn record(&mut self, of: &TraceFile) -> Option<TraceEvent> {
        let word = *self.words.get(self.at)?;
        let start = self.at + 1;
        // A payload that goes beyond the sub-buffer ends it.
        self.at = (start + event::payload(word)).min(self.words.len());
        let payload = &self.words[start..self.at];
        if event::probe(word) == event::CONTROL {
            match *payload {
                [control::TIME, ticks] => self.base = ticks,
                [control::GENERATION, generation] => self.generation = generation,
                // A later writer's.
                _ => (),
            }
            return None;
        }
        self.written = self.written.map(|written| written.saturating_add(1));
        let time = self.time(of, self.base.wrapping_add(event::ticks(word).into())).max(self.last);
        let Some(definition) = of.definitions.get(&event::probe(word)) else {
            self.undefined += 1;
            return None;
        };
        let (frame, fields) = payload::decode(definition, payload);
        self.last = time;
        Some(TraceEvent {
            thread: self.thread?,
            time,
            definition: definition.clone(),
            fields,
            frame,
            generation: self.generation,
        })
    }

    fn time(&self, of: &TraceFile, ticks: u64) -> u64 {
        let time = i128::from(of.clock.time(ticks)) + self.shift;
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }
}

/// Returns a name that is padded with zeros.
fn text(words: [u64; 2]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the time of an item; a thread is told at the time of what follows it.
pub(super) fn time_of(item: &Item) -> Option<u64> {
    match item {
        Item::Thread(_) => None,
        Item::Event(event) => Some(event.time),
        Item::Gap(gap) => Some(gap.begin),
    }
}
