//! Rings in a mapped file, which is readable after the process was killed.
//!
//! Life: attaching makes the file, with everything but the rings' content, and maps it ▸ threads
//! write their rings, and the kernel keeps each store, however the process ends ▸ the end of the
//! attachment writes the totals, and gives unused room back. The definitions of probes that join
//! come into room in front of the rings ([`DefinitionRoom`]). A forked child has a file of its own
//! from the first hit of one of its threads on. If that can't be made, its rings are private
//! memory.
//!
//! A ring's head is private memory, which is empty in a child. So each thread of a child begins its
//! ring anew, and no hit that begins in a child reaches its parent's file. A hit that a signal
//! handler interrupted, and in which that forked, ends in both processes. Of its stores in the
//! child, only those go to the parent's file that the parent makes, too: it looks at the head after
//! it has loaded all that a store depends on. If the handler stays in the child until the parent
//! has come to the same part of its ring again, such a store can replace words of a later record
//! there. A check before each word would cost each hit.

// Safety: relies on memory of `os::mapped_file`, which is zeroed at first and stays mapped as long
// as the `RingFile`.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::{CStr, CString};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize, fence};
use std::{io, process, ptr, slice, thread};

use probe_trace::layout::{block, header, reading, ring, state};

use super::definitions::{DefinitionRoom, header as unused_header};
use super::file::{ClockReading, TraceFile, TraceHeader, at, words_of};
use super::file_name::FileName;
use super::ring::Head;
use crate::engine::clock::Clock;
use crate::engine::error::Error;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::mapped_file::{self, FileId, KeptErrno, MappedFile, NewFile, PartSizes};
use crate::engine::os::signal_mask::{SignalsBlocked, without_write_signals};
use crate::engine::per_thread::{PerThread, ThreadMemory};
use crate::report::file::replace;

pub(super) struct RingFile {
    memory: MappedFile,
    name: FileName,
    /// The file of the process that attached.
    parent: FileId,
    /// The content before the rings, which is private: a child has its own.
    front: Box<[AtomicU64]>,
    /// Places of blocks that are written at the end, in words.
    unseen: usize,
    reading: usize,
    /// The place of the room for later definitions, in words. It ends where the rings' block
    /// begins.
    later: usize,
    /// Bytes of one ring's memory.
    stride: usize,
    count: usize,
}

/// The state of this process, which is zero in a child.
#[repr(C)]
struct Control {
    state: AtomicU64,
    /// The error that keeps a child from having a file.
    error: AtomicU64,
    /// Hits of the parent that no ring has: those without a ring, and those inside of others.
    inherited: [AtomicU64; 2],
    file: [AtomicU64; 2],
}

/// Bytes for the definition of a probe that may join.
const DEFINITION: usize = 128;

/// Nothing was written yet in this process, a child.
const NEW: u64 = 0;
/// A thread makes the file.
const MAKING: u64 = 1;
const IN_FILE: u64 = 2;
const IN_MEMORY: u64 = 3;
/// There is no memory either.
const NOWHERE: u64 = 4;

impl RingFile {
    /// Makes the file, for this many rings and for the definitions of this many probes that may
    /// join, and replaces one of this name.
    pub(super) fn create(
        path: &Path,
        about: &TraceHeader<'_>,
        count: usize,
        joining: usize,
    ) -> Result<Self, Error> {
        // Opening and writing are cancellation points.
        let _whole = Uncancellable::new();
        Self::make(path, about, count, joining).map_err(|error| at(path, &error))
    }

    fn make(path: &Path, about: &TraceHeader<'_>, count: usize, joining: usize) -> io::Result<Self> {
        let name = FileName::new(path)?;
        let own = name.path(process::id(), false);
        if fs::metadata(&own).is_ok_and(|it| !it.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "only regular files can hold rings"));
        }
        let page = mapped_file::page_size();
        let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
        let words = about.shape.sub_buffers * about.shape.words + ring::WORDS as u64;
        let stride = usize::try_from(words * 8).map_err(|_| too_large())?.next_multiple_of(page);
        let rings = stride.checked_mul(count).ok_or_else(too_large)?;
        let (front, [unseen, reading, later]) = front(about, [stride, rings, page], joining)?;
        let first = size_of_val(&*front);
        let all = rings.checked_add(first).ok_or_else(too_large)?;
        let parts = PartSizes { first, other: stride, all };
        let memory = MappedFile::new(page + rings, parts)?;
        let parent = FileId::default();
        let mut file = Self { memory, name, parent, front, unseen, reading, later, stride, count };
        // A process that has mapped a file of this name keeps it.
        file.parent = replace(&own, |beside| {
            let beside = CString::new(&*beside.to_string_lossy())?;
            file.write(&beside, None).map_err(io::Error::from_raw_os_error)
        })?;
        file.note(file.parent);
        file.control().state.store(IN_FILE, Release);
        Ok(file)
    }

    /// Writes a new file, with the front of this process, and maps it. If it fails, it leaves no
    /// file behind.
    fn write(&self, path: &CStr, began: Option<ClockReading>) -> Result<FileId, i32> {
        let file = NewFile::create(path)?;
        self.fill(&file, began).inspect_err(|_| mapped_file::remove(path))?;
        Ok(file.id())
    }

    fn fill(&self, file: &NewFile, began: Option<ClockReading>) -> Result<(), i32> {
        file.reserve(self.bytes() + self.stride * self.count)?;
        let (head, later) = (self.front.len() - block::WORDS, self.definition_room(&self.front));
        let unused = self.later + later.unused();
        file.write_words(&self.front[..unused], 0)?;
        // Another thread may have been in the middle of an addition when this process was forked.
        for (word, at) in unused_header(head - unused - block::WORDS).into_iter().zip(unused..) {
            file.write(&word.to_le_bytes(), at * 8)?;
        }
        file.write_words(&self.front[head..], head * 8)?;
        if let Some(began) = began {
            file.write(&u64::from(process::id()).to_le_bytes(), header::PROCESS * 8)?;
            for (word, at) in words_of(began).into_iter().zip(header::READING..) {
                file.write(&word.to_le_bytes(), at * 8)?;
            }
        }
        self.memory.put(file)
    }

    /// Returns the rings, of this many words each. They are dropped before the file.
    pub(super) fn rings(&self, words: usize) -> Result<PerThread<Head, AtomicU64>, Error> {
        assert!(words * 8 <= self.stride, "it was made for them");
        let memory = ThreadMemory {
            heads: self.memory.private_start() + mapped_file::page_size(),
            parts: self.memory.shared_start() + self.bytes(),
            stride: self.stride,
            count: self.count,
            taken: AtomicUsize::new(0),
        };
        // SAFETY: a new file's memory is zeroed, and so are heads. There is room for `count` of
        // both: a head fits in half of a page, and a page is the least stride.
        unsafe { PerThread::in_memory(words, memory) }
    }

    /// Makes sure that there is memory for the rings of this process, before it counts a hit.
    /// Returns whether there is some. Only a child's first hits do anything.
    /// `inherited` counts hits that no ring has.
    pub(super) fn ensure_memory(&self, clock: Clock, inherited: impl Fn() -> [u64; 2]) -> bool {
        let control = self.control();
        loop {
            match control.state.load(Acquire) {
                NEW if control.state.compare_exchange(NEW, MAKING, AcqRel, Relaxed).is_ok() => {
                    let (_errno, _whole) = (KeptErrno::new(), Uncancellable::new());
                    // See `define`.
                    fence(SeqCst);
                    control.inherited.iter().zip(inherited()).for_each(|(at, hits)| at.store(hits, Relaxed));
                    control.state.store(self.begin_in_child(clock), Release);
                }
                NEW => (),
                // Another thread of the child is about to have a file.
                MAKING => thread::yield_now(),
                state => return state != NOWHERE,
            }
        }
    }

    /// Adds the definitions of probes that join, for the file of this process and of its children.
    /// Returns whether there was room. One thread at a time may call this, outside of hits.
    pub(super) fn define(&self, definitions: &[u8]) -> bool {
        // A handler that forks has a child that would store into the file of this process.
        let _masked = SignalsBlocked::new();
        let own = self.definition_room(&self.front);
        let Some(at) = own.place(definitions) else { return false };
        own.put(at, definitions);
        // The thread that makes a child's file finds these stores, or this one sees its state.
        fence(SeqCst);
        loop {
            match self.control().state.load(Acquire) {
                MAKING => thread::yield_now(),
                IN_FILE => {
                    self.definition_room(self.words()).put(at, definitions);
                    return true;
                }
                _ => return true,
            }
        }
    }

    fn definition_room<'a>(&self, front: &'a [AtomicU64]) -> DefinitionRoom<'a> {
        DefinitionRoom(&front[self.later..front.len() - block::WORDS])
    }

    /// Returns the bytes before the rings.
    fn bytes(&self) -> usize {
        size_of_val(&*self.front)
    }

    /// Returns whether [`ensure_memory`](Self::ensure_memory) has ended in this process.
    pub(super) fn has_memory(&self) -> bool {
        self.control().state.load(Acquire) != NEW
    }

    fn begin_in_child(&self, clock: Clock) -> u64 {
        let made = self.name.in_place(process::id(), true).ok_or(mapped_file::TOO_LONG).and_then(|path| {
            let path = path.as_c_str();
            // A child may have its parent's id, where each is the first process of its namespace.
            if mapped_file::id(path) != Some(self.parent) {
                mapped_file::remove(path);
            }
            self.write(path, Some(ClockReading::now(clock)))
        });
        match made {
            Ok(id) => {
                self.note(id);
                IN_FILE
            }
            Err(error) => {
                self.control().error.store(error.unsigned_abs().into(), Relaxed);
                if self.memory.put_private().is_ok() { IN_MEMORY } else { NOWHERE }
            }
        }
    }

    /// Returns the hits of the parent that no ring has. `None` in a child that has no memory
    /// for rings yet.
    pub(super) fn inherited(&self) -> Option<[u64; 2]> {
        let control = self.control();
        let is_known = ![NEW, MAKING].contains(&control.state.load(Acquire));
        is_known.then(|| control.inherited.each_ref().map(|hits| hits.load(Relaxed)))
    }

    /// Returns the file of this process; `None` if its rings are private memory, or not begun.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let is_in_file = self.control().state.load(Acquire) == IN_FILE;
        is_in_file.then(|| self.name.path(process::id(), self.is_child()))
    }

    fn is_child(&self) -> bool {
        let own = self.control().file.each_ref().map(|word| word.load(Relaxed));
        FileId(own) != self.parent
    }

    /// Returns a line about the reason why events are not in the file.
    pub(super) fn problem(&self) -> Option<String> {
        let error = i32::try_from(self.control().error.load(Relaxed)).unwrap_or_default();
        if error != 0 {
            let path = self.name.path(process::id(), true);
            let why = io::Error::from_raw_os_error(error);
            return Some(format!("{} can't be made, so the events are in memory: {why}", path.display()));
        }
        let path = self.path().filter(|_| self.memory.is_cut_off())?;
        Some(format!("another program has cut {} off; the events behind its end are lost", path.display()))
    }

    /// Writes the totals, and gives back the room of rings that nobody has used. No thread writes
    /// any more.
    ///
    /// # Errors
    /// If another program has cut the file off.
    pub(super) fn finish(&self, unseen: [u64; 2], now: ClockReading, used: u64) -> Result<(), Error> {
        let Some(path) = self.path() else { return Ok(()) };
        if let Some(problem) = self.problem() {
            return Err(Error::Consumer(problem.into()));
        }
        let (front, bytes) = (self.words(), used * self.stride as u64);
        if front[header::STATE].load(Relaxed) == state::CLOSED {
            return Ok(());
        }
        let rings = front.len() - block::WORDS;
        for (begin, kind, words) in
            [(self.unseen, block::UNSEEN, &unseen[..]), (self.reading, block::READING, &words_of(now)[..])]
        {
            let content = &front[begin + block::WORDS..];
            content.iter().zip(words).for_each(|(at, word)| at.store(*word, Relaxed));
            front[begin + block::KIND_AT].store(kind, Release);
        }
        front[rings + block::BYTES_AT].store(bytes, Release);
        front[header::STATE].store(state::CLOSED, Release);
        // The stores above may have been the first to notice.
        if let Some(problem) = self.problem() {
            return Err(Error::Consumer(problem.into()));
        }
        let known = FileId(self.control().file.each_ref().map(|word| word.load(Relaxed)));
        let now = self.name.in_place(process::id(), self.is_child());
        // Somebody may have moved it, or made it read-only; it is whole in any case.
        if now.and_then(|path| mapped_file::id(path.as_c_str())) == Some(known) {
            let file = OpenOptions::new().write(true).open(path);
            let length = self.bytes() as u64 + bytes;
            let _ = file.and_then(|file| without_write_signals(|| file.set_len(length)));
        }
        Ok(())
    }

    fn note(&self, FileId(id): FileId) {
        self.control().file.iter().zip(id).for_each(|(at, word)| at.store(word, Relaxed));
    }

    fn control(&self) -> &Control {
        // SAFETY: the first page of the private memory, which nobody else uses.
        unsafe { &*ptr::with_exposed_provenance::<Control>(self.memory.private_start()) }
    }

    /// Returns the front in the file.
    fn words(&self) -> &[AtomicU64] {
        let start = ptr::with_exposed_provenance::<AtomicU64>(self.memory.shared_start());
        // SAFETY: the beginning of the file's memory, which is written by atomics alone.
        unsafe { slice::from_raw_parts(start, self.front.len()) }
    }
}

/// Returns the content before the rings, up to a page's end, and the places of the blocks that are
/// written at the end, and of the room for later definitions.
fn front(
    about: &TraceHeader<'_>,
    [stride, rings, page]: [usize; 3],
    joining: usize,
) -> io::Result<(Box<[AtomicU64]>, [usize; 3])> {
    let mut front = Vec::new();
    TraceFile::begin(&mut front, about)?;
    let head = |words: usize, front: &mut Vec<u8>| {
        let begin = front.len() / 8;
        front.extend(unused_header(words).iter().flat_map(|word| word.to_le_bytes()));
        begin
    };
    let room = |words: usize, front: &mut Vec<u8>| {
        let begin = head(words, front);
        front.resize(front.len() + words * 8, 0);
        begin
    };
    let (unseen, reading) = (room(2, &mut front), room(reading::WORDS, &mut front));
    let (begin, heads) = (front.len(), 2 * block::WORDS * 8);
    let most = usize::try_from(block::MOST_DEFINITIONS).unwrap_or(usize::MAX);
    let joining = joining.saturating_mul(DEFINITION).min(most);
    let end = (begin + joining + heads).next_multiple_of(page);
    let later = head((end - begin - heads) / 8, &mut front);
    let all = zeroed(end / 8);
    let rings = [block::MAGIC, block::RINGS, rings as u64, stride as u64];
    let words = front.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    words.zip(&all).for_each(|(word, at)| at.store(word, Relaxed));
    rings.into_iter().zip(&all[end / 8 - block::WORDS..]).for_each(|(word, at)| at.store(word, Relaxed));
    Ok((all, [unseen, reading, later]))
}

/// Returns words of zeros. They take no memory before somebody stores into them.
fn zeroed(words: usize) -> Box<[AtomicU64]> {
    let words: *mut [u64] = Box::into_raw(vec![0; words].into_boxed_slice());
    // SAFETY: from a box of words of the same layout and alignment.
    unsafe { Box::from_raw(words as *mut [AtomicU64]) }
}

const _: () = assert!(size_of::<Head>() <= 2048);
