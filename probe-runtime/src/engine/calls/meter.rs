//! The trait that a consumer implements to measure calls, and the calls that it receives.

use crate::engine::per_thread::{Local, Zeroed};

/// Measures calls: reads `N` numbers, which only grow, at the beginning and at the end of each
/// call.
///
/// All methods run on hits, so they must not use the heap, take a lock or panic.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::calls::{CallEnd, LazyCalls, Meter};
/// use probe_runtime::consumer::Local;
/// use probe_runtime::{Consumer, Error, Event, ProbeSet, probe, select};
///
/// /// How deep calls are nested at most, on each thread.
/// struct Depth(LazyCalls<0, Self>);
///
/// impl Meter<0> for Depth {
///     type Head = AtomicU64;
///     type Part = ();
///     const NOTES: bool = true;
///
///     fn read(&self, _: Local<'_, AtomicU64, ()>) -> [u64; 0] {
///         []
///     }
///
///     fn read_inline(&self) -> Option<[u64; 0]> {
///         Some([])
///     }
///
///     // A call's note is its depth.
///     fn begin(&self, _: Local<'_, AtomicU64, ()>, _function: usize, outer: u64) -> u64 {
///         outer + 1
///     }
///
///     fn end(&self, ended: &CallEnd<'_, 0, AtomicU64, ()>) {
///         ended.head.store(ended.head.load(Relaxed).max(ended.note), Relaxed);
///     }
/// }
///
/// impl Consumer for Depth {
///     fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
///         self.0.prepare(probes)
///     }
///
///     fn hit(&self, event: &Event<'_>) {
///         self.0.hit(event, self);
///     }
/// }
///
/// #[probe]
/// fn descend(levels: u32) {
///     if levels > 1 {
///         descend(levels - 1);
///     }
/// }
///
/// let depth = select("**::descend")?.attach(Depth(LazyCalls::new()))?;
/// descend(3);
/// let calls = depth.0.get().unwrap();
/// assert_eq!(calls.heads().map(|local| local.head().load(Relaxed)).max(), Some(3));
/// # Ok::<(), Error>(())
/// ```
pub trait Meter<const N: usize> {
    /// The data that the meter keeps for each thread.
    type Head: Zeroed;
    /// The data that the meter keeps for each function on each thread.
    type Part: Zeroed;

    /// Whether [`begin`](Self::begin) is called. If not, all notes are 0.
    const NOTES: bool = false;

    /// Reads the numbers on this thread; `local` is the meter's data for it.
    fn read(&self, local: Local<'_, Self::Head, ()>) -> [u64; N];

    /// Reads the numbers, if that needs neither the meter's data nor a call of another function.
    /// Then most hits save no registers, and the end of a call is read before anything else. If
    /// this returns `None`, the hit takes a longer path that uses [`read`](Self::read).
    #[inline(always)]
    fn read_inline(&self) -> Option<[u64; N]> {
        None
    }

    /// Whether the numbers are in the meter's data for the thread, where [`read`](Self::read) is
    /// quick. Then the quick path uses that, and not [`read_inline`](Self::read_inline).
    const READS_LOCALLY: bool = false;

    /// Begins a call or a poll. Returns a note. The end of the call gets it as [`CallEnd::note`],
    /// and calls inside of it get it as `outer`. The outermost calls of a thread get 0 as `outer`.
    /// Only called if [`NOTES`](Self::NOTES) is `true`.
    fn begin(&self, local: Local<'_, Self::Head, ()>, function: usize, outer: u64) -> u64 {
        let _ = (local, function, outer);
        0
    }

    /// Whether all polls of a future have the note of its entry. [`begin`](Self::begin) is called
    /// for each, too, and its notes count at entries only.
    const KEEPS_NOTES: bool = false;

    /// Continues a future: its next poll has begun, or it is cancelled. `note` is that of its
    /// entry, and 0 if that was missed. Only called if [`KEEPS_NOTES`](Self::KEEPS_NOTES) is
    /// `true`.
    fn resume(&self, local: Local<'_, Self::Head, ()>, note: u64) {
        let _ = (local, note);
    }

    /// Returns the note of a call under way whose caller turns out to be another one: the call that
    /// seemed to be around it has ended on another stack of the thread. `outer` is the note of that
    /// caller, as in [`begin`](Self::begin).
    fn moved(&self, local: Local<'_, Self::Head, ()>, function: usize, outer: u64, note: u64) -> u64 {
        let _ = (local, function, outer);
        note
    }

    /// Whether [`CallEnd::is_recursive`] is told. If not, it is `false`.
    const RECURSION: bool = false;

    /// Ends a call or a poll.
    fn end(&self, ended: &CallEnd<'_, N, Self::Head, Self::Part>);
}

/// A call, or a poll of a future, that has ended, on the thread that made it.
///
/// ```
/// use std::sync::atomic::AtomicU64;
/// use probe_runtime::calls::{CallEnd, Meter, add_single_writer};
/// use probe_runtime::consumer::{Clock, Local};
///
/// /// The time in functions themselves, in ticks: for each of them, and for each thread.
/// struct OwnTime(Clock);
///
/// impl Meter<1> for OwnTime {
///     type Head = AtomicU64;
///     type Part = AtomicU64;
///
///     fn read(&self, _: Local<'_, AtomicU64, ()>) -> [u64; 1] {
///         [self.0.now()]
///     }
///
///     fn end(&self, ended: &CallEnd<'_, 1, AtomicU64, AtomicU64>) {
///         let [own] = ended.own(); // `elapsed` less `inner`
///         add_single_writer(ended.part, own);
///         add_single_writer(ended.head, own);
///     }
/// }
///
/// let (head, part) = (AtomicU64::new(0), AtomicU64::new(0));
/// OwnTime(Clock::new()).end(&CallEnd {
///     function: 0,
///     head: &head,
///     part: &part,
///     elapsed: [100],
///     inner: [30],
///     note: 0,
///     is_poll: false,
///     is_recursive: false,
///     completed: None,
/// });
/// assert_eq!((head.into_inner(), part.into_inner()), (70, 70));
/// ```
#[derive(Debug)]
pub struct CallEnd<'a, const N: usize, H, P> {
    /// The index of the function in [`Calls::functions`](super::Calls::functions).
    pub function: usize,
    /// The meter's data for this thread.
    pub head: &'a H,
    /// The meter's data for this function on this thread.
    pub part: &'a P,
    /// The growth of the numbers from the beginning to the end.
    pub elapsed: [u64; N],
    /// The part of `elapsed` that was spent in calls inside of this one, of measured functions.
    pub inner: [u64; N],
    /// The note from [`Meter::begin`].
    pub note: u64,
    /// Whether this is a poll of a future.
    pub is_poll: bool,
    /// Whether another call of the function is under way around this one, on this thread. Only told
    /// to meters that [ask](Meter::RECURSION).
    pub is_recursive: bool,
    /// The whole call, if this was its end. `None` for a poll that ends without a result, and for a
    /// future whose entry was missed.
    pub completed: Option<CompletedCall<N>>,
}

impl<const N: usize, H, P> CallEnd<'_, N, H, P> {
    /// Returns the part of `elapsed` that was not spent in calls inside of this one.
    pub fn own(&self) -> [u64; N] {
        difference(self.elapsed, self.inner)
    }
}

/// A call from its entry to its exit.
///
/// ```
/// use probe_runtime::calls::CompletedCall;
///
/// /// For how many ticks a future was not polled.
/// fn awaited(call: &CompletedCall<1>) -> u64 {
///     call.total[0].saturating_sub(call.busy[0])
/// }
///
/// assert_eq!(awaited(&CompletedCall { total: [1_000], busy: [300] }), 700);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletedCall<const N: usize> {
    /// The growth from entry to exit. For a future, only a clock gives a meaningful difference:
    /// between its polls it may move to another thread.
    pub total: [u64; N],
    /// The growth during all polls of a future. For other calls, the same as `total`.
    pub busy: [u64; N],
}

/// Hits of a function that found no partner, and futures that were cancelled.
///
/// ```
/// use probe_runtime::calls::Unpaired;
/// let unpaired = Unpaired { without_entry: 1, without_exit: 2, cancelled: 4, pending: 8 };
/// assert_eq!(unpaired.total(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Unpaired {
    /// Exits of calls that began before the sites were switched on.
    pub without_entry: u64,
    /// Entries of calls whose exit can't come any more: the sites were switched, or the call was
    /// left by `longjmp` or an exception.
    pub without_exit: u64,
    /// Futures that were dropped before their end. They have an entry and no exit.
    pub cancelled: u64,
    /// Futures that were entered, and have neither ended nor been cancelled so far.
    pub pending: u64,
}

impl Unpaired {
    /// Returns the number of hits without a partner: entries without exits, and exits without
    /// entries.
    pub fn total(self) -> u64 {
        self.without_entry + self.without_exit
    }

    /// Returns the hits after an earlier reading. `pending` stays as it is now.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            without_entry: self.without_entry.saturating_sub(earlier.without_entry),
            without_exit: self.without_exit.saturating_sub(earlier.without_exit),
            cancelled: self.cancelled.saturating_sub(earlier.cancelled),
            pending: self.pending,
        }
    }
}

/// Subtracts with saturation, because the clocks of different processors may differ slightly.
#[inline(always)]
pub(super) fn difference<const N: usize>(now: [u64; N], start: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(start[at]))
}
