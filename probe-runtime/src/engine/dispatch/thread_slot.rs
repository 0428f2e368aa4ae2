//! A thread's slot: its mark, its share of every counter, and its owner as consumers may know it.
//!
//! Life cycle: taken at the thread's first hit, from the free slots or from new memory ▸ given back
//! when the thread ends, *with its counts*, which stay in every sum. Slots are never unmapped, so
//! any thread may look at any slot. A thread that hits a probe after the C library has reported its
//! end takes a slot again, and without a key that needs no heap, no end is reported. Then a thread
//! that needs or awaits a slot asks the kernel for ended owners ([`ownership`](super::ownership)).
//!
//! Cost: 32 MiB of address space per thread, of which only touched pages take memory.

// Safety: relies on slots being zeroed memory that is never unmapped, so that references to them
// stay valid, on all their fields being atomics, and on the callers of `errno`, who ask on the
// thread that owns the slot.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::hit_state::{HitMark, HitState};
use super::ownership::{self, NO_TID, Owner, Ownership};
use crate::engine::entry::backend::{self, SLOT_SIZE};
use crate::engine::os;
use crate::engine::os::cancel::Uncancellable;

pub(crate) const COUNTERS: usize = (SLOT_SIZE - HEADER_SIZE) / size_of::<AtomicU64>();

/// Bytes before the counters.
const HEADER_SIZE: usize = 128;

/// Offset of a counter that no report reads, in bytes from the start of the slot. Calibrations use
/// a second one.
pub(crate) const SCRATCH: usize = offset_of!(ThreadSlot, scratch);

/// One counter: its place in every slot, from 1, so that an optional one takes no more space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CounterAt(NonZeroU32);

impl CounterAt {
    /// Returns the counter with this number, which must be below [`COUNTERS`].
    pub(crate) fn new(number: usize) -> Self {
        assert!(number < COUNTERS, "there are {COUNTERS} counters");
        let from_one = u32::try_from(number + 1).expect("a slot is smaller than 4 GiB");
        Self(NonZeroU32::new(from_one).expect("it is not 0"))
    }

    /// Returns the offset in bytes from the start of the slot; never 0.
    pub(crate) fn offset(self) -> usize {
        HEADER_SIZE + self.number() * size_of::<AtomicU64>()
    }

    #[inline(always)]
    fn number(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A thread's memory. Always behind a reference, since it is far larger than a stack.
#[repr(C, align(64))]
pub(crate) struct ThreadSlot {
    pub(super) hit_state: HitState,
    owner: Ownership,
    next: AtomicPtr<ThreadSlot>,
    /// Start time of the owner, where threads may end unreported: another thread may get its id
    /// later.
    birth: AtomicU64,
    /// Hits of probes that are active only for a replacement.
    scratch: AtomicU64,
    /// The thread's number, counted from 1 in the order of threads' first hits.
    pub(super) thread: AtomicU64,
    /// The thread's name at its first hit, padded with zeros.
    pub(super) name: [AtomicU64; 2],
    /// Address of the owner's error number.
    pub(super) errno: AtomicPtr<i32>,
    /// Its first word is the second counter of calibrations.
    pub(super) reserved: [AtomicU64; 5],
    counters: [AtomicU64; COUNTERS],
}

// The model checker's types are larger, and lie in no slot.
#[cfg(not(all(test, loom)))]
const _: () = {
    assert!(size_of::<ThreadSlot>() == SLOT_SIZE);
    assert!(offset_of!(ThreadSlot, hit_state) == 0);
    assert!(offset_of!(ThreadSlot, counters) == HEADER_SIZE);
};

/// All slots, newest first.
static SLOTS: AtomicPtr<ThreadSlot> = AtomicPtr::new(ptr::null_mut());
/// Number of slots.
static SLOT_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Number of slots without an owner.
static FREE_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Number of hits of threads for which there was no memory.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Prepares for threads' first hits, before any site is active.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        ownership::record_process();
        os::thread::install(release);
    });
}

/// Returns the number of hits, of all probes, that were lost because their threads could get no
/// memory for their counters.
///
/// ```
/// // At the end of a report:
/// if probe_runtime::losses::lost_hits() != 0 {
///     println!("{} hits were lost for want of memory", probe_runtime::losses::lost_hits());
/// }
/// ```
pub fn lost_hits() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Returns the number of the calling thread, as [`Event::thread`](super::Event::thread) has it, and
/// takes a slot if the thread has none; `None` without memory.
pub(crate) fn current_thread() -> Option<u64> {
    ThreadSlot::current().map(ThreadSlot::thread)
}

/// Returns all slots, of live threads and free ones.
pub(crate) fn slots() -> impl Iterator<Item = &'static ThreadSlot> {
    // SAFETY: slots are never given back.
    let at = |slot: *mut ThreadSlot| unsafe { slot.as_ref() };
    std::iter::successors(at(SLOTS.load(Ordering::Acquire)), move |slot| {
        at(slot.next.load(Ordering::Acquire))
    })
}

/// Returns the number of slots.
pub(super) fn slot_count() -> usize {
    SLOT_COUNT.load(Ordering::Relaxed)
}

/// Frees slots whose threads no longer exist, in whatever state these left them. All other slots
/// have owners, and no thread takes or gives back a slot meanwhile. The counts stay.
pub(super) fn free_all(slots: impl Iterator<Item = &'static ThreadSlot>) {
    let free = slots.map(ThreadSlot::free).count();
    FREE_COUNT.store(free, Ordering::Relaxed);
}

impl ThreadSlot {
    /// Returns this thread's slot, and takes one if this is its first hit; `None`, and a lost hit,
    /// without memory.
    pub(super) fn current() -> Option<&'static Self> {
        Self::known().or_else(Self::take)
    }

    /// Returns this thread's slot, if it has one.
    pub(super) fn known() -> Option<&'static Self> {
        // SAFETY: slots are never given back.
        unsafe { backend::slot().as_ref() }
    }

    #[cold]
    fn take() -> Option<&'static Self> {
        // If this thread were cancelled here, its slot would be lost.
        let _whole = Uncancellable::new();
        let errno = os::thread::errno();
        let id = present_id();
        let slot = Self::reuse(id).or_else(|| Self::create(id));
        let slot = match slot {
            Some(mine) => Some(mine.claim(id)),
            None => Self::known(),
        };
        if slot.is_none() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        os::thread::set_errno(errno);
        slot
    }

    /// Makes this, which the thread has just taken, the slot of this thread. Returns the thread's
    /// slot, which is another one if a signal handler's hit was faster.
    fn claim(&'static self, id: u32) -> &'static Self {
        self.note_birth(id);
        self.note_thread();
        let own = ptr::from_ref(self).cast_mut();
        // SAFETY: slots are never given back to the system.
        if let Some(known) = unsafe { backend::claim_slot(own).as_ref() } {
            self.give_back(self.owner.now());
            return known;
        }
        // SAFETY: the installed call takes slots.
        unsafe { os::thread::on_exit(own.cast()) };
        self
    }

    fn reuse(id: u32) -> Option<&'static Self> {
        if FREE_COUNT.load(Ordering::Relaxed) == 0 {
            ownership::reap_dead_owners();
        }
        if FREE_COUNT.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let slot = slots().find(|slot| slot.owner.take(id))?;
        FREE_COUNT.fetch_sub(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Records the owner's start time, but only where ends are not reported, since it takes system
    /// calls. If another thread has the owner's id by now, the slot is given back when that thread
    /// has ended, too.
    fn note_birth(&self, id: u32) {
        let birth = if os::thread::tells_exit() { 0 } else { os::thread::birth(id) };
        self.birth.store(birth, Ordering::Release);
    }

    fn create(id: u32) -> Option<&'static Self> {
        #[expect(clippy::cast_ptr_alignment, reason = "it is aligned to a page")]
        let memory = os::memory::zeroed(SLOT_SIZE).cast::<Self>();
        // SAFETY: zeroed memory is a `ThreadSlot`: all its fields are atomics.
        let slot = unsafe { memory.as_ref() }?;
        slot.owner.set(id);
        SLOT_COUNT.fetch_add(1, Ordering::Relaxed);
        let mut head = SLOTS.load(Ordering::Relaxed);
        loop {
            slot.next.store(head, Ordering::Relaxed);
            match SLOTS.compare_exchange_weak(head, memory, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(slot),
                Err(newer) => head = newer,
            }
        }
    }

    /// Makes this thread, which has the slot, its owner under its present id.
    pub(super) fn adopt(&self) {
        let id = present_id();
        self.note_birth(id);
        self.owner.set(id);
    }

    /// Lets this thread, which has the slot, be known by its id, if it made its first hit before
    /// the first operation of all.
    pub(crate) fn identify(&self) {
        if self.owner().tid().is_none() && ownership::are_ids_known() {
            self.adopt();
        }
    }

    /// Ends this ownership, unless another thread has; the counts stay. By then the slot may belong
    /// to another thread, whose mark must stay.
    pub(super) fn give_back(&self, owner: Owner) {
        if self.owner.end(owner) {
            self.free();
            FREE_COUNT.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn free(&self) {
        self.hit_state.clear();
        self.birth.store(0, Ordering::Release);
        self.owner.clear();
    }

    /// Returns the owner's id, if the kernel can be asked for it.
    #[cfg(probe_backend = "patched")]
    pub(crate) fn tid(&self) -> Option<u32> {
        self.owner().tid()
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner.now()
    }

    /// Returns the start time of the owner; 0 if it is not known.
    pub(super) fn birth(&self) -> u64 {
        self.birth.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn mark(&self) -> HitMark {
        self.hit_state.mark()
    }

    /// Begins a hit on the owner's thread; returns the mark that `leave` restores.
    pub(super) fn enter(&self) -> HitMark {
        self.hit_state.enter()
    }

    /// Ends a hit.
    #[inline(always)]
    pub(super) fn leave(&self, outer: HitMark) {
        self.hit_state.leave(outer);
    }

    /// Only the owner may mark its slot.
    #[inline(always)]
    pub(super) fn set_mark(&self, mark: HitMark) {
        self.hit_state.set(mark);
    }

    #[inline(always)]
    pub(super) fn hit_state(&self) -> &HitState {
        &self.hit_state
    }

    /// Increments a counter. Only the owner may.
    pub(crate) fn increment(&self, at: CounterAt) {
        backend::increment(self.counter(at));
    }

    /// Returns the count of this slot's threads.
    pub(crate) fn count(&self, at: CounterAt) -> u64 {
        self.counter(at).load(Ordering::Relaxed)
    }

    /// Sets a counter to zero. No thread may be counting with it.
    pub(crate) fn reset(&self, at: CounterAt) {
        // Reading first leaves untouched pages untouched.
        if self.count(at) != 0 {
            self.counter(at).store(0, Ordering::Relaxed);
        }
    }

    /// Returns a counter that the code which reserved it uses in its own way.
    #[inline(always)]
    pub(crate) fn word(&self, at: CounterAt) -> &AtomicU64 {
        self.counter(at)
    }

    #[inline(always)]
    fn counter(&self, at: CounterAt) -> &AtomicU64 {
        &self.counters[at.number()]
    }
}

unsafe extern "C" fn release(slot: *mut c_void) {
    // If a thread sets the value after its last destructor, glibc leaves it to the next thread that
    // gets its stack.
    if !ptr::eq(backend::slot(), slot.cast()) {
        return;
    }
    backend::set_slot(ptr::null_mut());
    // SAFETY: `take` passed a slot, and slots are never given back to the system.
    if let Some(slot) = unsafe { slot.cast::<ThreadSlot>().as_ref() } {
        slot.give_back(slot.owner());
    }
}

/// Returns this thread's id as an owner.
fn present_id() -> u32 {
    if ownership::are_ids_known() { os::thread::id() } else { NO_TID }
}

/// Number of threads that have had a slot.
static THREADS: AtomicU64 = AtomicU64::new(0);

impl ThreadSlot {
    /// Returns the owner's error number, which a hit must not change.
    ///
    /// # Safety
    /// The calling thread owns the slot.
    #[inline(always)]
    pub(super) unsafe fn errno(&self) -> os::thread::Errno {
        // SAFETY: the calling thread owns the slot. An owner calls `note_thread` before its first
        // hit, so the slot holds the place of this thread's error number.
        unsafe { os::thread::Errno::keep(self.errno.load(Ordering::Relaxed)) }
    }

    /// Records the number and the name of the owner's thread.
    pub(super) fn note_thread(&self) {
        self.errno.store(os::thread::errno_place(), Ordering::Relaxed);
        let name = os::thread::name();
        for (word, bytes) in self.name.iter().zip(name.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        self.thread.store(THREADS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Returns the number of the present or last owner, counted from 1 in the order of threads'
    /// first hits.
    #[inline(always)]
    pub(crate) fn thread(&self) -> u64 {
        self.thread.load(Ordering::Acquire)
    }

    /// Returns the name that the thread had at its first hit, padded with zeros.
    pub(crate) fn thread_name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        for (bytes, word) in name.as_chunks_mut::<8>().0.iter_mut().zip(&self.name) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        name
    }

    /// Returns whether the thread has not ended.
    pub(crate) fn is_owned(&self) -> bool {
        self.owner().is_thread()
    }
}

#[cfg(all(test, probe_backend = "patched"))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc by system call numbers")]
    fn an_id_that_is_used_again_is_not_its_owner() {
        let (id, began) = (os::thread::id(), os::thread::birth(os::thread::id()));
        let slot = ThreadSlot::create(id).unwrap();
        slot.set_mark(HitMark::consuming(4096));
        assert!(!slot.reap_if_dead(), "of a thread that is known by its id only");
        slot.birth.store(began, Ordering::Release);
        assert!(!slot.reap_if_dead());
        // The owner ended in a consumer, unreported, and this thread has its id now.
        slot.birth.store(began - 1, Ordering::Release);
        assert!(slot.reap_if_dead());
        assert_eq!((slot.is_owned(), slot.mark()), (false, HitMark::IDLE));
        assert_eq!(slot.birth.load(Ordering::Acquire), 0, "the next owner's is not known yet");
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2)")]
    fn a_forked_child_frees_slots_that_were_changing_hands() {
        let slot = ThreadSlot::create(os::thread::id()).unwrap();
        // Its thread had ended in a consumer, and another thread was giving it back.
        slot.set_mark(HitMark::consuming(4096));
        assert!(slot.owner.end(slot.owner()));
        // SAFETY: the child looks at slots, and waits for them; it takes no lock and no heap.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no pointers.
            unsafe { libc::alarm(20) };
            crate::engine::dispatch::forget_other_threads();
            let waits = || {
                crate::engine::dispatch::synchronize(
                    &crate::engine::dispatch::BarrierProof::new()?,
                    crate::engine::dispatch::WaitFor::Passing,
                )
            };
            let is_free = slot.owner.take(1) && slot.mark() == HitMark::IDLE;
            slot.owner.clear();
            let others = slots().filter(|slot| !slot.is_owned()).count();
            let is_right = is_free && others == FREE_COUNT.load(Ordering::Relaxed) && waits().is_some();
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        slot.free();
        FREE_COUNT.fetch_add(1, Ordering::Relaxed);
        let mut status = -1;
        // SAFETY: a place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
