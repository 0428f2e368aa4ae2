//! A thread's slot: its mark, and its part of every counter.
//!
//! Life: taken at the thread's first hit, from the free ones or from new memory; given back when
//! the thread ends, *with its counts*, which stay in every sum. Never unmapped, so a detacher may
//! look at any slot at any time. A thread that hits a probe after the C library has told of its end
//! takes a slot once more, and where no key is left that takes no heap, no end is told: whoever
//! needs a slot, or waits for one, then asks the kernel whether its owner is still there
//! ([`ended`](super::ended)).
//! Cost: 32 MiB of address space a thread, of which the touched pages are real.

// Safety: relies on slots being zeroed memory that is never given back, so that references to them
// are good for ever, and on all their fields being atomics.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::ended;
use super::ownership::{Owner, Ownership, UNASKED};
use super::presence::{Mark, Presence};
use crate::arch::backend;
use crate::os;
use crate::os::cancel::Uncancellable;

/// Bytes of a slot.
#[cfg(probe_backend = "x86_64")]
const SPAN: usize = 32 << 20;
#[cfg(not(any(probe_backend = "x86_64", miri)))]
const SPAN: usize = 1 << 20;
// Miri looks at all of a slot whenever a reference to it is passed on.
#[cfg(all(not(probe_backend = "x86_64"), miri))]
const SPAN: usize = 8 << 10;

/// How many counters there are.
pub(crate) const TALLIES: usize = (SPAN - HEAD) / size_of::<AtomicU64>();

/// Bytes before the counters.
const HEAD: usize = 128;

/// Where is counted what nobody asks for: bytes from the start of the slot. The second place is for
/// rehearsals.
pub(crate) const UNREAD: usize = offset_of!(Slot, unread);
#[cfg(all(feature = "profiler", probe_backend = "x86_64"))]
pub(crate) const ALSO_UNREAD: usize = offset_of!(Slot, reserved);

/// One counter: its place in every slot. Counted from 1, so that who may have none takes no more
/// space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TallyAt(NonZeroU32);

impl TallyAt {
    /// The counter with this number, below [`TALLIES`].
    pub(crate) fn new(number: usize) -> Self {
        assert!(number < TALLIES, "there are {TALLIES} counters");
        let from_one = u32::try_from(number + 1).expect("a slot is smaller than 4 GiB");
        Self(NonZeroU32::new(from_one).expect("it is not 0"))
    }

    /// Bytes from the start of the slot; never 0.
    pub(crate) fn offset(self) -> usize {
        HEAD + self.number() * size_of::<AtomicU64>()
    }

    #[inline(always)]
    fn number(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A thread's memory. Only ever behind a reference: it is far larger than a stack.
#[repr(C, align(64))]
pub(crate) struct Slot {
    presence: Presence,
    owner: Ownership,
    next: AtomicPtr<Slot>,
    /// When the owner began, where threads end unnoticed: its id may be another thread's later.
    birth: AtomicU64,
    /// Hits of probes that are active for a replacement alone.
    unread: AtomicU64,
    /// Which thread it is, counted from 1 in the order of their first hits.
    pub(super) thread: AtomicU64,
    /// The thread's name at its first hit, ended by zeros.
    pub(super) name: [AtomicU64; 2],
    /// Where the owner's error number is.
    pub(super) errno: AtomicPtr<i32>,
    reserved: [AtomicU64; 5],
    counters: [AtomicU64; TALLIES],
}

// The model checker's are larger, and lie in no slot.
#[cfg(not(all(test, loom)))]
const _: () = {
    assert!(size_of::<Slot>() == SPAN);
    assert!(offset_of!(Slot, presence) == 0);
    assert!(offset_of!(Slot, counters) == HEAD);
};

/// All slots, newest first.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// How many there are.
static MADE: AtomicUsize = AtomicUsize::new(0);
/// How many of them have no owner.
static FREE: AtomicUsize = AtomicUsize::new(0);
/// Hits of threads for which there was no memory.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Gets ready for threads' first hits, before any site is active.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        ended::know_process();
        os::thread::install(release);
    });
}

/// Hits, of all probes, that were lost because their threads could get no memory for their
/// counters.
///
/// ```
/// // At the end of a report:
/// if probe_runtime::lost_hits() != 0 {
///     println!("{} hits were lost for want of memory", probe_runtime::lost_hits());
/// }
/// ```
pub fn lost_hits() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// All slots, of live threads and free ones.
pub(crate) fn slots() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: slots are never given back.
    let at = |slot: *mut Slot| unsafe { slot.as_ref() };
    std::iter::successors(at(SLOTS.load(Ordering::Acquire)), move |slot| {
        at(slot.next.load(Ordering::Acquire))
    })
}

/// How many slots there are.
pub(super) fn made() -> usize {
    MADE.load(Ordering::Relaxed)
}

/// Frees slots whose threads are no more, whatever these were doing to them; all others have
/// owners, and nobody takes or gives back any meanwhile. The counts stay.
pub(super) fn free_all(slots: impl Iterator<Item = &'static Slot>) {
    let free = slots.map(Slot::free).count();
    FREE.store(free, Ordering::Relaxed);
}

impl Slot {
    /// This thread's slot, taken now if this is its first hit; `None`, and a lost hit, without
    /// memory.
    pub(super) fn current() -> Option<&'static Self> {
        Self::known().or_else(Self::take)
    }

    /// This thread's slot, if it has one.
    pub(super) fn known() -> Option<&'static Self> {
        // SAFETY: slots are never given back.
        unsafe { backend::slot().as_ref() }
    }

    #[cold]
    fn take() -> Option<&'static Self> {
        // Else the slot would be lost with the thread.
        let _whole = Uncancellable::new();
        let errno = os::thread::errno();
        let id = present_id();
        let slot = Self::reuse(id).or_else(|| Self::create(id));
        let slot = match slot {
            Some(mine) => Some(mine.settle(id)),
            None => Self::known(),
        };
        if slot.is_none() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        os::thread::set_errno(errno);
        slot
    }

    /// Makes this the slot of this thread, which has taken it; returns that thread's, which is
    /// another one where a signal handler's hit was faster.
    fn settle(&'static self, id: u32) -> &'static Self {
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
        if FREE.load(Ordering::Relaxed) == 0 {
            ended::free_the_dead();
        }
        if FREE.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let slot = slots().find(|slot| slot.owner.take(id))?;
        FREE.fetch_sub(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Only where no end is told: it takes system calls. Of an owner whose id is another thread's
    /// by now, a slot is given back when that thread has ended, too.
    fn note_birth(&self, id: u32) {
        let birth = if os::thread::tells_exit() { 0 } else { os::thread::birth(id) };
        self.birth.store(birth, Ordering::Release);
    }

    fn create(id: u32) -> Option<&'static Self> {
        #[expect(clippy::cast_ptr_alignment, reason = "it is aligned to a page")]
        let memory = os::memory::zeroed(SPAN).cast::<Self>();
        // SAFETY: zeroed memory is a `Slot`: all its fields are atomics.
        let slot = unsafe { memory.as_ref() }?;
        slot.owner.set(id);
        MADE.fetch_add(1, Ordering::Relaxed);
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
    pub(super) fn own(&self) {
        let id = present_id();
        self.note_birth(id);
        self.owner.set(id);
    }

    /// Ends this ownership, if nobody else has; the counts stay. By then the slot may be another
    /// thread's, which must keep its mark.
    pub(super) fn give_back(&self, owner: Owner) {
        if self.owner.end(owner) {
            self.free();
            FREE.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn free(&self) {
        self.presence.clear();
        self.birth.store(0, Ordering::Release);
        self.owner.clear();
    }

    /// The owner's id, if the kernel can be asked for it.
    #[cfg(all(feature = "profiler", probe_backend = "x86_64", not(miri)))]
    pub(crate) fn asked_for(&self) -> Option<u32> {
        self.owner().asked_for()
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner.now()
    }

    /// When the owner began; 0 where that is not known.
    pub(super) fn birth(&self) -> u64 {
        self.birth.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn mark(&self) -> Mark {
        self.presence.mark()
    }

    /// Begins a hit on the owner's thread; returns the mark to leave with.
    pub(super) fn enter(&self) -> Mark {
        self.presence.enter()
    }

    /// Ends it.
    #[inline(always)]
    pub(super) fn leave(&self, outer: Mark) {
        self.presence.leave(outer);
    }

    /// Only the owner marks its slot.
    #[inline(always)]
    pub(super) fn set_mark(&self, mark: Mark) {
        self.presence.set(mark);
    }

    /// Where the owner is.
    #[inline(always)]
    pub(super) fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Bumps a counter. Only the owner does.
    pub(crate) fn tally(&self, at: TallyAt) {
        backend::bump(self.counter(at));
    }

    /// What this slot's threads have counted.
    pub(crate) fn count(&self, at: TallyAt) -> u64 {
        self.counter(at).load(Ordering::Relaxed)
    }

    /// Sets a counter to zero; nobody may be counting there.
    pub(crate) fn reset(&self, at: TallyAt) {
        // Reading first leaves untouched pages untouched.
        if self.count(at) != 0 {
            self.counter(at).store(0, Ordering::Relaxed);
        }
    }

    /// A counter that whoever has taken it uses in his own way.
    #[inline(always)]
    pub(crate) fn word(&self, at: TallyAt) -> &AtomicU64 {
        self.counter(at)
    }

    #[inline(always)]
    fn counter(&self, at: TallyAt) -> &AtomicU64 {
        &self.counters[at.number()]
    }
}

unsafe extern "C" fn release(slot: *mut c_void) {
    // What a thread sets after its last destructor, glibc leaves to the next thread that gets its
    // stack.
    if !ptr::eq(backend::slot(), slot.cast()) {
        return;
    }
    backend::set_slot(ptr::null_mut());
    // SAFETY: `take` handed in a slot, and slots are never given back to the system.
    if let Some(slot) = unsafe { slot.cast::<Slot>().as_ref() } {
        slot.give_back(slot.owner());
    }
}

/// This thread's id, as an owner.
fn present_id() -> u32 {
    if ended::is_process_known() { os::thread::id() } else { UNASKED }
}

#[cfg(all(test, probe_backend = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc by system call numbers")]
    fn an_id_that_is_used_again_is_not_its_owner() {
        let (id, began) = (os::thread::id(), os::thread::birth(os::thread::id()));
        let slot = Slot::create(id).unwrap();
        slot.set_mark(Mark::consuming(4096));
        assert!(!slot.give_back_of_dead(), "of a thread that is known by its id only");
        slot.birth.store(began, Ordering::Release);
        assert!(!slot.give_back_of_dead());
        // It ended in a consumer, unnoticed, and this thread has its id now.
        slot.birth.store(began - 1, Ordering::Release);
        assert!(slot.give_back_of_dead());
        assert_eq!((slot.is_owned(), slot.mark()), (false, Mark::IDLE));
        assert_eq!(slot.birth.load(Ordering::Acquire), 0, "the next owner's is not known yet");
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2)")]
    fn a_child_frees_what_was_changing_hands_when_it_was_forked() {
        let slot = Slot::create(os::thread::id()).unwrap();
        // Its thread had ended in a consumer, and another was giving it back.
        slot.set_mark(Mark::consuming(4096));
        assert!(slot.owner.end(slot.owner()));
        // SAFETY: the child looks at slots, and waits for them; it takes no lock and no heap.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no pointers.
            unsafe { libc::alarm(20) };
            crate::dispatch::forget_other_threads();
            let waits =
                || crate::dispatch::wait(&crate::dispatch::Fenced::new()?, crate::dispatch::Awaited::Passing);
            let is_free = slot.owner.take(1) && slot.mark() == Mark::IDLE;
            slot.owner.clear();
            let others = slots().filter(|slot| !slot.is_owned()).count();
            let is_right = is_free && others == FREE.load(Ordering::Relaxed) && waits().is_some();
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        slot.free();
        FREE.fetch_add(1, Ordering::Relaxed);
        let mut status = -1;
        // SAFETY: a place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
