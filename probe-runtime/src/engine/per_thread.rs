//! A consumer's memory for each thread, without the heap.
//!
//! Life cycle: memory is mapped at the thread's first hit of the consumer. When the thread ends,
//! its memory stays, so that its numbers remain in every sum, and a later thread takes it over
//! together with the slot. It is unmapped with the [`PerThread`]. It is mapped as a whole, but only
//! touched pages take memory: unused room costs addresses only.
//!
//! Cost: two loads on a hit. The thread's first hit makes the system calls that map memory, as
//! every thread's first hit does.

// Safety: relies on `Zeroed`, so that fresh memory holds valid values; on cells that only this
// `PerThread` writes, each by the thread that owns the slot; and on memory being unmapped only by
// `drop`, which no borrow outlives.
#![expect(unsafe_code, reason = "see above")]

use std::marker::PhantomData;
use std::mem::{align_of, needs_drop, size_of};
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32,
    AtomicU64, AtomicUsize, Ordering,
};
use std::{fmt, ptr, slice};

use crate::engine::control::SlotWords;
use crate::engine::dispatch::{CounterAt, Event, ThreadSlot, slots};
use crate::engine::error::Error;
use crate::engine::os;

/// Types of [`PerThread`] memory: atomics, and types that consist of them.
///
/// Fresh memory is zeroed and is used without being initialised. Its owner writes it while other
/// threads read it.
///
/// ```
/// use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
/// use probe_runtime::consumer::{PerThread, Zeroed};
/// use probe_runtime::{Consumer, Error, Event, probe, select};
///
/// /// The hits of one thread.
/// struct Seen {
///     hits: AtomicU64,
///     last_line: AtomicU32,
/// }
///
/// // SAFETY: atomic integers are valid if zeroed, and need no drop.
/// unsafe impl Zeroed for Seen {}
///
/// struct Watch(PerThread<Seen, ()>);
///
/// impl Consumer for Watch {
///     fn hit(&self, event: &Event<'_>) {
///         let Some(local) = self.0.of(event) else { return };
///         let seen = local.head();
///         seen.hits.store(seen.hits.load(Relaxed) + 1, Relaxed);
///         seen.last_line.store(event.line(), Relaxed);
///     }
/// }
///
/// #[probe]
/// fn watched() {}
///
/// let watch = select("**::watched kind=entry")?.attach(Watch(PerThread::new(0)?))?;
/// watched();
/// assert_eq!(watch.0.iter().map(|local| local.head().hits.load(Relaxed)).sum::<u64>(), 1);
/// # Ok::<(), Error>(())
/// ```
///
/// # Safety
/// A value whose bytes are all zero is valid. It needs no drop. One thread may read it while
/// another one writes it.
pub unsafe trait Zeroed: Sync + 'static {}

macro_rules! zeroed {
    ($($ty:ty),*) => { $(
        // SAFETY: an atomic integer is valid for all bits.
        unsafe impl Zeroed for $ty {}
    )* };
}

zeroed!(AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize);
zeroed!(AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize);

// SAFETY: zero is `false`.
unsafe impl Zeroed for AtomicBool {}
// SAFETY: it has no bytes.
unsafe impl Zeroed for () {}
// SAFETY: it consists of its elements.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {}
// SAFETY: it consists of its parts; padding may have any value.
unsafe impl<A: Zeroed, B: Zeroed> Zeroed for (A, B) {}

/// Memory for consumers, which must not use the heap or take a lock on a hit: one head and a number
/// of parts for each thread that hits the consumer's probes. All of it is zero at first. Create it
/// in [`Consumer::prepare`](crate::Consumer::prepare), where the number of parts is known.
///
/// ```
/// use std::sync::OnceLock;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::consumer::PerThread;
/// use probe_runtime::{Consumer, Error, Event, ProbeSet, probe, select};
///
/// /// Counts hits by the line of the source, each thread for itself.
/// #[derive(Default)]
/// struct Lines(OnceLock<PerThread<(), AtomicU64>>);
///
/// impl Consumer for Lines {
///     fn prepare(&self, _probes: &ProbeSet) -> Result<(), Error> {
///         let _ = self.0.set(PerThread::new(1000)?);
///         Ok(())
///     }
///
///     fn hit(&self, event: &Event<'_>) {
///         let Some(local) = self.0.get().and_then(|lines| lines.of(event)) else { return };
///         if let Some(count) = local.parts().get(event.line() as usize % 1000) {
///             // Only this thread writes: no need for a locked instruction.
///             count.store(count.load(Relaxed) + 1, Relaxed);
///         }
///     }
/// }
///
/// #[probe]
/// fn counted_by_line() {}
///
/// let lines = select("**::counted_by_line kind=entry")?.attach(Lines::default())?;
/// std::thread::scope(|scope| {
///     scope.spawn(counted_by_line);
///     scope.spawn(counted_by_line);
/// });
/// let counted = |local: probe_runtime::consumer::Local<'_, (), AtomicU64>| -> u64 {
///     local.parts().iter().map(|count| count.load(Relaxed)).sum()
/// };
/// assert_eq!(lines.0.get().unwrap().iter().map(counted).sum::<u64>(), 2);
/// # Ok::<(), Error>(())
/// ```
pub struct PerThread<H: Zeroed, P: Zeroed> {
    /// For each slot: the address of its memory, and the number of hits for which there was none.
    cells: SlotWords<2>,
    parts: usize,
    /// Bytes from a head to its parts.
    parts_at: usize,
    /// The memory of all threads, if it is not mapped for each.
    preallocated: Option<ThreadMemory>,
    made: PhantomData<fn() -> (H, P)>,
}

/// The offset of the head in its pages. It differs from the offset of a slot, whose first bytes
/// each hit writes. That saves 1 % of a call that `Latency` measures (EPYC). The likely cause: a
/// load may wait for a store 4 KiB away (Intel's optimization manual, "4-KByte aliasing").
const HEAD_AT: usize = 2048;

/// The first cell after memory could not be mapped; it is not a valid address.
const REFUSED: u64 = 1;

impl<H: Zeroed, P: Zeroed> PerThread<H, P> {
    /// Creates memory for a head and `parts` parts for each thread; it is mapped when the thread
    /// asks for it.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if there are no counters left.
    ///
    /// # Panics
    /// If the size exceeds the address space.
    pub fn new(parts: usize) -> Result<Self, Error> {
        const {
            assert!(!needs_drop::<H>() && !needs_drop::<P>());
            assert!(align_of::<H>() <= HEAD_AT && align_of::<P>() <= HEAD_AT);
        };
        let bytes = parts
            .checked_mul(size_of::<P>())
            .and_then(|bytes| bytes.checked_add(HEAD_AT + Self::own_parts_at()));
        assert!(
            bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()),
            "{parts} parts are more than can be addressed"
        );
        Ok(Self {
            cells: SlotWords::allocate()?,
            parts,
            parts_at: Self::own_parts_at(),
            preallocated: None,
            made: PhantomData,
        })
    }

    /// Creates it in memory that stays mapped for as long as this lives.
    ///
    /// # Errors
    /// [`Error::OutOfCounters`] if there are no counters left.
    ///
    /// # Safety
    /// The memory is zeroed at first, and as large as [`ThreadMemory`] says for heads and parts of
    /// these types.
    pub(crate) unsafe fn in_memory(parts: usize, memory: ThreadMemory) -> Result<Self, Error> {
        let mut placed = Self::new(parts)?;
        placed.parts_at = memory.parts - memory.heads - HEAD_AT;
        placed.preallocated = Some(memory);
        Ok(placed)
    }

    /// Returns the number of the thread's memory in its place.
    pub(crate) fn number(&self, local: &Local<'_, H, P>) -> Option<usize> {
        let memory = self.preallocated.as_ref()?;
        Some((ptr::from_ref(local.head).addr() - memory.heads) / memory.stride)
    }

    /// Returns the memory of the thread that makes this hit; `None` if there is none, which is
    /// [counted](Self::lost).
    #[inline(always)]
    pub fn of(&self, event: &Event<'_>) -> Option<Local<'_, H, P>> {
        let slot = event.slot();
        let known = slot.word(self.memory()).load(Ordering::Relaxed);
        if known > REFUSED { Some(self.local(slot, known)) } else { self.map(slot, known) }
    }

    /// Returns the memory of a thread that has asked for it before, without a function call.
    #[inline(always)]
    pub(crate) fn known(&self, event: &Event<'_>) -> Option<Local<'_, H, P>> {
        let slot = event.slot();
        let known = slot.word(self.memory()).load(Ordering::Relaxed);
        (known > REFUSED).then(|| self.local(slot, known))
    }

    /// Returns whether memory could not be mapped for the thread, which will get none.
    pub(crate) fn is_refused(&self, event: &Event<'_>) -> bool {
        event.slot().word(self.memory()).load(Ordering::Relaxed) == REFUSED
    }

    /// Iterates over the memory of all threads that have asked for it, ended threads included.
    pub fn iter(&self) -> impl Iterator<Item = Local<'_, H, P>> {
        slots().filter_map(|slot| {
            let known = slot.word(self.memory()).load(Ordering::Acquire);
            (known > REFUSED).then(|| self.local(slot, known))
        })
    }

    /// Returns the number of hits for which there was no memory.
    pub fn lost(&self) -> u64 {
        slots().map(|slot| slot.count(self.cells.at()[1])).sum()
    }

    /// Returns the word of each slot that holds the address of the thread's head; 0 or 1 while
    /// there is none.
    #[inline(always)]
    pub(crate) fn memory(&self) -> CounterAt {
        self.cells.at()[0]
    }

    #[inline(always)]
    fn local(&self, slot: &'static ThreadSlot, known: u64) -> Local<'_, H, P> {
        // Addresses of this target fit in `usize`.
        let start = ptr::with_exposed_provenance::<u8>(usize::try_from(known).unwrap_or_default());
        // SAFETY: memory of `bytes` bytes less `HEAD_AT`, zeroed at first, aligned to that, and
        // unmapped by `drop` only, or memory of `in_memory`; see `Zeroed`.
        let (head, parts) = unsafe {
            (&*start.cast::<H>(), slice::from_raw_parts(start.add(self.parts_at).cast::<P>(), self.parts))
        };
        Local { slot, head, parts }
    }

    #[cold]
    fn map(&self, slot: &'static ThreadSlot, known: u64) -> Option<Local<'_, H, P>> {
        slot.identify();
        let start = match &self.preallocated {
            _ if known == REFUSED => ptr::null_mut(),
            Some(memory) => memory.take(),
            None => os::memory::zeroed(self.bytes()),
        };
        if start.is_null() {
            // Not tried again at every hit.
            slot.word(self.memory()).store(REFUSED, Ordering::Relaxed);
            slot.increment(self.cells.at()[1]);
            return None;
        }
        let known = (start.expose_provenance() + HEAD_AT) as u64;
        slot.word(self.memory()).store(known, Ordering::Release);
        Some(self.local(slot, known))
    }

    /// Returns the offset of the parts in memory that is mapped for each thread.
    const fn own_parts_at() -> usize {
        size_of::<H>().next_multiple_of(if align_of::<P>() < 64 { 64 } else { align_of::<P>() })
    }

    fn bytes(&self) -> usize {
        HEAD_AT + Self::own_parts_at() + self.parts * size_of::<P>() + 64
    }
}

impl<H: Zeroed, P: Zeroed> Drop for PerThread<H, P> {
    fn drop(&mut self) {
        for slot in slots() {
            let known = slot.word(self.memory()).swap(0, Ordering::AcqRel);
            if known > REFUSED && self.preallocated.is_none() {
                let start = usize::try_from(known).unwrap_or_default() - HEAD_AT;
                // SAFETY: mapped here, with this length; only past hits of this consumer used it.
                unsafe { os::memory::give_back(ptr::with_exposed_provenance_mut(start), self.bytes()) };
            }
        }
    }
}

impl<H: Zeroed, P: Zeroed> fmt::Debug for PerThread<H, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThread").field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// One thread's memory, from [`PerThread`]. On a hit it is the thread's own. Other readers see each
/// atomic as it is at that moment.
///
/// ```
/// use std::sync::atomic::AtomicU64;
/// use probe_runtime::consumer::PerThread;
///
/// // One number for each thread, and two more for each of its parts.
/// let memory: PerThread<AtomicU64, AtomicU64> = PerThread::new(2)?;
/// for local in memory.iter() {
///     println!("thread {}: {:?} {}", local.thread(), local.head(), local.parts().len());
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub struct Local<'a, H, P> {
    slot: &'static ThreadSlot,
    head: &'a H,
    parts: &'a [P],
}

impl<'a, H, P> Local<'a, H, P> {
    /// Returns the memory with a part of the head as its head.
    #[inline(always)]
    pub(crate) fn map<G>(&self, of: impl FnOnce(&'a H) -> &'a G) -> Local<'a, G, ()> {
        Local { slot: self.slot, head: of(self.head), parts: &[] }
    }

    /// Returns the head.
    #[inline(always)]
    pub fn head(&self) -> &'a H {
        self.head
    }

    /// Returns the parts; their number is that of [`PerThread::new`].
    #[inline(always)]
    pub fn parts(&self) -> &'a [P] {
        self.parts
    }

    /// Returns the number of the thread that owns the memory, or that owned it last. Threads are
    /// counted from 1 in the order of their first hits of any probe, and numbers are never reused.
    /// A later thread finds the values of an earlier one.
    #[inline(always)]
    pub fn thread(&self) -> u64 {
        self.slot.thread()
    }

    /// Returns the name of that thread at its first hit; empty if the system does not provide it.
    /// Do not call this on a hit, because it uses the heap.
    pub fn thread_name(&self) -> String {
        let name = self.thread_name_bytes();
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..len]).into_owned()
    }

    /// Returns the thread's name as bytes, padded with zeros.
    pub fn thread_name_bytes(&self) -> [u8; 16] {
        self.slot.thread_name()
    }

    /// Returns whether that thread is still running.
    pub fn is_alive(&self) -> bool {
        self.slot.is_owned()
    }
}

impl<H, P> Clone for Local<'_, H, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H, P> Copy for Local<'_, H, P> {}

impl<H, P> fmt::Debug for Local<'_, H, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("thread", &self.thread()).finish_non_exhaustive()
    }
}

/// Memory for the heads and parts of a number of threads, which somebody else unmaps.
#[derive(Debug)]
pub(crate) struct ThreadMemory {
    /// Address of the page in which the first head lies.
    pub(crate) heads: usize,
    /// Address of the first thread's parts, behind the heads.
    pub(crate) parts: usize,
    /// Bytes from one head to the next, and from the parts of one thread to those of the next.
    pub(crate) stride: usize,
    /// The number of threads for which there is memory.
    pub(crate) count: usize,
    /// The number of threads that have got some.
    pub(crate) taken: AtomicUsize,
}

impl ThreadMemory {
    /// Returns the next head; null if there is none.
    fn take(&self) -> *mut u8 {
        let next = |taken| (taken < self.count).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let head = taken.map_or(0, |number| self.heads + number * self.stride);
        ptr::with_exposed_provenance_mut(head)
    }
}
