//! The items of one ring, in the order in which its threads made them, and the merge of many rings
//! by time.
//!
//! Memory: 72 KiB a ring at most, whatever sizes the file claims, and 40 bytes a sub-buffer.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::io;
use std::sync::Arc;

use super::decode::payload as decode_payload;
use super::file::{CHUNK_WORDS, SubBuffer, TraceFile};
use crate::item::{Definition, Gap, Item, Off, SystemCall, Thread, ThreadId, TraceEvent};
use crate::layout::{control, event, off, ring, sub_buffer};

/// The number of definitions that a stream finds without its file's table.
const RECENT_DEFINITIONS: usize = 64;

/// The words that a ring has beyond those that were read, see [`Rings::read`](crate::Rings::read).
///
/// ```
/// fn is_over(part: probe_trace::Part) -> bool {
///     part == probe_trace::Part::None
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// There are none yet.
    None,
    /// More words of the same sub-buffer were added.
    Further,
    /// The words are the first ones of the next sub-buffer.
    Next,
}

/// One ring of one file.
#[derive(Default, Debug)]
pub(super) struct Stream {
    pub(super) file: usize,
    ring: u64,
    /// Nanoseconds from the file's time to that of all files.
    shift: i128,
    left: VecDeque<SubBuffer>,
    /// The part of the current sub-buffer that is in memory, and the part that is not.
    words: Vec<u64>,
    rest: Option<SubBuffer>,
    /// The next record in `words`.
    at: usize,
    base: u64,
    generation: u64,
    thread: Option<ThreadId>,
    /// Time of the last item. A counter of another processor may be behind it.
    last: u64,
    /// Events that were lost so far, as headers and records tell.
    lost: u64,
    /// Events written before the next sub-buffer; `None` before the first.
    written: Option<u64>,
    /// The items that were read and not handed out.
    items: VecDeque<Item>,
    has_ended: bool,
    /// Definitions of the latest events, by the lowest bits of their probes' numbers.
    recent: Vec<Option<Arc<Definition>>>,
    /// Events of probes without a definition.
    undefined: u64,
}

impl Stream {
    pub(super) fn new(file: usize, shift: i128, sub_buffers: &[SubBuffer]) -> Self {
        let ring = sub_buffers.first().map_or(0, |it| it.ring);
        Self { shift, left: sub_buffers.iter().copied().collect(), ..Self::of(file, ring) }
    }

    /// Creates the stream of a ring that is still being written.
    pub(super) fn of(file: usize, ring: u64) -> Self {
        Self { file, ring, ..Self::default() }
    }

    /// Reads the next record or sub-buffer. Returns `false` if there is none.
    pub(super) fn read(&mut self, of: &mut TraceFile) -> io::Result<bool> {
        self.refill(of)?;
        if self.at < self.words.len() {
            self.record(of);
            return Ok(true);
        }
        match self.left.pop_front() {
            Some(next) if next.is_live => {
                // The next header tells the events of a sub-buffer that is gone by now.
                let Some(words) = of.read_live(next)? else { return Ok(true) };
                // The process has added the definitions of these events before them.
                of.define_later()?;
                (self.words, self.rest) = (words, None);
                self.begin(of);
            }
            Some(next) => {
                self.rest = Some(next);
                self.refill(of)?;
                self.begin(of);
            }
            None if self.has_ended => return Ok(false),
            None => {
                (self.words, self.at) = (Vec::new(), 0);
                self.end(of);
            }
        }
        Ok(true)
    }

    /// Reads the next record or sub-buffer, unless its time stamp is later than this one. `part`
    /// adds words: further ones of the same sub-buffer, or the first ones of the next. Returns
    /// `false` if there is nothing to read.
    pub(super) fn read_until(
        &mut self,
        of: &TraceFile,
        latest: u64,
        mut part: impl FnMut(u64, &mut Vec<u64>) -> Part,
    ) -> bool {
        if self.at == self.words.len() {
            match part(self.ring, &mut self.words) {
                Part::None => return false,
                Part::Further => (),
                Part::Next => self.at = 0,
            }
        } else if self.at == 0 {
            if self.words.len() < sub_buffer::WORDS || self.words[sub_buffer::BASE] > latest {
                return false;
            }
            self.begin(of);
        } else if self.stamp() > latest {
            return false;
        } else {
            self.record(of);
        }
        true
    }

    /// Returns the time of the next item that has one.
    fn time(&self) -> Option<u64> {
        self.items.iter().find_map(time_of)
    }

    /// Reads more of the current sub-buffer if the part in memory may end in the middle of a
    /// record.
    fn refill(&mut self, of: &mut TraceFile) -> io::Result<()> {
        if let Some(rest) = &mut self.rest
            && rest.words != 0
            && self.words.len() - self.at <= event::PAYLOAD_MAX
        {
            self.words.drain(..self.at);
            self.at = 0;
            self.words.append(&mut of.take(rest, CHUNK_WORDS)?);
        }
        Ok(())
    }

    /// Returns the time stamp of the next record; zero if it has none of its own.
    fn stamp(&self) -> u64 {
        match self.words.get(self.at) {
            Some(word) if event::probe(*word) != event::CONTROL => {
                self.base.wrapping_add(event::ticks(*word).into())
            }
            _ => 0,
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
        // Lost events are of the thread before, even if another one has taken its ring.
        let owner = self.thread.unwrap_or(thread);
        if self.thread != Some(thread) {
            self.thread = Some(thread);
            let program = of.program.clone();
            self.items.push_back(Item::Thread(Thread { id: thread, name: text(name), program }));
        }
        // Events before the first sub-buffer were replaced, and are no gap.
        let replaced = self.written.map_or(0, |before| written.saturating_sub(before));
        self.gap(of, owner, lost.saturating_sub(self.lost), gap);
        self.gap(of, thread, replaced, [base, base]);
        (self.base, self.generation, self.lost, self.written) = (base, generation, lost, Some(written));
        self.at = sub_buffer::WORDS;
    }

    /// Adds a gap for the events that were lost after the last sub-buffer, and the times off the
    /// processor after the last event.
    pub(super) fn end(&mut self, of: &TraceFile) {
        self.has_ended = true;
        self.lose_last(of);
        let Some([number, times @ ..]) = of.losses.off.get(&self.ring).map(Vec::as_slice) else { return };
        let Some(thread) = self.thread.filter(|thread| thread.thread == *number) else { return };
        for time in times.as_chunks::<{ off::WORDS }>().0 {
            // The thread may have written it itself since.
            let last = if time[off::END] == 0 { time[off::BEGIN] } else { time[off::END] };
            if self.shifted(last) <= self.last {
                continue;
            }
            if time[off::ABOUT] & off::LOST != 0 {
                self.items.push_back(Item::OffLost(thread));
            } else {
                self.off(thread, *time);
            }
        }
    }

    fn lose_last(&mut self, of: &TraceFile) {
        let Some(head) = of.losses.heads.get(&self.ring) else { return };
        let thread = of.thread(self.file, head[ring::THREAD], head[ring::TID]);
        let lost = head[ring::LOST].saturating_sub(self.lost);
        self.gap(of, thread, lost, [head[ring::GAP_BEGIN], head[ring::GAP_END]]);
    }

    fn gap(&mut self, of: &TraceFile, thread: ThreadId, lost: u64, stamps: [u64; 2]) {
        if lost != 0 {
            let [begin, end] = stamps.map(|ticks| self.time_at(of, ticks).max(self.last));
            self.last = end.max(begin);
            self.items.push_back(Item::Gap(Gap { thread, begin, end: self.last, lost }));
        }
    }

    /// Reads the next record.
    fn record(&mut self, of: &TraceFile) {
        let Some(word) = self.words.get(self.at).copied() else { return };
        let start = self.at + 1;
        // A payload that goes beyond the sub-buffer ends it.
        self.at = (start + event::payload(word)).min(self.words.len());
        let payload = &self.words[start..self.at];
        // No record is zero. Here somebody has cut off the file while it was written, maybe in the
        // middle of this record.
        if word == 0 || !payload.is_empty() && self.words.get(self.at) == Some(&0) {
            (self.at, self.rest) = (self.words.len(), None);
            return;
        }
        if event::probe(word) == event::CONTROL {
            match *payload {
                [control::TIME, ticks] => self.base = ticks,
                [control::GENERATION, generation] => self.generation = generation,
                [control::GAP, lost, begin, end] => {
                    self.lost = self.lost.saturating_add(lost);
                    if let Some(thread) = self.thread {
                        self.gap(of, thread, lost, [begin, end]);
                    }
                }
                [control::OFF, ref time @ ..] => {
                    if let (Some(thread), Ok(time)) = (self.thread, time.try_into()) {
                        self.off(thread, time);
                    }
                }
                [control::OFF_LOST, _] => self.items.extend(self.thread.map(Item::OffLost)),
                // A later writer has added this record.
                _ => (),
            }
            return;
        }
        self.written = self.written.map(|written| written.saturating_add(1));
        let time = self.time_at(of, self.base.wrapping_add(event::ticks(word).into())).max(self.last);
        let Some(definition) = definition(&mut self.recent, of, event::probe(word)) else {
            self.undefined += 1;
            return;
        };
        let (frame, fields) = decode_payload(&definition, payload, &of.stacks);
        self.last = time;
        let (Some(thread), generation) = (self.thread, self.generation) else { return };
        self.items.push_back(Item::Event(TraceEvent { thread, time, definition, fields, frame, generation }));
    }

    /// Adds a time off the processor. The kernel's clock and the thread's differ by the error of
    /// the latter, and items of a thread come in order.
    fn off(&mut self, thread: ThreadId, words: [u64; off::WORDS]) {
        let [begin, end, about, name @ .., argument] = words;
        let begin = self.shifted(begin).max(self.last);
        let end = (end != 0).then(|| self.shifted(end).max(begin));
        self.last = end.unwrap_or(begin);
        let has = |flag| about & flag != 0;
        let (is_ready, has_ended, is_polled) = (has(off::READY), has(off::ENDED), has(off::POLLED));
        let processors = off::processors(about);
        let call = (name != [0; 2]).then(|| SystemCall { name: text(name), argument });
        self.items.push_back(Item::Off(Off {
            thread,
            begin,
            end,
            is_ready,
            has_ended,
            is_polled,
            processors,
            call,
        }));
    }

    fn time_at(&self, of: &TraceFile, ticks: u64) -> u64 {
        self.shifted(of.clock.time(ticks))
    }

    /// Returns a time of the file's `CLOCK_MONOTONIC` as one of all files.
    fn shifted(&self, time: u64) -> u64 {
        u64::try_from((i128::from(time) + self.shift).max(0)).unwrap_or(u64::MAX)
    }
}

/// Streams whose items are merged by time.
#[derive(Default, Debug)]
pub(super) struct Merge {
    pub(super) streams: Vec<Stream>,
    /// The streams that have an item with a time, by that time.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// Whether the first of these has handed out that item, and must be read.
    is_first_spent: bool,
    /// The other streams that may have such an item, once they are read.
    unread: Vec<usize>,
}

impl Merge {
    /// Reads all streams anew.
    pub(super) fn restart(&mut self) {
        self.unread = (0..self.streams.len()).collect();
    }

    /// Returns the next item. `read` reads more of a stream, as long as it returns `true`.
    pub(super) fn next<E>(
        &mut self,
        mut read: impl FnMut(&mut Stream) -> Result<bool, E>,
    ) -> Result<Option<Item>, E> {
        let mut fill = |stream: &mut Stream| {
            loop {
                match stream.time() {
                    None if read(stream)? => (),
                    time => return Ok(time),
                }
            }
        };
        if std::mem::take(&mut self.is_first_spent)
            && let Some(mut first) = self.next.peek_mut()
        {
            // Its next item is mostly the next one of all, and the heap keeps its order.
            let Reverse((time, number)) = &mut *first;
            match fill(&mut self.streams[*number])? {
                Some(next) => *time = next,
                None => _ = PeekMut::pop(first),
            }
        }
        while let Some(number) = self.unread.pop() {
            let time = fill(&mut self.streams[number])?;
            self.next.extend(time.map(|time| Reverse((time, number))));
        }
        let Some(Reverse((_, number))) = self.next.peek() else { return Ok(None) };
        let item = self.streams[*number].items.pop_front();
        self.is_first_spent = item.as_ref().and_then(time_of).is_some();
        Ok(item)
    }

    /// Returns the number of events so far without a definition.
    pub(super) fn undefined(&self) -> u64 {
        self.streams.iter().map(|stream| stream.undefined).sum()
    }
}

fn definition(
    recent: &mut Vec<Option<Arc<Definition>>>,
    of: &TraceFile,
    probe: u32,
) -> Option<Arc<Definition>> {
    recent.resize(RECENT_DEFINITIONS, None);
    let place = &mut recent[probe as usize % RECENT_DEFINITIONS];
    if place.as_ref().is_none_or(|definition| definition.probe != probe) {
        *place = Some(of.definitions.get(&probe)?.clone());
    }
    place.clone()
}

/// Returns a name that is padded with zeros.
fn text(words: [u64; 2]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the time of an item. Some have none: they come right before the thread's next item.
fn time_of(item: &Item) -> Option<u64> {
    match item {
        Item::Thread(_) | Item::OffLost(_) => None,
        Item::Event(event) => Some(event.time),
        Item::Gap(gap) => Some(gap.begin),
        Item::Off(off) => Some(off.begin),
    }
}
