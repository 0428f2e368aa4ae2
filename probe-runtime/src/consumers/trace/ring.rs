//! One thread's ring of sub-buffers: its writer, and readers beside it.
//!
//! Only the thread itself writes, with plain stores. It stores a record's words first and moves the
//! position behind them afterwards, so words before the position are whole. Readers copy a
//! sub-buffer and compare its sequence number before and after, as with a seqlock: the writer
//! clears the number before it writes to the sub-buffer anew. So no reader delays the writer.
//!
//! # Losses
//! The thread of the current sub-buffer counts the events that it loses in the head; its next
//! sub-buffer tells them. A thread that comes while an earlier one has left the ring full counts
//! its own apart, and its first sub-buffer tells them in a record. If it never gets one, they count
//! as those of a thread without a ring.
//!
//! # A ring in a mapped file
//! Its words continue behind the sub-buffers, with a [head](ring) as files have it for the losses.
//! The file is readable at any moment, also if the process is killed in the middle of a store:
//!
//! - An event's payload is stored before its word, and the word behind the last event is zero: the
//!   thread clears a part of the sub-buffer before it writes there.
//! - The number of a sub-buffer is zero while its header is written, as for readers in the process.
//! - The position is not in the file, so no change of the file leads a store astray.
//! - A child that a signal handler has forked in the middle of a hit finds the head empty, and the
//!   parent's file in its memory. It notices the first before it stores a word.
//!
//! Cost: a record without payload takes three stores. On x86-64 the way in makes them, see
//! [`Recorder`](crate::engine::dispatch::Recorder). In a file, a store for each word that is used
//! again: the words of a part are cleared at once, shortly before they are written, when the
//! processor has to fetch their cache lines anyway.

use std::sync::atomic::compiler_fence;

use probe_trace::layout::{control, event, off, ring, sub_buffer};

// The standard library's, or those of the model checker.
use super::atomic::Ordering::{self, Acquire, Relaxed, Release};
use super::atomic::{AtomicU64, fence};

/// A ring's state, which only its thread writes.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Head {
    /// See [`ring::POSITION`].
    position: AtomicU64,
    /// The position at which the current sub-buffer ends.
    end: AtomicU64,
    /// The address of the word with position 0, were it in memory.
    origin: AtomicU64,
    /// Time stamp from which the next record counts.
    base: AtomicU64,
    thread: AtomicU64,
    generation: AtomicU64,
    written: AtomicU64,
    /// The position at the first word of the ring's memory.
    lap: AtomicU64,
    lost: AtomicU64,
    /// Lost events that the next sub-buffer tells, all of `thread`.
    lost_now: AtomicU64,
    gap_begin: AtomicU64,
    gap_end: AtomicU64,
    /// Number of sub-buffers that were copied to the file; the copying thread writes it.
    drained: AtomicU64,
    tid: AtomicU64,
    name: [AtomicU64; 2],
    /// The ring's number in files. The order of rings in memory changes as threads come.
    number: AtomicU64,
    /// 1 in the process that has [begun](Ring::begin) the ring. Where rings lie in a file, a child
    /// finds 0.
    is_own: AtomicU64,
    late: LateLosses,
    /// 1 if times off the processor found no room since the last one that did.
    off_lost: AtomicU64,
    /// Events of threads that never got a sub-buffer here, since an earlier thread has left the
    /// ring full. They count as those of threads without a ring.
    ringless: AtomicU64,
}

// The way in of the x86-64 backend writes records by itself, as `Ring::write_short` does.
#[cfg(not(all(test, loom)))]
const _: () = {
    use crate::engine::dispatch::head;
    use std::mem::offset_of;
    assert!(offset_of!(Head, position) == head::POSITION && offset_of!(Head, end) == head::END);
    assert!(offset_of!(Head, origin) == head::ORIGIN && offset_of!(Head, base) == head::BASE);
    assert!(offset_of!(Head, thread) == head::THREAD && offset_of!(Head, generation) == head::GENERATION);
    assert!(offset_of!(Head, written) == head::WRITTEN);
    assert!(super::definitions::number(0) == 1);
    assert!(event::word(1, 1, 0) == 1 << head::PROBE_SHIFT | 1 << head::PAYLOAD_SHIFT);
};

/// Events that a thread has lost before it has a sub-buffer of the ring.
#[derive(Default)]
#[repr(C)]
struct LateLosses {
    thread: AtomicU64,
    lost: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
}

impl Head {
    /// The words that files have, and their places there.
    fn shown(&self) -> [(usize, &AtomicU64); 11] {
        [
            (ring::POSITION, &self.position),
            (ring::WRITTEN, &self.written),
            (ring::LOST, &self.lost),
            (ring::LOST_NOW, &self.lost_now),
            (ring::GAP_BEGIN, &self.gap_begin),
            (ring::GAP_END, &self.gap_end),
            (ring::DRAINED, &self.drained),
            (ring::THREAD, &self.thread),
            (ring::TID, &self.tid),
            (ring::NAME, &self.name[0]),
            (ring::NAME + 1, &self.name[1]),
        ]
    }
}

/// The policy for events that come when all sub-buffers are full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WhenFull {
    /// They replace the oldest.
    Overwrite,
    /// They are lost until somebody has copied a sub-buffer.
    Wait,
    /// They are lost.
    Stop,
}

/// A ring's sizes in words, and its policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) sub_buffers: u64,
    pub(super) words: u64,
    pub(super) when_full: WhenFull,
}

/// A hit's thread and time.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) now: u64,
    pub(super) thread: u64,
    pub(super) generation: u32,
}

/// The thread and the time of a new sub-buffer.
pub(super) struct Identity {
    /// The system's id of the thread, and its name, if the ring does not know them.
    pub(super) thread: Option<(u64, [u64; 2])>,
    /// A time stamp, the ticks that the reading took, and `CLOCK_MONOTONIC` at that stamp.
    pub(super) reading: Option<(u64, u64, u64)>,
}

/// Words of a [control record](control) with one value, and of that of a gap.
const CONTROL_WORDS: u64 = 3;
const GAP_WORDS: u64 = 5;
/// Words of a record of a time off the processor, and of one that says that some are lost before.
const OFF_WORDS: u64 = 2 + off::WORDS as u64 + CONTROL_WORDS;
const HEADER: u64 = sub_buffer::WORDS as u64;
/// Words that are cleared at once.
const CLEARED: u64 = 512;

/// A ring: its head and its memory.
#[derive(Clone, Copy)]
pub(super) struct Ring<'a> {
    pub(super) head: &'a Head,
    pub(super) words: &'a [AtomicU64],
}

/// Room for one record, which the writer has reserved.
pub(super) struct Reservation<'a> {
    /// The payload's words.
    pub(super) payload: &'a [AtomicU64],
    event: &'a AtomicU64,
    position: u64,
    ticks: u32,
}

impl<'a> Ring<'a> {
    /// Writes a record with this many payload words, if the current sub-buffer has room and nothing
    /// else has to be written first. `store` stores the payload; if it returns `false`, nothing was
    /// written.
    #[inline(always)]
    pub(super) fn write_short(
        self,
        hit: Hit,
        probe: u32,
        payload: usize,
        store: impl FnOnce(&[AtomicU64]) -> bool,
    ) -> bool {
        let head = self.head;
        let position = head.position.load(Relaxed);
        let ticks = hit.now.wrapping_sub(head.base.load(Relaxed));
        let start = at(position.wrapping_sub(head.lap.load(Relaxed)));
        let is_ready = position + (payload as u64) < head.end.load(Relaxed)
            && head.generation.load(Relaxed) == u64::from(hit.generation);
        // A child that was forked meanwhile finds no thread.
        compiler_fence(Acquire);
        let Ok(ticks) = u32::try_from(ticks) else { return false };
        if !is_ready || head.thread.load(Relaxed) != hit.thread {
            return false;
        }
        let room = self.words.get(start..start.wrapping_add(1 + payload)).and_then(<[_]>::split_first);
        let Some((word, words)) = room else { return false };
        if !store(words) {
            return false;
        }
        word.store(event::word(probe, payload, ticks), Release);
        head.position.store(position + 1 + payload as u64, Release);
        head.written.store(head.written.load(Relaxed) + 1, Relaxed);
        true
    }

    /// Reserves room for a record with at most this many payload words. `None` if there is none:
    /// then the event is lost, and counted. If that many do not fit in a sub-buffer or in an
    /// event, the room is smaller.
    pub(super) fn reserve(
        self,
        shape: Shape,
        hit: Hit,
        payload: usize,
        identity: impl FnOnce(bool) -> Identity,
    ) -> Option<Reservation<'a>> {
        let head = self.head;
        let largest = shape.words - HEADER - 2 * CONTROL_WORDS - 1;
        let payload = (payload as u64).min(largest).min(event::PAYLOAD_MAX as u64);
        let is_same = head.thread.load(Relaxed) == hit.thread;
        // A new time and a new generation may come first.
        let wanted = 2 * CONTROL_WORDS + 1 + payload;
        if !is_same || !self.has_room(wanted) && !self.clear(shape, wanted) {
            self.advance(shape, hit, identity)?;
            self.report_late_losses(shape, hit, wanted);
            // As much as there may be: a sub-buffer has room for it.
            self.clear(shape, wanted);
        }
        if head.generation.load(Relaxed) != u64::from(hit.generation) {
            self.control(hit, &[control::GENERATION, u64::from(hit.generation)]);
            head.generation.store(u64::from(hit.generation), Relaxed);
        }
        let mut ticks = u32::try_from(hit.now.wrapping_sub(head.base.load(Relaxed)));
        if ticks.is_err() {
            self.control(hit, &[control::TIME, hit.now]);
            head.base.store(hit.now, Relaxed);
            ticks = Ok(0);
        }
        let position = head.position.load(Acquire);
        let start = at(position.wrapping_sub(head.lap.load(Acquire)));
        if self.is_fresh() {
            // This child's later hits begin the ring, whatever this one has left in the head.
            head.thread.store(0, Relaxed);
            return None;
        }
        let (event, payload) = self.words.get(start..=start + at(payload))?.split_first()?;
        Some(Reservation { payload, event, position, ticks: ticks.unwrap_or_default() })
    }

    /// Writes the record into its room, with as many payload words as were used.
    pub(super) fn commit(self, reservation: &Reservation<'_>, probe: u32, payload: usize) {
        let head = self.head;
        reservation.event.store(event::word(probe, payload, reservation.ticks), Release);
        head.position.store(reservation.position + 1 + payload as u64, Release);
        head.written.store(head.written.load(Relaxed) + 1, Relaxed);
    }

    /// Writes a time off the processor, or, for `None`, that such times are lost. A time without
    /// room is lost.
    pub(super) fn off(
        self,
        shape: Shape,
        hit: Hit,
        words: Option<[u64; off::WORDS]>,
        identity: impl FnOnce(bool) -> Identity,
    ) {
        let head = self.head;
        let is_same = head.thread.load(Relaxed) == hit.thread;
        if !is_same || !self.has_room(OFF_WORDS) && !self.clear(shape, OFF_WORDS) {
            if !self.is_next_free(shape) || self.advance(shape, hit, identity).is_none() {
                head.off_lost.store(1, Relaxed);
                return;
            }
            self.report_late_losses(shape, hit, OFF_WORDS);
            self.clear(shape, OFF_WORDS);
        }
        if words.is_none() || head.off_lost.load(Relaxed) != 0 {
            self.control(hit, &[control::OFF_LOST, 1]);
            head.off_lost.store(0, Relaxed);
        }
        if let Some([begin, end, about, name, rest, argument]) = words {
            self.control(hit, &[control::OFF, begin, end, about, name, rest, argument]);
        }
    }

    /// Writes a control record of this kind and these values; there is room.
    fn control(self, hit: Hit, words: &[u64]) {
        let position = self.head.position.load(Acquire);
        let start = at(position.wrapping_sub(self.head.lap.load(Relaxed)));
        #[expect(clippy::cast_possible_truncation, reason = "the time of a control record says nothing")]
        let ticks = hit.now.wrapping_sub(self.head.base.load(Relaxed)) as u32;
        let word = event::word(event::CONTROL, words.len(), ticks);
        let places = self.words.get(start..).unwrap_or_default();
        for (place, word) in places.iter().zip([word].iter().chain(words)) {
            self.put(place, *word, Relaxed);
        }
        self.head.position.store(position + 1 + words.len() as u64, Release);
    }

    /// Stores a word that others read. In a child that a signal handler has forked in the middle of
    /// this hit, the head is empty and the memory may be the parent's, so it stores nothing. All
    /// that the word and its place come from is loaded before.
    fn put(self, place: &AtomicU64, word: u64, order: Ordering) {
        compiler_fence(Acquire);
        if !self.is_fresh() {
            place.store(word, order);
        }
    }

    /// Begins the next sub-buffer. `None` if it is not free.
    #[cold]
    fn advance(self, shape: Shape, hit: Hit, identity: impl FnOnce(bool) -> Identity) -> Option<()> {
        let head = self.head;
        let position = head.position.load(Acquire);
        let is_first = position == 0;
        let current = position.saturating_sub(1) / shape.words;
        let next = if is_first { 0 } else { current + 1 };
        if !self.is_next_free(shape) {
            self.lose(hit);
            self.report_losses(shape);
            return None;
        }
        if !is_first {
            let used = self.header(shape, current, sub_buffer::USED);
            self.put(used, position - current * shape.words, Release);
        }
        let identity = identity(head.thread.load(Relaxed) == hit.thread);
        if let Some((tid, name)) = identity.thread {
            head.thread.store(hit.thread, Relaxed);
            head.tid.store(tid, Relaxed);
            head.name.iter().zip(name).for_each(|(place, word)| place.store(word, Relaxed));
        }
        // The clocks are read after the hit.
        let base = hit.now;
        let (read_at, width, monotonic) = identity.reading.unwrap_or_default();
        let number = |at| self.header(shape, next, at);
        self.put(number(sub_buffer::SEQUENCE), 0, Relaxed);
        fence(Release);
        let lost_now = head.lost_now.load(Relaxed);
        let gap = |at: &AtomicU64| if lost_now == 0 { 0 } else { at.load(Relaxed) };
        for (at, word) in [
            (sub_buffer::USED, 0),
            (sub_buffer::THREAD, hit.thread),
            (sub_buffer::TID, head.tid.load(Relaxed)),
            (sub_buffer::NAME, head.name[0].load(Relaxed)),
            (sub_buffer::NAME + 1, head.name[1].load(Relaxed)),
            (sub_buffer::BASE, base),
            (sub_buffer::MONOTONIC, monotonic),
            (sub_buffer::WIDTH, width),
            (sub_buffer::READ_AT, read_at),
            (sub_buffer::WRITTEN_BEFORE, head.written.load(Relaxed)),
            (sub_buffer::LOST_BEFORE, head.lost.load(Relaxed)),
            (sub_buffer::GAP_BEGIN, gap(&head.gap_begin)),
            (sub_buffer::GAP_END, gap(&head.gap_end)),
            (sub_buffer::GENERATION, u64::from(hit.generation)),
        ] {
            self.put(number(at), word, Relaxed);
        }
        let begin = next * shape.words + HEADER;
        let lap = (next - next % shape.sub_buffers) * shape.words;
        // Memory that was not used yet is zero.
        let is_clear = next < shape.sub_buffers || self.tail(shape).is_none();
        if !is_clear {
            self.put(&self.words[at(begin - lap)], 0, Relaxed);
        }
        self.put(number(sub_buffer::SEQUENCE), next + 1, Release);
        head.lost_now.store(0, Relaxed);
        head.base.store(base, Relaxed);
        head.generation.store(u64::from(hit.generation), Relaxed);
        head.lap.store(lap, Relaxed);
        head.origin.store((self.words.as_ptr().addr() as u64).wrapping_sub(8 * lap), Relaxed);
        head.end.store(if is_clear { begin - HEADER + shape.words } else { begin }, Relaxed);
        head.position.store(begin, Release);
        Some(())
    }

    /// Returns whether the sub-buffer after the current one may be begun.
    fn is_next_free(self, shape: Shape) -> bool {
        let position = self.head.position.load(Acquire);
        let next = if position == 0 { 0 } else { (position - 1) / shape.words + 1 };
        match shape.when_full {
            WhenFull::Overwrite => true,
            WhenFull::Wait => next < self.head.drained.load(Acquire) + shape.sub_buffers,
            WhenFull::Stop => next < shape.sub_buffers,
        }
    }

    fn has_room(self, words: u64) -> bool {
        self.head.end.load(Relaxed).saturating_sub(self.head.position.load(Relaxed)) >= words
    }

    /// Returns whether nobody has begun the ring in this process.
    pub(super) fn is_fresh(self) -> bool {
        self.head.is_own.load(Relaxed) == 0
    }

    /// Begins the ring, with its number in files. A child's head may have what the hit in whose
    /// middle it was forked has left there.
    pub(super) fn begin(self, number: u64) {
        let Self { head, .. } = self;
        let others = [&head.end, &head.origin, &head.base, &head.generation, &head.lap, &head.off_lost];
        let shown = head.shown().map(|(_, of)| of);
        shown.into_iter().chain(others).for_each(|of| of.store(0, Relaxed));
        self.forget_late();
        head.number.store(number, Relaxed);
        head.is_own.store(1, Relaxed);
    }

    fn header(self, shape: Shape, number: u64, word: usize) -> &'a AtomicU64 {
        &self.words[at(number % shape.sub_buffers * shape.words) + word]
    }

    /// Returns whether a record was written in this process.
    pub(super) fn has_begun(self) -> bool {
        self.head.position.load(Acquire) != 0 && !self.is_fresh()
    }

    /// Returns the number of the thread that has begun the current sub-buffer.
    pub(super) fn thread(self) -> u64 {
        self.head.thread.load(Relaxed)
    }

    pub(super) fn number(self) -> u64 {
        self.head.number.load(Relaxed)
    }

    pub(super) fn drained(self) -> u64 {
        self.head.drained.load(Relaxed)
    }

    /// Gives sub-buffers below this number back to the thread.
    pub(super) fn set_drained(self, number: u64) {
        self.head.drained.store(number, Release);
    }

    /// Returns the events that were written, and those that were lost.
    pub(super) fn totals(self) -> (u64, u64) {
        (self.head.written.load(Relaxed), self.head.lost.load(Relaxed))
    }
}

/// Accounts of events that found no room.
impl Ring<'_> {
    /// Counts a lost event.
    fn lose(self, hit: Hit) {
        let head = self.head;
        if head.thread.load(Relaxed) != hit.thread {
            return self.lose_late(hit);
        }
        let lost_now = head.lost_now.load(Relaxed);
        if lost_now == 0 {
            head.gap_begin.store(hit.now, Relaxed);
        }
        head.gap_end.store(hit.now, Relaxed);
        // The next event begins a sub-buffer, so that lost events lie between two of them.
        head.end.store(head.position.load(Relaxed), Relaxed);
        head.lost_now.store(lost_now + 1, Relaxed);
        head.lost.store(head.lost.load(Relaxed) + 1, Relaxed);
    }

    fn lose_late(self, hit: Hit) {
        let LateLosses { thread, lost, begin, end } = &self.head.late;
        if thread.load(Relaxed) != hit.thread {
            self.give_up_late();
            thread.store(hit.thread, Relaxed);
        }
        if lost.load(Relaxed) == 0 {
            begin.store(hit.now, Relaxed);
        }
        end.store(hit.now, Relaxed);
        lost.store(lost.load(Relaxed) + 1, Relaxed);
    }

    /// Tells the late events of this thread in its first sub-buffer, where there is room besides
    /// for this many words.
    fn report_late_losses(self, shape: Shape, hit: Hit, wanted: u64) {
        let LateLosses { thread, lost, begin, end } = &self.head.late;
        let told = [lost, begin, end].map(|it| it.load(Relaxed));
        if told[0] == 0 {
            return;
        }
        let wanted = wanted + GAP_WORDS;
        if thread.load(Relaxed) == hit.thread && (self.has_room(wanted) || self.clear(shape, wanted)) {
            self.control(hit, &[control::GAP, told[0], told[1], told[2]]);
            lost.store(0, Relaxed);
            self.head.lost.store(self.head.lost.load(Relaxed) + told[0], Relaxed);
        } else {
            self.give_up_late();
        }
    }

    /// Forgets what another process has lost.
    fn forget_late(self) {
        let LateLosses { thread, lost, begin, end } = &self.head.late;
        [thread, lost, begin, end, &self.head.ringless].into_iter().for_each(|of| of.store(0, Relaxed));
    }

    fn give_up_late(self) {
        let Self { head, .. } = self;
        head.ringless.store(self.ringless(), Relaxed);
        head.late.lost.store(0, Relaxed);
    }

    /// Returns the events of threads that came while the ring was full, and got no room yet.
    pub(super) fn ringless(self) -> u64 {
        self.head.ringless.load(Relaxed) + self.head.late.lost.load(Relaxed)
    }
}

/// A ring that lies in a mapped file.
impl<'a> Ring<'a> {
    /// Clears the words behind those that are clear, where readers look for the first zero. Returns
    /// whether the sub-buffer has so much room.
    #[cold]
    fn clear(self, shape: Shape, wanted: u64) -> bool {
        let head = self.head;
        let (position, end) = (head.position.load(Acquire), head.end.load(Acquire));
        // After a lost event, another sub-buffer begins.
        if self.tail(shape).is_none() || head.lost_now.load(Relaxed) != 0 || position == 0 {
            return false;
        }
        let limit = (position - 1) / shape.words * shape.words + shape.words;
        if limit - position < wanted {
            return false;
        }
        // The word behind the last event of the cleared part stays zero.
        let until = limit.min((position + wanted).max(end + CLEARED) + 1);
        let lap = head.lap.load(Relaxed);
        let words = self.words.get(at(end.wrapping_sub(lap))..at(until - lap)).unwrap_or_default();
        words.iter().for_each(|word| self.put(word, 0, Relaxed));
        head.end.store(if until == limit { limit } else { until - 1 }, Relaxed);
        true
    }

    /// Returns the words behind the sub-buffers; `None` if the memory is no file's.
    fn tail(self, shape: Shape) -> Option<&'a [AtomicU64; ring::WORDS]> {
        self.words.get(at(shape.sub_buffers * shape.words)..)?.first_chunk()
    }

    /// Tells the losses to the file that the ring lies in.
    fn report_losses(self, shape: Shape) {
        let Some(tail) = self.tail(shape) else { return };
        let words = self.head_words();
        let parts = [ring::THREAD, ring::TID, ring::GAP_BEGIN, ring::GAP_END, ring::LOST_NOW];
        parts.into_iter().for_each(|at| self.put(&tail[at], words[at], Relaxed));
        self.put(&tail[ring::LOST], words[ring::LOST], Release);
    }

    /// Tells the whole head to the file that the ring lies in, once no thread writes any more.
    pub(super) fn close(self, shape: Shape) {
        let Some(tail) = self.tail(shape) else { return };
        tail.iter().zip(self.head_words()).for_each(|(at, word)| at.store(word, Relaxed));
    }

    /// Returns the ring's head as files have it.
    pub(super) fn head_words(self) -> [u64; ring::WORDS] {
        let mut words = [0; ring::WORDS];
        self.head.shown().into_iter().for_each(|(at, of)| words[at] = of.load(Relaxed));
        words
    }
}

/// Copies of sub-buffers, which other threads take while the ring's own writes.
impl Ring<'_> {
    /// Returns the numbers of the sub-buffers that the ring may hold, the current one last.
    pub(super) fn numbers(self, shape: Shape) -> std::ops::Range<u64> {
        let position = self.head.position.load(Acquire);
        let end = position.div_ceil(shape.words);
        end.saturating_sub(shape.sub_buffers)..end
    }

    /// Copies the used words of a sub-buffer, in place of those in `copy`. `None` if its thread has
    /// begun to write a later one there, or has not begun this one.
    pub(super) fn copy(self, shape: Shape, number: u64, copy: &mut Vec<u64>) -> Option<()> {
        let sequence = self.header(shape, number, sub_buffer::SEQUENCE);
        if sequence.load(Acquire) != number + 1 {
            return None;
        }
        let used = self.used(shape, number)?;
        let start = at(number % shape.sub_buffers * shape.words);
        let words = self.words.get(start..start + at(used))?;
        copy.clear();
        copy.extend(words.iter().map(|word| word.load(Relaxed)));
        fence(Acquire);
        if sequence.load(Relaxed) != number + 1 {
            return None;
        }
        *copy.get_mut(sub_buffer::USED)? = used;
        Some(())
    }

    /// Adds the words of a sub-buffer from `words.len()` on that are whole records by now. Its
    /// thread must not begin to write a later one there.
    pub(super) fn extend(self, shape: Shape, number: u64, words: &mut Vec<u64>) {
        if self.header(shape, number, sub_buffer::SEQUENCE).load(Acquire) != number + 1 {
            return;
        }
        let Some(used) = self.used(shape, number) else { return };
        let start = at(number % shape.sub_buffers * shape.words);
        let new = self.words.get(start + words.len()..start + at(used)).unwrap_or_default();
        words.extend(new.iter().map(|word| word.load(Relaxed)));
    }

    /// Returns the number of words that a sub-buffer uses.
    fn used(self, shape: Shape, number: u64) -> Option<u64> {
        let position = self.head.position.load(Acquire);
        let used = match self.header(shape, number, sub_buffer::USED).load(Acquire) {
            0 => position.saturating_sub(number * shape.words).min(shape.words),
            used => used,
        };
        (HEADER..=shape.words).contains(&used).then_some(used)
    }

    /// Returns the events before a sub-buffer that was not drained, or that has not begun.
    pub(super) fn before(self, shape: Shape, number: u64) -> u64 {
        // All that is there unless the sub-buffer has begun.
        let written = self.head.written.load(Acquire);
        let header = |word| self.header(shape, number, word);
        if header(sub_buffer::SEQUENCE).load(Acquire) == number + 1 {
            header(sub_buffer::WRITTEN_BEFORE).load(Relaxed)
        } else {
            written
        }
    }

    /// Returns whether the thread has left this sub-buffer, or filled it.
    pub(super) fn is_whole(self, shape: Shape, number: u64) -> bool {
        self.head.position.load(Acquire) >= (number + 1) * shape.words
    }
}

/// A number of words as an index; all memory can be addressed.
#[expect(clippy::cast_possible_truncation, reason = "an index into memory")]
#[inline(always)]
fn at(words: u64) -> usize {
    words as usize
}

// By its path, since `interleavings` reads this file once more.
#[cfg(all(test, not(loom)))]
#[path = "ring/tests.rs"]
mod tests;
