//! The layout of a trace file, which writers and readers share. All numbers are 64-bit words,
//! little-endian; offsets are in words unless they are said to be in bytes.
//!
//! ```text
//! file    = header, blocks
//! block   = block header, payload, padded to a word
//! sub-buffer = header, records
//! record  = event word, payload words
//! ```
//! A thread writes its events to a ring of sub-buffers in memory, which it uses in turn: number n
//! lies at n modulo their count. A block holds a copy of one. So a file that ends too soon, because
//! its process was killed or its disk was full, ends in at most one block that is not whole.
//!
//! The rings may also lie in the file itself, in a block [`RINGS`](block::RINGS) that the process
//! has mapped. Such a file is readable at any moment, also in the middle of a store.
//!
//! A new [`VERSION`] is for what earlier readers would misread. Without one, a later writer may add
//! kinds of blocks, of control records and of probes, types of fields, flags that change no
//! payload, and words at the end of blocks that are no sub-buffers: readers skip these, or hand
//! them out as unknown.

/// The first word of a file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"probetrc");
/// The version of the layout that this crate reads.
pub const VERSION: u64 = 1;
/// Bytes of a file's header, with its unused part.
pub const HEADER_BYTES: usize = 512;

/// Words of the file's header.
pub mod header {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: usize = 1;
    /// Id of the process.
    pub const PROCESS: usize = 2;
    /// One of [`state`](super::state).
    pub const STATE: usize = 3;
    /// Number of sub-buffers of a ring.
    pub const SUB_BUFFERS: usize = 4;
    /// Words of a sub-buffer, with its header.
    pub const SUB_BUFFER_WORDS: usize = 5;
    /// One of [`policy`](super::policy).
    pub const POLICY: usize = 6;
    /// The system's boot id, two words; zero if it is not known.
    pub const BOOT: usize = 7;
    /// The first [reading](super::reading) of all clocks, five words.
    pub const READING: usize = 9;
    /// Number of words in use.
    pub const WORDS: usize = 14;
}

/// A file's states.
pub mod state {
    /// The process may still write.
    pub const OPEN: u64 = 0;
    /// The process has written everything, and its totals.
    pub const CLOSED: u64 = 1;
    /// The file had to end before the trace: its disk was full, or it could grow no further. It has
    /// its totals, in which all other events are lost. Its last [heads](super::ring) and unseen
    /// events may stand ahead of earlier ones.
    pub const CUT: u64 = 2;
}

/// Policies for a ring that is full.
pub mod policy {
    /// A thread copies full sub-buffers to the file; events that find none free are lost.
    pub const DRAIN: u64 = 1;
    /// Events that come later are lost.
    pub const STOP: u64 = 2;
    /// Events that come later replace the oldest.
    pub const OVERWRITE: u64 = 3;
}

/// Words of a reading of all clocks at one moment. Time stamps are ticks of any clock, whose rate
/// the readings tell.
pub mod reading {
    /// Time stamp at the middle of the reading.
    pub const TICKS: usize = 0;
    /// Ticks that the reading took.
    pub const WIDTH: usize = 1;
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub const MONOTONIC: usize = 2;
    /// `CLOCK_REALTIME` in nanoseconds.
    pub const REAL: usize = 3;
    /// `CLOCK_BOOTTIME` in nanoseconds, which continues while the machine sleeps.
    pub const BOOT: usize = 4;
    /// Number of words.
    pub const WORDS: usize = 5;
}

/// Words of a ring's head, as it was when its last sub-buffer was copied.
pub mod ring {
    /// Words written since the ring began, headers of sub-buffers and skipped ends included. The
    /// position divided by the words of a sub-buffer is the number of the current sub-buffer; the
    /// remainder is the number of its words in use.
    pub const POSITION: usize = 0;
    /// Events written.
    pub const WRITTEN: usize = 1;
    /// Events lost, in all.
    pub const LOST: usize = 2;
    /// Events lost since the current sub-buffer began.
    pub const LOST_NOW: usize = 3;
    /// Time stamp of the first of these.
    pub const GAP_BEGIN: usize = 4;
    /// Time stamp of the last of these.
    pub const GAP_END: usize = 5;
    /// Number of sub-buffers that were copied to blocks.
    pub const DRAINED: usize = 6;
    /// The thread's number in its process.
    pub const THREAD: usize = 7;
    /// The system's id of the thread.
    pub const TID: usize = 8;
    /// The thread's name, 16 bytes padded with zeros.
    pub const NAME: usize = 9;
    /// Number of words.
    pub const WORDS: usize = 16;
}

/// Words of a sub-buffer's header.
pub mod sub_buffer {
    /// The sub-buffer's number in its ring, plus one; zero while the header is being written. A
    /// reader that copies a sub-buffer compares this before and after.
    pub const SEQUENCE: usize = 0;
    /// Words in use, this header included; zero while it is the current one. In a mapped file the
    /// words in use then end before the first event word that is zero.
    pub const USED: usize = 1;
    /// The thread's number in its process.
    pub const THREAD: usize = 2;
    /// The system's id of the thread.
    pub const TID: usize = 3;
    /// The thread's name, 16 bytes padded with zeros.
    pub const NAME: usize = 4;
    /// Time stamp from which the records' stamps count.
    pub const BASE: usize = 6;
    /// `CLOCK_MONOTONIC` in nanoseconds, at the time stamp [`READ_AT`]; zero if it was not read.
    pub const MONOTONIC: usize = 7;
    /// Ticks that this reading took.
    pub const WIDTH: usize = 8;
    /// Events that the ring's threads wrote before this sub-buffer.
    pub const WRITTEN_BEFORE: usize = 9;
    /// Events that they lost before this sub-buffer.
    pub const LOST_BEFORE: usize = 10;
    /// Time stamp of the first event lost directly before this sub-buffer; zero if none was. These
    /// events are of the thread that the sub-buffer before has.
    pub const GAP_BEGIN: usize = 11;
    /// Time stamp of the last event lost directly before this sub-buffer.
    pub const GAP_END: usize = 12;
    /// The [generation](super::control::GENERATION) at the beginning.
    pub const GENERATION: usize = 13;
    /// Time stamp at the middle of the reading of [`MONOTONIC`].
    pub const READ_AT: usize = 14;
    /// Number of words.
    pub const WORDS: usize = 16;
}

/// Bits of an event word: from the lowest, the ticks since the base, the number of payload words,
/// the probe's number, which is at least 1. So no event word is zero.
pub mod event {
    /// Bits of the ticks since the base: the sub-buffer's, or that of the last
    /// [time record](super::control::TIME).
    pub const TICKS_BITS: u32 = 32;
    /// Bits of the number of payload words.
    pub const PAYLOAD_BITS: u32 = 10;
    /// Bits of the probe's number.
    pub const PROBE_BITS: u32 = 22;
    /// Largest number of payload words.
    pub const PAYLOAD_MAX: usize = (1 << PAYLOAD_BITS) - 1;
    /// In place of a probe's number, marks a record of [`control`](super::control).
    pub const CONTROL: u32 = (1 << PROBE_BITS) - 1;

    /// Returns the event word.
    ///
    /// ```
    /// use probe_trace::layout::event;
    /// let word = event::word(7, 2, 1000);
    /// assert_eq!((event::probe(word), event::payload(word), event::ticks(word)), (7, 2, 1000));
    /// ```
    #[inline(always)]
    pub const fn word(probe: u32, payload: usize, ticks: u32) -> u64 {
        (probe as u64) << (TICKS_BITS + PAYLOAD_BITS) | (payload as u64) << TICKS_BITS | ticks as u64
    }

    /// Returns the probe's number.
    pub const fn probe(word: u64) -> u32 {
        (word >> (TICKS_BITS + PAYLOAD_BITS)) as u32
    }

    /// Returns the number of payload words.
    pub const fn payload(word: u64) -> usize {
        (word >> TICKS_BITS) as usize & PAYLOAD_MAX
    }

    /// Returns the ticks since the base.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn ticks(word: u64) -> u32 {
        word as u32
    }
}

/// Records that are no events. The first payload word says which; the second is its value.
pub mod control {
    /// Value: a time stamp from which the later records of this sub-buffer count.
    pub const TIME: u64 = 1;
    /// Value: the number of the period in which sites were not switched. Calls are paired only
    /// within one: an entry or exit between two may be missing.
    pub const GENERATION: u64 = 2;
    /// Values: the number of events that the thread lost before it had this sub-buffer, its first
    /// one of the ring, and the time stamps of the first and the last of them.
    pub const GAP: u64 = 3;
    /// Values: the words of [`off`](super::off), a time of the thread off the processor.
    pub const OFF: u64 = 4;
    /// Value: 1. There were such times since the record before that are not known.
    pub const OFF_LOST: u64 = 5;
}

/// A time in which a thread was off the processor.
pub mod off {
    /// `CLOCK_MONOTONIC` in nanoseconds at the begin.
    pub const BEGIN: usize = 0;
    /// The same at the end; zero if the thread is still off.
    pub const END: usize = 1;
    /// From the lowest bit: [`READY`], [`ENDED`], [`LOST`], [`POLLED`], zeros up to bit 7. Then the
    /// processors' numbers: 24 bits of that before, 32 of that after.
    pub const ABOUT: usize = 2;
    /// The system call in which a reader of `/proc` found the thread: the first 16 bytes of its
    /// name, filled up with zeros. Zero if it was not found in this time.
    pub const CALL: usize = 3;
    /// The first argument of that call.
    pub const ARGUMENT: usize = 5;
    /// Number of words.
    pub const WORDS: usize = 6;

    /// The thread could have continued: other threads had the processor.
    pub const READY: u64 = 1;
    /// The thread has ended.
    pub const ENDED: u64 = 2;
    /// No time off the processor, but times that are lost, up to the next one. [`BEGIN`] is when a
    /// reader has found that.
    pub const LOST: u64 = 4;
    /// The time is that from one look into `/proc` to another.
    pub const POLLED: u64 = 8;

    /// Returns the word [`ABOUT`].
    ///
    /// ```
    /// use probe_trace::layout::off;
    /// let word = off::about(off::READY, [3, 4]);
    /// assert_eq!((word & off::READY, off::processors(word)), (off::READY, [3, 4]));
    /// ```
    pub const fn about(flags: u64, [before, after]: [u32; 2]) -> u64 {
        flags | (before as u64 & 0xff_ffff) << 8 | (after as u64) << 32
    }

    /// Returns the processors before and after.
    #[expect(clippy::cast_possible_truncation, reason = "parts of the word")]
    pub const fn processors(about: u64) -> [u32; 2] {
        [(about >> 8) as u32 & 0xff_ffff, (about >> 32) as u32]
    }
}

/// An event's payload: the stack pointer, if the definition has [`flag::FRAME`]; then, if the
/// definition has fields, a byte of type for each, padded to a word; then the fields' values.
///
/// | type | value |
/// |---|---|
/// | [`U64`](field::U64), [`I64`](field::I64), [`F64`](field::F64), [`BOOL`](field::BOOL), [`CHAR`](field::CHAR) | a word |
/// | [`U128`](field::U128), [`I128`](field::I128) | two words, the lower one first |
/// | [`STR`](field::STR), [`BYTES`](field::BYTES), [`FORMATTED`](field::FORMATTED), [`OPAQUE`](field::OPAQUE) | a word with the stored bytes in its lower half and the bytes before cutting in its upper half (at most `u32::MAX`); then the stored bytes, padded to a word |
/// | [`STACK`](field::STACK) | the number of a stack, which a block [`STACKS`](block::STACKS) has |
/// | [`ABSENT`](field::ABSENT), [`FAILED`](field::FAILED), [`UNKNOWN`](field::UNKNOWN), [`LEFT_OUT`](field::LEFT_OUT), [`UNREADABLE`](field::UNREADABLE) | none |
///
/// Values that did not fit in the record have the type [`LEFT_OUT`](field::LEFT_OUT). Readers can't
/// skip a value of an unknown type: they report it, and the later values of its record, as unknown.
pub mod field {
    /// An unsigned integer.
    pub const U64: u8 = 1;
    /// A signed integer.
    pub const I64: u8 = 2;
    /// An unsigned integer of 128 bits.
    pub const U128: u8 = 3;
    /// A signed integer of 128 bits.
    pub const I128: u8 = 4;
    /// A floating-point number.
    pub const F64: u8 = 5;
    /// A truth value.
    pub const BOOL: u8 = 6;
    /// A Unicode scalar value.
    pub const CHAR: u8 = 7;
    /// UTF-8 text. Where it is cut, the last character may be incomplete.
    pub const STR: u8 = 8;
    /// Bytes.
    pub const BYTES: u8 = 9;
    /// UTF-8 text that the value's own code wrote.
    pub const FORMATTED: u8 = 10;
    /// No value: the result of a function that was left by a panic.
    pub const ABSENT: u8 = 12;
    /// No value, but the name of its type.
    pub const OPAQUE: u8 = 13;
    /// No value: a field of the hit panicked while it was evaluated.
    pub const FAILED: u8 = 14;
    /// A value of a type that the writer did not know.
    pub const UNKNOWN: u8 = 15;
    /// A value for which the record had no room.
    pub const LEFT_OUT: u8 = 16;
    /// No value: a string of C whose bytes can't be read.
    pub const UNREADABLE: u8 = 17;
    /// The calls that led to the hit.
    pub const STACK: u8 = 18;
}

/// Blocks, each with a header of four words.
pub mod block {
    /// The first word of a block.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"probeblk");
    /// Word of the block's header: [`MAGIC`].
    pub const MAGIC_AT: usize = 0;
    /// Word of the block's header: the kind of its content, a number below. Readers skip others.
    pub const KIND_AT: usize = 1;
    /// Word of the block's header: bytes of its payload, without padding.
    pub const BYTES_AT: usize = 2;
    /// Word of the block's header: the ring's number, for [`SUB_BUFFER`], [`RING`] and [`OFF`].
    pub const RING_AT: usize = 3;
    /// Words of the block's header.
    pub const WORDS: usize = 4;

    /// Definitions of probes, one after the other, each padded to a word: the probe's number
    /// (`u32`), its kind (`u8`, as [`Kind`](crate::Kind)), its [`flag`](super::flag)s (`u8`), the
    /// number of its fields (`u16`), its line (`u32`), then its path, its file and the names of its
    /// fields, each as its length in bytes (`u32`) and its bytes.
    pub const DEFINITIONS: u64 = 1;
    /// A [`reading`](super::reading) of all clocks.
    pub const READING: u64 = 2;
    /// A sub-buffer: its words in use.
    pub const SUB_BUFFER: u64 = 3;
    /// A ring's head, as it was when the file was closed.
    pub const RING: u64 = 4;
    /// Events that no ring has seen, two words: those of threads for which there was no ring, or
    /// only one that an earlier thread had left full; and those that were hit inside of another
    /// hit.
    pub const UNSEEN: u64 = 5;
    /// The program's name, as text.
    pub const PROGRAM: u64 = 6;
    /// The memory of rings, which their threads write as long as the file is open. Word
    /// [`RING_AT`] has the bytes of one ring's memory: its sub-buffers, in turn; then a ring's
    /// [head](super::ring), which has the thread and the losses alone until the file is closed;
    /// then nothing. The number of a ring is its place. A ring whose sub-buffers all have the
    /// sequence zero was never begun.
    pub const RINGS: u64 = 7;
    /// Room for blocks that are written later. The writer cuts it for each.
    pub const UNUSED: u64 = 8;

    /// Times off the processor after the last hit of a ring's thread. First its number in its
    /// process, then the words of [`off`](super::off) for each.
    pub const OFF: u64 = 9;

    /// Stacks of calls, by the numbers that events have; those of later blocks replace others.
    /// First the number of names in a word, and the names, each as its length in bytes (`u32`) and
    /// its bytes, all of them padded to a word. Then for each stack its number, its calls' number,
    /// and for each call, from the innermost, which name it has, from 0.
    pub const STACKS: u64 = 10;

    /// The most bytes of definitions or stacks in a block, enough for a million probes. Readers
    /// refuse larger blocks.
    pub const MOST_DEFINITIONS: u64 = 1 << 28;

    /// The most words of times off the processor in a block: the writer has read them from 64 KiB
    /// of the kernel's memory at most. Readers refuse larger blocks.
    pub const MOST_OFF_WORDS: u64 = 1 << 15;
}

/// Flags of a definition.
pub mod flag {
    /// Payloads begin with the stack pointer, because calls may end without an exit.
    pub const FRAME: u8 = 1;
    /// The first field tells futures of this probe apart.
    pub const FUTURE: u8 = 2;
    /// With [`FRAME`]: all hits of a call have one stack pointer, which no other open call has.
    pub const OWN_FRAME: u8 = 4;
}
