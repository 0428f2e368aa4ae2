//! What a consumer says of its measurements, and what it is told of calls.

use crate::per_thread::{Local, Zeroed};

/// What is measured of calls: `N` numbers that only grow, read where a call begins and where it
/// ends.
///
/// Its methods are called on hits: no heap, no lock, no panic.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::calls::{Ended, Meter, OnceCalls};
/// use probe_runtime::{Consumer, Error, Event, Local, ProbeSet, probe, select};
///
/// /// How deep calls are nested at most, on each thread.
/// struct Depth(OnceCalls<0, Self>);
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
///     fn glance(&self) -> Option<[u64; 0]> {
///         Some([])
///     }
///
///     // A call's note is how deep it is.
///     fn begin(&self, _: Local<'_, AtomicU64, ()>, _function: usize, outer: u64) -> u64 {
///         outer + 1
///     }
///
///     fn end(&self, ended: &Ended<'_, 0, AtomicU64, ()>) {
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
/// let depth = select("**::descend")?.attach(Depth(OnceCalls::new()))?;
/// descend(3);
/// let calls = depth.0.get().unwrap();
/// assert_eq!(calls.heads().map(|local| local.head().load(Relaxed)).max(), Some(3));
/// # Ok::<(), Error>(())
/// ```
pub trait Meter<const N: usize> {
    /// What it keeps for each thread.
    type Head: Zeroed;
    /// What it keeps for each function, on each thread.
    type Part: Zeroed;

    /// Whether [`begin`](Self::begin) is called. Where it is not, all notes are 0.
    const NOTES: bool = false;

    /// The numbers as they are now, on this thread, for which it keeps `local`.
    fn read(&self, local: Local<'_, Self::Head, ()>) -> [u64; N];

    /// The same, of numbers for which nothing is kept, if that takes no call of another function:
    /// then most hits need none, and no registers are kept over one; and a call's end is read
    /// before all else. `None` sends a hit the long way, which uses [`read`](Self::read).
    #[inline(always)]
    fn glance(&self) -> Option<[u64; N]> {
        None
    }

    /// A call, or a poll, begins. Returns a note that the call's [end](Ended::note) gets, and the
    /// calls inside as `outer`. The outermost calls of a thread get 0. Called if
    /// [`NOTES`](Self::NOTES) says so.
    fn begin(&self, local: Local<'_, Self::Head, ()>, function: usize, outer: u64) -> u64 {
        let _ = (local, function, outer);
        0
    }

    /// A call, or a poll, has ended.
    fn end(&self, ended: &Ended<'_, N, Self::Head, Self::Part>);
}

/// A call, or a poll of a future, that has ended, on the thread that made it.
///
/// ```
/// use std::sync::atomic::AtomicU64;
/// use probe_runtime::calls::{Ended, Meter, add};
/// use probe_runtime::{Clock, Local};
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
///     fn end(&self, ended: &Ended<'_, 1, AtomicU64, AtomicU64>) {
///         let [own] = ended.own(); // `elapsed` less `inner`
///         add(ended.part, own);
///         add(ended.head, own);
///     }
/// }
///
/// let (head, part) = (AtomicU64::new(0), AtomicU64::new(0));
/// OwnTime(Clock::new()).end(&Ended {
///     function: 0,
///     head: &head,
///     part: &part,
///     elapsed: [100],
///     inner: [30],
///     note: 0,
///     is_poll: false,
///     whole: None,
/// });
/// assert_eq!((head.into_inner(), part.into_inner()), (70, 70));
/// ```
#[derive(Debug)]
pub struct Ended<'a, const N: usize, H, P> {
    /// Which of [`Calls::functions`](super::Calls::functions).
    pub function: usize,
    /// What the meter keeps for this thread.
    pub head: &'a H,
    /// What it keeps for this function on this thread.
    pub part: &'a P,
    /// How much the numbers have grown from its begin to its end.
    pub elapsed: [u64; N],
    /// How much of that in calls inside, of functions that are measured, too.
    pub inner: [u64; N],
    /// What [`Meter::begin`] has returned.
    pub note: u64,
    /// Whether it is a poll of a future.
    pub is_poll: bool,
    /// The whole of it, if this was its end. `None` of a poll that ends without a result, and of a
    /// future whose entry was not seen.
    pub whole: Option<Whole<N>>,
}

impl<const N: usize, H, P> Ended<'_, N, H, P> {
    /// How much of it in no call inside.
    pub fn own(&self) -> [u64; N] {
        difference(self.elapsed, self.inner)
    }
}

/// A call from its entry to its exit.
///
/// ```
/// use probe_runtime::calls::Whole;
///
/// /// For how many ticks a future was not polled.
/// fn awaited(whole: &Whole<1>) -> u64 {
///     whole.total[0].saturating_sub(whole.busy[0])
/// }
///
/// assert_eq!(awaited(&Whole { total: [1_000], busy: [300] }), 700);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole<const N: usize> {
    /// From entry to exit. Of a future, only a clock tells something in between its polls; they may
    /// be on several threads.
    pub total: [u64; N],
    /// In all its polls. Of other calls the same as `total`.
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
    /// Exits, of calls that began before the sites were switched on.
    pub without_entry: u64,
    /// Entries, of calls whose exits can't come any more: the sites were switched, or the call was
    /// left by `longjmp` or an exception.
    pub without_exit: u64,
    /// Futures that were dropped before their end. They had an entry, and have no exit.
    pub cancelled: u64,
    /// Futures that have been entered, and have neither ended nor been cancelled so far.
    pub pending: u64,
}

impl Unpaired {
    /// Entries without exits and exits without entries.
    pub fn total(self) -> u64 {
        self.without_entry + self.without_exit
    }

    /// Those that came after an earlier reading; pending are those that are pending now.
    #[cfg(feature = "latency")]
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            without_entry: self.without_entry.saturating_sub(earlier.without_entry),
            without_exit: self.without_exit.saturating_sub(earlier.without_exit),
            cancelled: self.cancelled.saturating_sub(earlier.cancelled),
            pending: self.pending,
        }
    }
}

/// Of clocks that are not quite the same on all processors, never less than nothing.
#[inline(always)]
pub(super) fn difference<const N: usize>(now: [u64; N], start: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(start[at]))
}
