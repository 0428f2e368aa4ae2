//! When threads were off the processor: the waits of each thread, from the kernel's records of its
//! switches.
//!
//! ```text
//! first hit ▶ lets the kernel write records of this thread
//! hit ▶ there is a new record ▶ reads the waits since the last hit, without a system call
//!     ▶ otherwise ▶ nothing
//! thread ends ▶ the next thread that gets its memory, or the end of the consumer, unmaps them
//! fork ▶ the child's threads get records of their own
//! ```
//! A thread that reads is on a processor, so each wait that it reads is over. Another thread may
//! [read](ThreadWaits::look) the records, too, and learns whether the thread is off a processor. If
//! it is, `/proc` [tells](ThreadWaits::see) the system call.
//!
//! The page of an event would tell CPU time alone, and only where the kernel's clock is that of the
//! processor (`cap_user_time`): in virtual machines it mostly is another.
//!
//! Cost: four loads for a hit without a new record. A thread takes 36 KiB of memory that the kernel
//! locks: `kernel.perf_event_mlock_kb` and `RLIMIT_MEMLOCK` limit the number of threads.

// Safety: relies on zeroes being a thread without records, and on records being read only where
// they stay mapped: by the thread that has mapped them, in its process, and by others while they
// are counted in `readers`.
#![expect(unsafe_code, reason = "see above")]

#[cfg(feature = "trace")]
pub(crate) mod polled;
mod published;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, fence};

use published::Published;

use crate::engine::calls::add_single_writer;
use crate::engine::clock::Clock;
use crate::engine::os::perf::{ProcessNumber, Switch, SwitchBuffer, SystemCall, Turn, preserve_errno};
use crate::engine::os::{thread, time};
use crate::engine::per_thread::Zeroed;

/// A time in which a thread was off the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    /// Whether it could have continued all along, and waited for a processor.
    pub(crate) is_ready: bool,
    /// Whether the thread has ended.
    pub(crate) has_ended: bool,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub(crate) begin: u64,
    /// `None` if it continues, or the thread has ended.
    pub(crate) end: Option<u64>,
    /// The processors before and after; 0 where they are not known.
    pub(crate) processors: [u32; 2],
    /// The system call in which it was [seen](ThreadWaits::see).
    pub(crate) call: Option<SystemCall>,
}

/// A wait that a hit finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Wait(Wait),
    /// There were more waits here, which are not known.
    Lost,
}

/// The numbers of a reading: ticks of a clock, nanoseconds in which the thread was blocked, and in
/// which it was ready; and how often waits were lost. If the latter differs between two readings,
/// the differences of the two before it say nothing.
pub(crate) const NUMBERS: usize = 4;

/// The waits of one thread.
#[derive(Default)]
#[repr(C)]
pub(crate) struct ThreadWaits {
    /// The number of the thread whose records are mapped; 0 if there are none.
    owner: AtomicU64,
    /// The number of the process that has mapped them.
    process: AtomicU64,
    /// The address of the records; 0 if the kernel refused them.
    buffer: AtomicUsize,
    /// The place behind the last record that was read.
    read: AtomicU64,
    blocked: AtomicU64,
    ready: AtomicU64,
    breaks: AtomicU64,
    /// Other threads that read the records.
    readers: AtomicU32,
    /// Threads that got no records, and the error of the last one.
    refused: AtomicU64,
    error: AtomicI32,
    /// The system's id of the owner.
    tid: AtomicU32,
    /// The wait in which the thread was last seen: its beginning, and the system call.
    seen: Published<4>,
}

// SAFETY: atomics only.
unsafe impl Zeroed for ThreadWaits {}

impl Wait {
    fn took(self) -> u64 {
        self.end.map_or(0, |end| end.saturating_sub(self.begin))
    }
}

/// Puts switches together to waits.
#[derive(Default)]
struct Waits {
    off: Option<Switch>,
}

impl Waits {
    /// Takes the next switch; `None` stands for lost ones.
    fn next(&mut self, switch: Option<Switch>) -> Option<Found> {
        let Some(switch) = switch else {
            self.off = None;
            return Some(Found::Lost);
        };
        let off = self.off.take();
        match switch.turn {
            Turn::On => off.map(|off| Found::Wait(Self::wait(off, Some(switch)))),
            Turn::Ended => Some(Found::Wait(Self::wait(switch, None))),
            Turn::Blocked | Turn::Ready => {
                self.off = Some(switch);
                None
            }
        }
    }

    /// Returns the wait that continues.
    fn open(&self) -> Option<Wait> {
        self.off.map(|off| Self::wait(off, None))
    }

    fn wait(off: Switch, on: Option<Switch>) -> Wait {
        let processors = [off.processor, on.map_or(off.processor, |on| on.processor)];
        Wait {
            is_ready: off.turn == Turn::Ready,
            has_ended: off.turn == Turn::Ended,
            begin: off.time,
            end: on.map(|on| on.time),
            processors,
            call: None,
        }
    }
}

/// Returns whether the kernel permits records of this thread.
///
/// # Errors
/// The error number of [`SwitchBuffer::open`].
pub(crate) fn permitted() -> Result<(), i32> {
    SwitchBuffer::open().map(SwitchBuffer::unmap)
}

impl ThreadWaits {
    /// Reads the clock, and passes on the waits since this thread's last hit. Its first hit gets
    /// those of the ended thread that was here before. Each comes with its thread's number.
    #[inline(always)]
    pub(crate) fn now(
        &self,
        thread: u64,
        process: ProcessNumber,
        clock: Clock,
        mut each: impl FnMut(u64, Found),
    ) -> [u64; NUMBERS] {
        let is_known = self.owner.load(Relaxed) == thread && self.process.load(Relaxed) == process.known();
        let is_open = is_known || self.open(thread, process, &mut each);
        let has_records = is_open && self.buffer.load(Relaxed) != 0;
        if !has_records {
            // Nothing is known since the reading before.
            add_single_writer(&self.breaks, 1);
        }
        loop {
            let now = clock.now();
            // A wait between the two would be in one of them alone.
            if !has_records || self.is_current() {
                return [
                    now,
                    self.blocked.load(Relaxed),
                    self.ready.load(Relaxed),
                    self.breaks.load(Relaxed),
                ];
            }
            self.read_new(|found| each(thread, found));
        }
    }

    /// Returns whether all records were read. This thread is the owner, and has records.
    #[inline(always)]
    fn is_current(&self) -> bool {
        let buffer = SwitchBuffer(self.buffer.load(Relaxed));
        // SAFETY: this thread has mapped it, in this process.
        unsafe { buffer.end() == self.read.load(Relaxed) }
    }

    #[cold]
    fn read_new(&self, mut each: impl FnMut(Found)) {
        let mut waits = Waits::default();
        let buffer = SwitchBuffer(self.buffer.load(Relaxed));
        // SAFETY: this thread has mapped it, in this process.
        let end = unsafe {
            buffer.read(self.read.load(Relaxed), |switch| {
                let Some(found) = waits.next(switch).map(|found| self.with_call(found)) else { return };
                match found {
                    Found::Lost => add_single_writer(&self.breaks, 1),
                    Found::Wait(wait) => {
                        let sum = if wait.is_ready { &self.ready } else { &self.blocked };
                        add_single_writer(sum, wait.took());
                    }
                }
                each(found);
            })
        };
        self.read.store(end, Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn open(&self, thread: u64, process: ProcessNumber, each: &mut impl FnMut(u64, Found)) -> bool {
        let process = process.get();
        let before = self.owner.load(Relaxed);
        if before != 0 && self.process.load(Relaxed) == process {
            self.look_at_ended(before, process, |found| each(before, found));
        }
        // Waits between earlier readings and later ones are not known.
        add_single_writer(&self.breaks, 1);
        // Those who read before a fork are the parent's.
        if self.process.load(Relaxed) != process {
            self.readers.store(0, Relaxed);
        }
        // Where another thread reads the records of the one before, the next hit tries again.
        if !self.close(process) {
            return false;
        }
        let opened = preserve_errno(SwitchBuffer::open);
        if let Err(error) = opened {
            add_single_writer(&self.refused, 1);
            self.error.store(error, Relaxed);
        }
        self.buffer.store(opened.map_or(0, |buffer| buffer.0), Relaxed);
        self.read.store(0, Relaxed);
        self.process.store(process, Relaxed);
        self.tid.store(thread::id(), Relaxed);
        self.owner.store(thread, SeqCst);
        true
    }

    /// Gives back the records of a thread that has ended, or makes no more hits. Returns `false` if
    /// another thread reads them.
    pub(crate) fn close(&self, process: u64) -> bool {
        let owner = self.owner.swap(0, SeqCst);
        fence(SeqCst);
        if owner == 0 {
            return true;
        }
        // Forked children have no such mapping.
        if self.process.load(Relaxed) != process {
            return true;
        }
        if self.readers.load(Relaxed) != 0 {
            self.owner.store(owner, SeqCst);
            return false;
        }
        let buffer = self.buffer.load(Relaxed);
        if buffer != 0 {
            preserve_errno(|| SwitchBuffer(buffer).unmap());
        }
        true
    }

    /// Returns the number of the thread whose records are here; 0 if there are none.
    pub(crate) fn owner(&self) -> u64 {
        self.owner.load(Relaxed)
    }

    /// Passes on the waits of a thread since its last hit, in order, if its records are here. The
    /// last one may continue.
    pub(crate) fn look(&self, thread: u64, process: u64, mut each: impl FnMut(Found)) {
        self.readers.fetch_add(1, SeqCst);
        fence(SeqCst);
        let is_here = self.owner.load(SeqCst) == thread && thread != 0;
        let is_mapped = is_here && self.process.load(Relaxed) == process;
        let buffer = self.buffer.load(Relaxed);
        if is_mapped && buffer != 0 {
            let mut waits = Waits::default();
            // SAFETY: nobody unmaps it while there are readers.
            unsafe {
                SwitchBuffer(buffer).read(self.read.load(Relaxed), |switch| {
                    waits.next(switch).into_iter().for_each(|found| each(self.with_call(found)));
                });
            }
            waits.open().into_iter().for_each(|wait| each(self.with_call(Found::Wait(wait))));
        }
        self.readers.fetch_sub(1, SeqCst);
    }

    /// Does the same for a thread that has ended, or is about to: its last wait has no end. The
    /// kernel tells the time, shortly after other threads may learn of the end.
    pub(crate) fn look_at_ended(&self, thread: u64, process: u64, mut each: impl FnMut(Found)) {
        let mut last = None;
        self.look(thread, process, |found| {
            let found = match found {
                Found::Wait(wait) => Found::Wait(Wait { has_ended: wait.end.is_none(), ..wait }),
                Found::Lost => Found::Lost,
            };
            last = Some(found);
            each(found);
        });
        let processor = match last {
            Some(Found::Wait(Wait { end: None, .. })) => return,
            Some(Found::Wait(Wait { processors: [_, after], .. })) => after,
            Some(Found::Lost) | None => 0,
        };
        let begin = time::monotonic();
        let processors = [processor; 2];
        let (end, call) = (None, None);
        each(Found::Wait(Wait { is_ready: false, has_ended: true, begin, end, processors, call }));
    }

    /// Sees in which system call a thread waits. `read` tells that of the thread with this id.
    /// Called by one thread at a time, while the thread with this number is alive.
    pub(crate) fn see(&self, thread: u64, process: u64, read: impl FnOnce(u32) -> Option<SystemCall>) {
        let wait = || {
            let mut last = None;
            self.look(thread, process, |found| last = Some(found));
            let Some(Found::Wait(wait)) = last else { return None };
            (wait.end.is_none() && !wait.is_ready && !wait.has_ended).then_some(wait)
        };
        let Some(Wait { begin, call: None, .. }) = wait() else { return };
        let call = read(self.tid.load(Relaxed));
        // It is that of this wait if the wait still continues.
        if let Some(SystemCall { name: [name, rest], argument }) = call
            && wait().is_some_and(|it| it.begin == begin)
        {
            self.seen.publish([begin, name, rest, argument]);
        }
    }

    /// Adds the system call in which a wait was seen.
    fn with_call(&self, found: Found) -> Found {
        let Found::Wait(wait) = found else { return found };
        let is_blocked = !wait.is_ready && !wait.has_ended;
        let seen = self.seen.read().filter(|[begin, ..]| is_blocked && *begin == wait.begin && *begin != 0);
        let call = seen.map(|[_, name, rest, argument]| SystemCall { name: [name, rest], argument });
        Found::Wait(Wait { call, ..wait })
    }

    /// Returns the number of threads that got no records, and the error of the last one.
    pub(crate) fn refused(&self) -> (u64, i32) {
        (self.refused.load(Relaxed), self.error.load(Relaxed))
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::engine::os::perf::process;

    fn off(time: u64, is_ready: bool) -> Switch {
        Switch { turn: if is_ready { Turn::Ready } else { Turn::Blocked }, time, processor: 1 }
    }

    fn on(time: u64) -> Switch {
        Switch { turn: Turn::On, time, processor: 2 }
    }

    fn found(switches: &[Option<Switch>]) -> (Vec<Found>, Option<Wait>) {
        let mut waits = Waits::default();
        let found = switches.iter().filter_map(|switch| waits.next(*switch)).collect();
        (found, waits.open())
    }

    #[test]
    fn a_wait_lasts_from_off_to_on() {
        let wait = |is_ready, begin, end| Wait {
            is_ready,
            has_ended: false,
            begin,
            end,
            processors: [1, 2],
            call: None,
        };
        let first = Found::Wait(wait(false, 10, Some(20)));
        let second = Found::Wait(wait(true, 30, Some(31)));
        let switches = [off(10, false), on(20), off(30, true), on(31)].map(Some);
        assert_eq!(found(&switches), (vec![first, second], None));
        // Its end is not known, nor is its beginning.
        let open = Wait { processors: [1, 1], ..wait(true, 30, None) };
        assert_eq!(found(&switches[..3]), (vec![first], Some(open)));
        assert_eq!(found(&switches[1..]), (vec![second], None));
        // A wait whose end was lost is lost, too.
        let lost = [switches[0], None, switches[1], switches[2], switches[3]];
        assert_eq!(found(&lost), (vec![Found::Lost, second], None));
        // A thread ends on its processor.
        let end = Switch { turn: Turn::Ended, time: 40, processor: 2 };
        let ended = Wait { has_ended: true, processors: [2, 2], ..wait(false, 40, None) };
        assert_eq!(found(&[Some(end)]), (vec![Found::Wait(ended)], None));
    }

    #[test]
    fn a_thread_knows_its_waits_and_others_its_last_one() {
        let process = process().unwrap();
        if let Err(error) = permitted() {
            return eprintln!("not permitted: {error}");
        }
        let (waits, clock) = (&ThreadWaits::default(), Clock::new());
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                let [_, before, ..] = waits.now(7, process, clock, |_, _| ());
                thread::sleep(Duration::from_millis(1));
                let [_, after, _, breaks] = waits.now(7, process, clock, |_, _| ());
                assert!(after > before && breaks == 1, "{before} {after} {breaks}");
                receiver.recv().unwrap();
            });
            let mut last = None;
            while !last.is_some_and(|it: Wait| it.end.is_none() && !it.is_ready) {
                thread::yield_now();
                waits.look(7, process.get(), |found| match found {
                    Found::Wait(wait) => last = Some(wait),
                    Found::Lost => panic!("there are few"),
                });
            }
            sender.send(()).unwrap();
            waiting.join().unwrap();
        });
        assert!(waits.close(process.get()) && waits.owner.load(Relaxed) == 0);
        [0, 7].into_iter().for_each(|of| waits.look(of, process.get(), |_| panic!("nothing is here")));
    }

    #[test]
    fn a_thread_that_has_ended_stays_ended_since_then() {
        let process = process().unwrap();
        if let Err(error) = permitted() {
            return eprintln!("not permitted: {error}");
        }
        let (waits, clock) = (&ThreadWaits::default(), Clock::new());
        let began = thread::scope(|scope| {
            let run = || {
                waits.now(7, process, clock, |_, _| ());
                time::monotonic()
            };
            scope.spawn(run).join().unwrap()
        });
        let mut last = None;
        // Until the kernel has told the end.
        while !last.is_some_and(|it: Wait| it.has_ended) {
            thread::yield_now();
            waits.look(7, process.get(), |found| match found {
                Found::Wait(wait) => last = Some(wait),
                Found::Lost => panic!("there are few"),
            });
        }
        let (known, learned) = (last.unwrap(), time::monotonic());
        assert!(began <= known.begin && known.begin <= learned, "{began} {known:?} {learned}");
        // A later look finds the same. The next thread with this memory hands it on.
        let again = || {
            let mut last = None;
            waits.look_at_ended(7, process.get(), |found| last = Some(found));
            last
        };
        assert_eq!(again(), Some(Found::Wait(known)));
        let mut handed_on = None;
        waits.now(8, process, clock, |thread, found| {
            if thread == 7 {
                handed_on = Some(found);
            }
        });
        assert_eq!(handed_on, Some(Found::Wait(known)));
        assert!(waits.close(process.get()));
    }
}
