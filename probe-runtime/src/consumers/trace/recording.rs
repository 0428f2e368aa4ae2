//! The rings of an attached trace, and the way of a hit into them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use probe_trace::layout::{off, ring};

use super::definitions::{self, LaterDefinitions};
use super::file::{self, ClockReading, TraceHeader};
use super::off_times::OffTimes;
use super::payload;
use super::ring::{Head, Hit, Identity, Ring, Shape};
use super::ring_file::RingFile;
use super::stacks::{Stacks, WrittenStacks, has_stack};
use crate::engine::clock::Clock;
use crate::engine::control::{ProbeSet, SuppressedHits};
use crate::engine::dispatch::{Event, Recorder};
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::time;
use crate::engine::per_thread::{Local, PerThread, Zeroed};
use crate::engine::registry::ProbeId;

// Safety: relies on zeroed atomics being the head of a ring that nobody has written to, and on
// `ring`, which keeps a head's position and its end within the ring's memory.
#[expect(unsafe_code, reason = "see above")]
// SAFETY: it consists of atomic integers, needs no drop, and other threads may read it.
unsafe impl Zeroed for Head {}

/// A reading of the system's clock that takes longer makes a system call, or was interrupted.
const VDSO_NANOSECONDS: u64 = 1_000;

/// Rings, and what a file says besides their content.
pub(super) struct Recording {
    pub(super) clock: Clock,
    pub(super) shape: Shape,
    pub(super) began: ClockReading,
    pub(super) boot: [u64; 2],
    pub(super) definitions: Vec<u8>,
    /// The definitions of probes that have joined.
    joined: LaterDefinitions,
    /// The probes that have definitions. Taken by `join` only, which no fork interrupts.
    defined: Mutex<BTreeSet<ProbeId>>,
    rings: PerThread<Head, AtomicU64>,
    /// The file that the rings lie in. Dropped after them.
    pub(super) file: Option<RingFile>,
    /// Hits inside of other hits, once the trace is attached.
    nested: OnceLock<SuppressedHits>,
    /// Hits of threads for which there was no ring.
    ringless: PerThread<AtomicU64, ()>,
    /// Number of rings, and the most that there may be.
    made: AtomicUsize,
    most: usize,
    /// Bytes of a text that are kept.
    text_limit: usize,
    /// Whether the system's clock is read without a system call.
    is_clock_cheap: bool,
    /// The events in the file, where that had to end before the trace.
    kept: OnceLock<u64>,
    /// The threads' times off the processor, if they are recorded.
    off: Option<OffTimes>,
    /// The hits' stacks, if they are recorded.
    stacks: Option<Stacks>,
}

/// The settings of a recording.
pub(super) struct Wanted<'a> {
    pub(super) shape: Shape,
    /// The most rings.
    pub(super) most: usize,
    pub(super) text_limit: usize,
    pub(super) clock: Clock,
    /// The file that the rings lie in.
    pub(super) path: Option<&'a Path>,
    pub(super) off: Option<OffTimes>,
    pub(super) stacks: Option<Stacks>,
}

impl Recording {
    pub(super) fn new(probes: &ProbeSet, wanted: Wanted<'_>) -> Result<Self, Error> {
        let Wanted { shape, most, text_limit, clock, path, off, stacks } = wanted;
        let began = ClockReading::now(clock);
        let boot = time::boot_id();
        #[expect(clippy::cast_possible_truncation, reason = "its two halves")]
        let boot = [boot as u64, (boot >> 64) as u64];
        let mut defined = BTreeSet::new();
        let depth = stacks.as_ref().map(|stacks| stacks.depth);
        let definitions = definitions::encode(probes, &mut defined, depth);
        let about = TraceHeader { shape, began, boot, definitions: &definitions, is_whole: false };
        let file = path.map(|path| RingFile::create(path, &about, most, probes.room())).transpose()?;
        let words = usize::try_from(shape.sub_buffers * shape.words).unwrap_or(usize::MAX);
        let rings = match &file {
            Some(file) => file.rings(words + ring::WORDS)?,
            None => PerThread::new(words)?,
        };
        let took = || {
            let before = time::monotonic();
            time::monotonic() - before
        };
        Ok(Self {
            clock,
            shape,
            began,
            boot,
            definitions,
            joined: LaterDefinitions::default(),
            defined: Mutex::new(defined),
            rings,
            file,
            nested: OnceLock::new(),
            ringless: PerThread::new(0)?,
            made: AtomicUsize::new(0),
            most,
            text_limit,
            kept: OnceLock::new(),
            off,
            stacks,
            is_clock_cheap: (0..8).any(|_| took() < VDSO_NANOSECONDS),
        })
    }

    /// Notes that the file has ended with this many events. All others are lost.
    pub(super) fn keep(&self, events: u64) {
        let _ = self.kept.set(events);
    }

    /// Returns the events that are in the rings or were copied from there, and those that were
    /// lost.
    pub(super) fn totals(&self) -> [u64; 2] {
        let none = [0, self.unseen().iter().sum()];
        let all = self.rings().fold(none, |[written, lost], ring| {
            let (more, less) = ring.totals();
            [written + more, lost + less]
        });
        self.kept.get().map_or(all, |kept| [*kept, (all[0] + all[1]).saturating_sub(*kept)])
    }

    /// Returns the most rings that there may be.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns what its files begin with.
    pub(super) fn about(&self, is_whole: bool) -> TraceHeader<'_> {
        let Self { shape, began, boot, ref definitions, .. } = *self;
        TraceHeader { shape, began, boot, definitions, is_whole }
    }

    /// Returns the definitions of probes that have joined, without the first ones.
    pub(super) fn later(&self, without: usize) -> Vec<Arc<[u8]>> {
        self.joined.after(without)
    }

    /// Adds the definitions of probes that join.
    ///
    /// # Errors
    /// If a file of rings has no more room for them.
    pub(super) fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let mut defined = self.defined.lock().unwrap_or_else(PoisonError::into_inner);
        let added: Vec<_> = probes.ids().iter().filter(|id| !defined.contains(id)).collect();
        let new = definitions::encode(probes, &mut defined, self.stacks.as_ref().map(|stacks| stacks.depth));
        if new.is_empty() {
            return Ok(());
        }
        if self.file.as_ref().is_some_and(|file| !file.define(&new)) {
            added.into_iter().for_each(|id| _ = defined.remove(id));
            let problem = "the file of rings has no more room for definitions; attach anew";
            return Err(Error::Consumer(problem.into()));
        }
        self.joined.add(new.into());
        Ok(())
    }

    /// Records a hit.
    #[inline(always)]
    pub(super) fn hit(&self, event: &Event<'_>) {
        if let Some(stacks) = &self.stacks
            && has_stack(event.kind())
        {
            return self.hit_with_stack(event, stacks);
        }
        let hit = self.timed(event);
        let Some(local) = self.rings.known(event) else { return self.first(event, hit, None) };
        let ring = Ring { head: local.head(), words: local.parts() };
        let values = event.values();
        let is_written = !event.may_skip_exit()
            && ring.write_short(
                hit,
                definitions::number(event.probe().index()),
                payload::short(values),
                |words| payload::store_short(values, words),
            );
        if !is_written {
            self.record(event, hit, local, None);
        }
    }

    /// Reads the time of a hit.
    #[inline(always)]
    fn timed(&self, event: &Event<'_>) -> Hit {
        let now = match &self.off {
            Some(off) => off.now(event, self.clock, |thread, words| self.record_off(event, thread, words)),
            None => self.clock.now(),
        };
        Hit { now, thread: event.thread(), generation: event.generation() }
    }

    /// Records a hit with its stack. The thread keeps the stack before it reads the time. So a
    /// writer of the hits until a time finds their stacks, and a call's time is without the walk.
    #[inline(never)]
    fn hit_with_stack(&self, event: &Event<'_>, stacks: &Stacks) {
        let stack = Some(stacks.number(event));
        let hit = self.timed(event);
        match self.rings.known(event) {
            Some(local) => self.record(event, hit, local, stack),
            None => self.first(event, hit, stack),
        }
    }

    /// Returns where hits may be recorded, if time stamps are the processor's.
    #[expect(unsafe_code, reason = "see above")]
    pub(super) fn recorder(&self) -> Option<Recorder> {
        let has_more = self.off.is_some() || self.stacks.is_some();
        // SAFETY: the word is that of the rings, whose heads have the layout asserted in `ring`. A
        // ring's words lie at their positions from its origin, and only its thread writes there.
        (self.clock.is_counter() && !has_more).then(|| unsafe { Recorder::new(self.rings.memory()) })
    }

    /// Records a time off the processor of the thread that makes this hit, if it has a ring, or of
    /// the one that had the ring before.
    #[cold]
    fn record_off(&self, event: &Event<'_>, thread: u64, words: Option<[u64; off::WORDS]>) {
        let Some(local) = self.rings.known(event) else { return };
        let ring = Ring { head: local.head(), words: local.parts() };
        if !ring.is_fresh() && (thread == event.thread() || thread == ring.thread()) {
            let hit = Hit { now: self.clock.now(), thread, generation: event.generation() };
            ring.off(self.shape, hit, words, |is_known| self.identity(local, is_known));
        }
    }

    /// Looks for what threads wait, if times off the processor are recorded.
    pub(super) fn look_for_waits(&self) {
        self.off.iter().for_each(OffTimes::look);
    }

    /// Returns a line each about threads whose times off the processor are not recorded, and about
    /// hits without a stack.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let off = self.off.as_ref().and_then(OffTimes::note);
        off.into_iter().chain(self.stacks.iter().flat_map(Stacks::notes))
    }

    /// Learns of objects that have come or gone.
    pub(super) fn look_at_objects(&self) {
        self.stacks.iter().for_each(Stacks::look);
    }

    /// Returns the content of a block of the stacks that a file lacks.
    pub(super) fn new_stacks(&self, written: &mut WrittenStacks) -> Option<Vec<u8>> {
        self.stacks.as_ref()?.unwritten(written)
    }

    /// Returns the times off the processor after the last hits: for each ring its number, and the
    /// content of a block of them.
    pub(super) fn last_off(&self) -> Vec<(u64, Vec<u64>)> {
        let Some(off) = &self.off else { return Vec::new() };
        off.look();
        let of_ring = |ring: Ring<'_>| (ring.number(), off.last(ring.thread()));
        self.rings().map(of_ring).filter(|(_, words)| words.len() > 1).collect()
    }

    /// Records a hit of a thread that may not have a ring yet.
    #[cold]
    fn first(&self, event: &Event<'_>, hit: Hit, stack: Option<u64>) {
        // Before this process counts a hit that no ring has.
        self.ensure_memory();
        // Its hits are as many as those of a thread that comes too late. They take no number.
        if self.rings.is_refused(event) {
            return self.count(event);
        }
        let more = |made| (made < self.most).then_some(made + 1);
        let is_left = self.made.load(Relaxed) < self.most;
        let number = if is_left { self.made.fetch_update(Relaxed, Relaxed, more).ok() } else { None };
        let Some(number) = number else { return self.count(event) };
        if let Some(local) = self.rings.of(event) {
            if !self.begin(local, number as u64) {
                return self.count(event);
            }
            self.record(event, hit, local, stack);
        }
    }

    /// Counts a hit that no ring can have.
    fn count(&self, event: &Event<'_>) {
        if let Some(local) = self.ringless.of(event) {
            local.head().store(local.head().load(Relaxed) + 1, Relaxed);
        }
    }

    /// Lets the rings lie in the file of this process. Returns whether there is memory for them.
    #[cold]
    fn ensure_memory(&self) -> bool {
        self.file.as_ref().is_none_or(|file| file.ensure_memory(self.clock, || self.all_unseen()))
    }

    /// Begins a ring in this process. In files, its number is that of its place. Returns whether
    /// there is memory for it.
    #[cold]
    fn begin(&self, local: Local<'_, Head, AtomicU64>, number: u64) -> bool {
        let number = self.rings.number(&local).map_or(number, |number| number as u64);
        loop {
            if !self.ensure_memory() {
                return false;
            }
            Ring { head: local.head(), words: local.parts() }.begin(number);
            // A signal handler may have forked meanwhile.
            if self.file.as_ref().is_none_or(RingFile::has_memory) {
                return true;
            }
        }
    }

    /// Records a hit, with the number of its stack if it has one.
    #[inline(never)]
    fn record(&self, event: &Event<'_>, hit: Hit, local: Local<'_, Head, AtomicU64>, stack: Option<u64>) {
        let ring = Ring { head: local.head(), words: local.parts() };
        // A forked child finds the heads empty, and a file of its own.
        if ring.is_fresh() && !self.begin(local, 0) {
            return self.count(event);
        }
        let bound = payload::bound(event, self.text_limit, stack);
        let Some(reserved) = ring.reserve(self.shape, hit, bound, |is_known| self.identity(local, is_known))
        else {
            return;
        };
        let used = payload::store(event, self.text_limit, stack, reserved.payload);
        ring.commit(&reserved, definitions::number(event.probe().index()), used);
    }

    /// Returns what a sub-buffer says of its thread. Where the ring knows the thread, the system is
    /// not asked for its id.
    fn identity(&self, local: Local<'_, Head, AtomicU64>, is_known: bool) -> Identity {
        let thread = (!is_known).then(|| {
            let name = local.thread_name_bytes();
            let (name, _) = name.as_chunks::<8>();
            (u64::from(os::thread::id()), [u64::from_le_bytes(name[0]), u64::from_le_bytes(name[1])])
        });
        // A new thread asks the system anyway.
        let reads = self.is_clock_cheap || !is_known;
        Identity { thread, reading: reads.then(|| file::monotonic(self.clock)) }
    }

    /// Iterates over the rings in use, of ended threads, too.
    pub(super) fn rings(&self) -> impl Iterator<Item = Ring<'_>> {
        let rings = self.rings.iter().map(|local| Ring { head: local.head(), words: local.parts() });
        // A ring that its thread is about to begin has no number yet.
        rings.filter(|ring| ring.has_begun())
    }

    /// Writes the totals to the file that the rings lie in. No thread hits any more.
    pub(super) fn close(&self) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        let used = self.rings().inspect(|ring| ring.close(self.shape)).map(|ring| ring.number() + 1).max();
        file.finish(self.unseen(), ClockReading::now(self.clock), used.unwrap_or_default())
    }

    /// Notes where hits inside of other hits are counted.
    pub(super) fn count_nested(&self, hits: Option<SuppressedHits>) {
        if let Some(hits) = hits {
            let _ = self.nested.set(hits);
        }
    }

    /// Returns the number of hits of threads for which there was no ring, or only a full one; and
    /// of hits inside of other hits. Takes no lock.
    pub(super) fn unseen(&self) -> [u64; 2] {
        let inherited = self.file.as_ref().map_or(Some([0; 2]), RingFile::inherited);
        let Some([ringless, nested]) = inherited else { return [0; 2] };
        let all = self.all_unseen();
        [all[0].saturating_sub(ringless), all[1].saturating_sub(nested)]
    }

    fn all_unseen(&self) -> [u64; 2] {
        [self.all_ringless(), self.all_nested()]
    }

    fn all_nested(&self) -> u64 {
        self.nested.get().map_or(0, SuppressedHits::now)
    }

    fn all_ringless(&self) -> u64 {
        let counted: u64 = self.ringless.iter().map(|local| local.head().load(Relaxed)).sum();
        let left_full =
            |local: Local<'_, Head, AtomicU64>| Ring { head: local.head(), words: local.parts() }.ringless();
        let late: u64 = self.rings.iter().map(left_full).sum();
        counted + late + self.ringless.lost() + self.rings.lost()
    }
}
