//! Waits of threads as `/proc` shows them, where the kernel tells nobody their switches.
//!
//! ```text
//! first hit ▶ leaves the thread's id
//! another thread ▶ looks at all threads, in intervals ▶ publishes the wait in which it sees one
//! hit ▶ there is a new wait, which is over ▶ takes it, without a system call
//! ```
//! A thread that is blocked at two looks, and got no turn in between, was blocked all the time. Its
//! wait lasts from the one look to the other, and a little longer. Shorter waits are not seen, nor
//! is whether a thread that is not blocked runs.
//!
//! A wait is published while it lasts, so that the next hit finds it, and a thread's times come in
//! order. It goes to a queue if the next wait comes before a hit.
//!
//! Cost: four loads on a hit, and 1.7 KiB for a thread. A look reads three files for each thread.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::published::Published;
use super::{Found, Wait};
use crate::engine::calls::add_single_writer;
use crate::engine::os::perf::{SystemCall, system_call, turns};
use crate::engine::os::{thread, time};
use crate::engine::per_thread::Zeroed;

/// The most waits in the queue.
const ROOM: usize = 32;

/// The waits of one thread that it has not taken.
#[derive(Default)]
#[repr(C)]
pub(crate) struct PolledWaits {
    /// The number of the thread that hits.
    owner: AtomicU64,
    /// The system's id of it.
    tid: AtomicU32,
    /// How often the thread of the current wait had got its turn; 0 if it is blocked no more.
    blocked: AtomicU64,
    /// The latest wait.
    current: Published<WORDS>,
    /// The begin of the last current wait that the thread has taken.
    begin_taken: AtomicU64,
    /// Numbers of waits that came to the queue, and of those that left it.
    put: AtomicU64,
    taken: AtomicU64,
    /// Numbers of waits that had no room, and of those that the thread knows of.
    lost: AtomicU64,
    lost_passed_on: AtomicU64,
    queue: [(Place, LostBefore); ROOM],
}

/// The thread's number, the wait's begin and end, and its system call.
type Place = [AtomicU64; WORDS];
const WORDS: usize = 6;
/// The number of lost waits when this one came to the queue.
type LostBefore = AtomicU64;
const BEGIN: usize = 1;

#[expect(unsafe_code, reason = "see the line below")]
// SAFETY: atomics only.
unsafe impl Zeroed for PolledWaits {}

/// A wait in a place.
#[derive(Clone, Copy, Default)]
struct Polled {
    thread: u64,
    /// `CLOCK_MONOTONIC` of the first look, and of the last one.
    begin: u64,
    end: u64,
    call: SystemCall,
}

/// Numbers of waits that have come to the queue, and of those that had no room.
#[derive(Clone, Copy)]
struct Until {
    put: u64,
    lost: u64,
}

impl Polled {
    fn of([thread, begin, end, name, rest, argument]: [u64; WORDS]) -> Self {
        Self { thread, begin, end, call: SystemCall { name: [name, rest], argument } }
    }

    fn load(place: &Place) -> Self {
        Self::of(place.each_ref().map(|word| word.load(Relaxed)))
    }

    fn words(self) -> [u64; WORDS] {
        let Self { thread, begin, end, call: SystemCall { name: [name, rest], argument } } = self;
        [thread, begin, end, name, rest, argument]
    }

    /// Returns whether two looks have found it.
    fn has_lasted(self) -> bool {
        self.end > self.begin
    }

    fn wait(self, end: Option<u64>) -> Found {
        let (begin, call) = (self.begin, Some(self.call));
        Found::Wait(Wait { is_ready: false, has_ended: false, begin, end, processors: [0; 2], call })
    }
}

impl PolledWaits {
    /// Passes on the waits of this thread since its last hit, each with the thread's number. The
    /// first hit passes on those of the thread before.
    #[inline(always)]
    pub(crate) fn take(&self, thread: u64, each: impl FnMut(u64, Found)) {
        if self.owner.load(Relaxed) != thread {
            self.own(thread);
        }
        let is_new = self.current.words[BEGIN].load(Relaxed) != self.begin_taken.load(Relaxed);
        if is_new || self.put.load(Relaxed) != self.taken.load(Relaxed) {
            self.take_new(each);
        }
    }

    #[cold]
    fn own(&self, thread: u64) {
        self.tid.store(thread::id(), Relaxed);
        self.owner.store(thread, Release);
    }

    #[cold]
    #[inline(never)]
    fn take_new(&self, mut each: impl FnMut(u64, Found)) {
        // First, since it may come to the queue meanwhile.
        let current = self.current.read().map(Polled::of);
        let until = self.until();
        let mut last = self.look_at_queue(until, &mut each);
        if let Some(current) = current.filter(|current| current.begin > last) {
            last = current.begin;
            if current.has_lasted() {
                each(current.thread, current.wait(Some(current.end)));
            }
        }
        // Later looks can't add to these.
        self.begin_taken.store(last, Relaxed);
        self.lost_passed_on.store(until.lost, Relaxed);
        self.taken.store(until.put, Release);
    }

    /// Passes on the waits of the queue, and that there were more. Returns the begin of the last
    /// one that the thread has taken now.
    fn look_at_queue(&self, until: Until, each: &mut impl FnMut(u64, Found)) -> u64 {
        let mut last = self.begin_taken.load(Relaxed);
        let mut passed_on = self.lost_passed_on.load(Relaxed);
        let mut tell = |lost, each: &mut dyn FnMut(u64, Found)| {
            if std::mem::replace(&mut passed_on, lost) != lost {
                each(self.owner.load(Relaxed), Found::Lost);
            }
        };
        for number in self.taken.load(Relaxed)..until.put {
            let (place, lost_before) = self.place(number);
            tell(lost_before.load(Relaxed), each);
            let it = Polled::load(place);
            // The thread may have taken it while it came to the queue.
            if it.begin > last {
                last = it.begin;
                each(it.thread, it.wait(Some(it.end)));
            }
        }
        tell(until.lost, each);
        last
    }

    fn until(&self) -> Until {
        Until { put: self.put.load(Acquire), lost: self.lost.load(Relaxed) }
    }

    /// Puts a wait into the queue that is over, unless the thread has taken it.
    fn put(&self, polled: Polled) {
        if !polled.has_lasted() || self.begin_taken.load(Relaxed) >= polled.begin {
            return;
        }
        let put = self.put.load(Relaxed);
        if put - self.taken.load(Acquire) == ROOM as u64 {
            return add_single_writer(&self.lost, 1);
        }
        let (place, lost_before) = self.place(put);
        place.iter().zip(polled.words()).for_each(|(place, word)| place.store(word, Relaxed));
        lost_before.store(self.lost.load(Relaxed), Relaxed);
        self.put.store(put + 1, Release);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a remainder")]
    fn place(&self, number: u64) -> &(Place, LostBefore) {
        &self.queue[number as usize % ROOM]
    }
}

/// Returns whether `/proc` tells this process how often its threads get their turn.
pub(crate) fn is_possible() -> bool {
    turns(thread::id()).is_some()
}

/// The side of the thread that looks. One at a time does.
impl PolledWaits {
    /// Looks at a thread, if it has made a hit.
    pub(crate) fn look(&self, thread: u64) {
        if self.owner.load(Acquire) == thread {
            let tid = self.tid.load(Relaxed);
            let before = time::monotonic();
            let blocked = blocked(|| turns(tid), || system_call(tid));
            self.see(thread, [before, time::monotonic()], blocked);
        }
    }

    /// Sees that the thread has ended, or is not blocked.
    pub(crate) fn end(&self) {
        self.blocked.store(0, Relaxed);
    }

    /// Sees that a thread is blocked between two times, or not.
    fn see(&self, thread: u64, [before, after]: [u64; 2], blocked: Option<(u64, SystemCall)>) {
        let known = Polled::load(&self.current.words);
        let Some((turns, call)) = blocked else { return self.end() };
        if known.thread == thread && self.blocked.load(Relaxed) == turns {
            return self.current.publish(Polled { end: before, ..known }.words());
        }
        self.put(known);
        self.current.publish(Polled { thread, begin: after, end: after, call }.words());
        self.blocked.store(turns, Relaxed);
    }

    /// Passes on the waits of a thread that it has not taken. The last one may continue.
    pub(crate) fn last(&self, thread: u64, mut each: impl FnMut(Found)) {
        let mut of_thread = |of, found| {
            if of == thread {
                each(found);
            }
        };
        let last = self.look_at_queue(self.until(), &mut of_thread);
        let current = Polled::load(&self.current.words);
        let continues = self.blocked.load(Relaxed) != 0;
        if current.begin > last && (continues || current.has_lasted()) {
            of_thread(current.thread, current.wait((!continues).then_some(current.end)));
        }
    }
}

/// Returns how often a blocked thread has got its turn, and its system call. `None` if it is not
/// blocked, or has got a turn meanwhile.
fn blocked(
    turns: impl Fn() -> Option<u64>,
    call: impl FnOnce() -> Option<SystemCall>,
) -> Option<(u64, SystemCall)> {
    let before = turns()?;
    let call = call()?;
    (turns()? == before).then_some((before, call))
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: SystemCall = SystemCall { name: [1, 0], argument: 5 };

    fn taken(waits: &PolledWaits, thread: u64) -> Vec<(u64, Option<[u64; 2]>)> {
        let mut taken = Vec::new();
        waits.take(thread, |of, found| {
            let times = |wait: Wait| [wait.begin, wait.end.unwrap_or(0)];
            taken.push((of, if let Found::Wait(wait) = found { Some(times(wait)) } else { None }));
        });
        taken
    }

    #[test]
    fn a_wait_lasts_from_look_to_look_without_a_turn_in_between() {
        let waits = PolledWaits::default();
        assert_eq!(taken(&waits, 7), []);
        let see = |at, turns: Option<u64>| {
            waits.see(7, [at, at + 1], turns.map(|turns| (turns, READ)));
        };
        see(10, Some(3));
        see(20, Some(3));
        see(30, Some(3));
        // Another wait, which was over before anybody looked again.
        see(40, Some(4));
        see(50, Some(6));
        see(60, Some(6));
        see(70, None);
        see(80, None);
        see(90, Some(7));
        let last = || {
            let mut last = Vec::new();
            waits.last(7, |found| last.push(found));
            last
        };
        let wait = |begin, end| Polled { thread: 7, begin, end: 0, call: READ }.wait(end);
        assert_eq!(last(), [wait(11, Some(30)), wait(51, Some(60)), wait(91, None)]);
        assert_eq!(taken(&waits, 7), [(7, Some([11, 30])), (7, Some([51, 60]))]);
        // The hit was after the look, so that wait is over, too.
        assert_eq!((last(), taken(&waits, 7)), (vec![], vec![]));
        waits.see(7, [100, 101], Some((7, READ)));
        assert_eq!(taken(&waits, 7), []);
        waits.see(7, [110, 111], Some((8, READ)));
        waits.see(7, [120, 121], Some((8, READ)));
        waits.end();
        assert_eq!(last(), [wait(111, Some(120))]);
        // A later thread gets the memory, and hands on what the one before had left.
        assert_eq!(taken(&waits, 8), [(7, Some([111, 120]))]);
    }

    #[test]
    fn waits_without_room_are_told() {
        let waits = PolledWaits::default();
        for turns in 0..40 {
            let at = turns * 10 + 10;
            waits.see(7, [at, at + 1], Some((turns, READ)));
            waits.see(7, [at + 5, at + 6], Some((turns, READ)));
        }
        let all = taken(&waits, 7);
        // The queue has the first 32, and the last one is current.
        assert_eq!((all.len(), all[31], all[33]), (34, (7, Some([321, 325])), (7, Some([401, 405]))));
        assert_eq!(all[32], (7, None));
        assert_eq!(taken(&waits, 7), []);
    }

    /// One thread publishes waits, and another takes them: whole ones, each once, in order.
    #[test]
    fn a_wait_is_taken_whole() {
        let waits = PolledWaits::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for begin in 1..20_000 {
                    waits.put(Polled::load(&waits.current.words));
                    let call = SystemCall { name: [begin; 2], argument: begin };
                    waits.current.publish(Polled { thread: 7, begin, end: begin + 1, call }.words());
                }
            });
            let (mut last, mut are_lost) = (0, false);
            while last < 19_999 {
                waits.take(7, |_, found| {
                    let Found::Wait(wait) = found else { return are_lost = true };
                    let call = SystemCall { name: [wait.begin; 2], argument: wait.begin };
                    assert_eq!((wait.end, wait.call), (Some(wait.begin + 1), Some(call)));
                    assert!(wait.begin == last + 1 || are_lost, "{} after {last}", wait.begin);
                    assert!(wait.begin > last, "{} after {last}", wait.begin);
                    (last, are_lost) = (wait.begin, false);
                });
            }
        });
    }

    #[test]
    fn a_thread_that_gets_a_turn_meanwhile_is_not_blocked() {
        assert_eq!(blocked(|| Some(3), || Some(READ)), Some((3, READ)));
        assert_eq!(blocked(|| Some(3), || None), None);
        let turns = std::cell::Cell::new(0);
        assert_eq!(blocked(|| Some(turns.replace(turns.get() + 1)), || Some(READ)), None);
    }
}
