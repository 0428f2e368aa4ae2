//! Retired data, kept until no thread can be reading it. No thread waits for that.
//!
//! Life cycle: [retired](Reclaimer::retire) when other data is published in its place ▸ given out
//! by [`collect`](Reclaimer::collect), which each operation that has retired something calls. It
//! reads every thread's mark after a heavy barrier, under the control lock.
//!
//! Each scan ends an *era*. Retired data has two eras: the one in which it was published, and the
//! one in which it was retired. A hit under way has two scans: the first that saw the thread in
//! this hit, and the first that saw it in its present call of a consumer. Until the second scan the
//! hit may have read published data. While it stays in the call it reads none, and after the call
//! it finds only data that is published then. So it may hold data that was retired in the era of
//! the first scan or later and published in the era of the second scan or earlier, and no other:
//!
//! | state of a thread | retired data that it may hold |
//! |---|---|
//! | outside of hits | none |
//! | between a site and a consumer, or in a nested hit | retired since the scan that saw this hit first |
//! | in a consumer, if the last scan saw it in the same call | the same, if it was published before the first scan that saw that call |
//!
//! Bound: a consumer that blocks keeps at most the hooks that were published when it was first seen
//! there, one for each probe. Later operations, however many, leave nothing behind.
//!
//! Cost of a scan: a barrier, and some loads for each thread; nothing if no data was retired.

use std::hint;

use super::hit_state::{HitId, HitMark};
use super::synchronize::BarrierProof;
use super::thread_slot::{ThreadSlot, slots};

/// Number of readings of a thread between a site and a consumer before the scan takes that as its
/// state. A thread is there for only some instructions.
const SPIN_LIMIT: u32 = 200;

/// The era in which data was published or retired.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// The era of data that was published without the control lock.
    pub(crate) const UNKNOWN: Self = Self(0);
    const FIRST: Self = Self(1);
    const LATEST: Self = Self(u64::MAX);
}

/// Retired data of one kind.
#[derive(Debug)]
pub(crate) struct Reclaimer<T> {
    now: Epoch,
    retired: Vec<Retired<T>>,
    hits: Vec<ActiveHit>,
}

#[derive(Debug)]
struct Retired<T> {
    published: Epoch,
    unpublished: Epoch,
    what: T,
}

/// A hit that a scan has found under way.
#[derive(Debug)]
struct ActiveHit {
    slot: usize,
    watched: HitId,
    since: Epoch,
    /// The hit has read no data that was published later.
    read_by: Epoch,
}

/// The state of a slot as a scan has seen it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSnapshot {
    pub(super) slot: usize,
    pub(super) watched: HitId,
    pub(super) mark: HitMark,
}

impl<T> Default for Reclaimer<T> {
    fn default() -> Self {
        Self { now: Epoch::FIRST, retired: Vec::new(), hits: Vec::new() }
    }
}

impl<T> Reclaimer<T> {
    /// Returns the era of data that the holder of the control lock publishes now.
    pub(crate) fn now(&self) -> Epoch {
        self.now
    }

    /// Adds data that was published in the era `published`, and is no longer published.
    pub(crate) fn retire(&mut self, published: Epoch, what: T) {
        self.retired.push(Retired { published, unpublished: self.now, what });
    }

    /// Returns whether no data is retired.
    pub(crate) fn is_empty(&self) -> bool {
        self.retired.is_empty()
    }

    /// Returns whether data was retired since the last scan.
    pub(crate) fn has_new(&self) -> bool {
        self.retired.last().is_some_and(|last| last.unpublished == self.now)
    }

    /// Scans all threads, and returns the data that no thread can be reading. The heavy barrier
    /// must come after all the data was retired.
    pub(crate) fn collect(&mut self, _fenced: &BarrierProof, filter: impl Fn(&T) -> bool) -> Vec<T> {
        self.scan(slots().map(observe));
        self.drain_reclaimable(filter)
    }

    pub(super) fn scan(&mut self, snapshots: impl Iterator<Item = ThreadSnapshot>) {
        let under_way = snapshots.filter(|snapshot| !snapshot.mark.is_outside());
        let hits = under_way.map(|snapshot| {
            let same_hit = |hit: &&ActiveHit| {
                hit.slot == snapshot.slot && hit.watched.sequence == snapshot.watched.sequence
            };
            let known = self.hits.iter().find(same_hit);
            let same_call =
                known.filter(|hit| hit.watched == snapshot.watched && hit.read_by != Epoch::LATEST);
            let read_by = match same_call {
                _ if snapshot.mark.is_passing() => Epoch::LATEST,
                Some(hit) => hit.read_by,
                None => self.now,
            };
            let since = known.map_or(self.now, |hit| hit.since);
            ActiveHit { slot: snapshot.slot, watched: snapshot.watched, since, read_by }
        });
        self.hits = hits.collect();
        self.now = Epoch(self.now.0 + 1);
    }

    pub(super) fn drain_reclaimable(&mut self, filter: impl Fn(&T) -> bool) -> Vec<T> {
        let hits = &self.hits;
        let is_free = |it: &mut Retired<T>| {
            let may_hold = |hit: &ActiveHit| hit.since <= it.unpublished && it.published <= hit.read_by;
            filter(&it.what) && !hits.iter().any(may_hold)
        };
        self.retired.extract_if(.., is_free).map(|it| it.what).collect()
    }
}

/// The order matters: see [`HitState::watch`](super::hit_state::HitState::watch).
fn observe(slot: &'static ThreadSlot) -> ThreadSnapshot {
    let read = || {
        let watched = slot.hit_state().watch();
        ThreadSnapshot { slot: std::ptr::from_ref(slot).addr(), watched, mark: slot.mark() }
    };
    for _ in 0..SPIN_LIMIT {
        let snapshot = read();
        if !snapshot.mark.is_passing() {
            return snapshot;
        }
        hint::spin_loop();
    }
    read()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::hit_state::HitState;
    use super::*;
    use proptest::prelude::*;

    /// No data.
    const NONE: [u32; 0] = [];

    fn snapshot(sequence: u64, calls: u64, mark: HitMark) -> ThreadSnapshot {
        ThreadSnapshot { slot: 0, watched: HitId { sequence, calls }, mark }
    }

    /// Returns the data given out after a scan that sees one thread in this state.
    fn given_out(reclaimer: &mut Reclaimer<u32>, snapshot: Option<ThreadSnapshot>) -> Vec<u32> {
        reclaimer.scan(snapshot.into_iter());
        reclaimer.drain_reclaimable(|_| true)
    }

    fn consuming() -> HitMark {
        HitMark::consuming(4096)
    }

    #[test]
    fn a_thread_outside_of_hits_holds_nothing() {
        let mut reclaimer = Reclaimer::default();
        for mark in [HitMark::IDLE, HitMark::WORKING] {
            reclaimer.retire(reclaimer.now(), 1);
            assert_eq!(given_out(&mut reclaimer, Some(snapshot(0, 0, mark))), [1]);
        }
        assert!(reclaimer.is_empty());
    }

    #[test]
    fn a_hit_does_not_hold_what_was_retired_before_it() {
        let mut reclaimer = Reclaimer::default();
        reclaimer.retire(reclaimer.now(), 1);
        assert_eq!(given_out(&mut reclaimer, Some(snapshot(0, 0, consuming()))), NONE);
        reclaimer.retire(Epoch::UNKNOWN, 2);
        assert_eq!(given_out(&mut reclaimer, Some(snapshot(1, 0, consuming()))), [1], "another hit");
        assert_eq!(given_out(&mut reclaimer, None), [2]);
    }

    #[test]
    fn a_thread_in_one_call_holds_only_hooks_published_before_it_was_seen() {
        let mut reclaimer = Reclaimer::default();
        let before = reclaimer.now();
        assert!(!reclaimer.has_new());
        reclaimer.retire(before, 0);
        assert!(reclaimer.has_new());
        assert_eq!(given_out(&mut reclaimer, Some(snapshot(0, 0, consuming()))), NONE);
        assert!(!reclaimer.has_new() && !reclaimer.is_empty());
        for operation in 1..100_000 {
            // The hook of the previous operation.
            reclaimer.retire(reclaimer.now(), operation);
            assert_eq!(given_out(&mut reclaimer, Some(snapshot(0, 0, consuming()))), [operation]);
        }
        reclaimer.retire(before, 1);
        assert_eq!(given_out(&mut reclaimer, Some(snapshot(0, 0, consuming()))), NONE);
        assert_eq!(reclaimer.retired.len(), 2, "what it may have read");
        assert_eq!(
            given_out(&mut reclaimer, Some(snapshot(0, 1, consuming()))),
            NONE,
            "another call in the same hit"
        );
        reclaimer.retire(Epoch(reclaimer.now().0 - 1), 2);
        assert_eq!(
            given_out(&mut reclaimer, Some(snapshot(0, 1, consuming()))),
            NONE,
            "which may have read that"
        );
        assert_eq!(given_out(&mut reclaimer, Some(snapshot(1, 1, HitMark::ENTERED))), [0, 1, 2]);
    }

    #[test]
    fn a_passing_thread_holds_all_since_it_was_seen() {
        let mut reclaimer = Reclaimer::default();
        for mark in [HitMark::ENTERED, HitMark::NESTED, HitMark::ENTERED] {
            reclaimer.retire(reclaimer.now(), 1);
            assert_eq!(given_out(&mut reclaimer, Some(snapshot(0, 0, mark))), NONE);
        }
        assert_eq!(given_out(&mut reclaimer, Some(snapshot(0, 0, consuming()))), NONE);
        reclaimer.retire(reclaimer.now(), 2);
        assert_eq!(given_out(&mut reclaimer, Some(snapshot(0, 0, consuming()))), [2]);
        assert_eq!(given_out(&mut reclaimer, None), [1, 1, 1]);
    }

    #[test]
    fn a_handler_between_two_consumers_keeps_the_hook_that_it_has_read() {
        let hit_state = HitState::new();
        let seen = || Some(ThreadSnapshot { slot: 0, watched: hit_state.watch(), mark: hit_state.mark() });
        let mut reclaimer = Reclaimer::default();
        hit_state.enter();
        hit_state.begin_call(consuming());
        assert_eq!(given_out(&mut reclaimer, seen()), NONE);
        // A hook is published, and the call ends. Before the next call, a signal handler's hit
        // reads that hook.
        let since = reclaimer.now();
        hit_state.end_call();
        let outer = hit_state.enter();
        hit_state.begin_call(HitMark::consuming(8192));
        reclaimer.retire(since, 1);
        assert_eq!(given_out(&mut reclaimer, seen()), NONE, "in use");
        hit_state.end_call();
        hit_state.leave(outer);
        hit_state.leave(HitMark::IDLE);
        assert_eq!(given_out(&mut reclaimer, seen()), [1]);
    }

    #[test]
    fn data_that_is_not_asked_for_stays() {
        let mut reclaimer = Reclaimer::default();
        reclaimer.retire(reclaimer.now(), 1);
        reclaimer.retire(reclaimer.now(), 2);
        reclaimer.scan(std::iter::empty());
        assert_eq!(reclaimer.drain_reclaimable(|what| *what == 2), [2]);
        assert!(!reclaimer.is_empty() && !reclaimer.has_new());
    }

    /// One step of a thread, or of the operating thread.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin,
        Read,
        Call,
        EndCall,
        End,
        Publish,
        Scan,
    }

    proptest! {
        /// A thread makes hits, also nested ones before the outer one reads, while hooks are
        /// published and scans are made. No scan gives out a hook that the thread holds.
        #[test]
        fn no_held_hook_is_given_out(
            steps in prop::collection::vec(
                prop::sample::select(vec![
                    Step::Begin, Step::Read, Step::Call, Step::EndCall, Step::End, Step::Publish, Step::Publish, Step::Scan,
                ]),
                1..200,
            )
        ) {
            let mut reclaimer = Reclaimer::default();
            let (mut published, mut since) = (0_u32, reclaimer.now());
            let (mut sequence, mut calls, mut mark) = (0, 0, HitMark::IDLE);
            let mut held: Vec<u32> = Vec::new();
            let mut given: Vec<u32> = Vec::new();
            for step in steps {
                let is_calling = mark == consuming();
                match step {
                    Step::Begin if mark == HitMark::IDLE => mark = HitMark::ENTERED,
                    Step::Read if mark == HitMark::ENTERED => held.push(published),
                    Step::Call if mark == HitMark::ENTERED => mark = consuming(),
                    Step::EndCall if is_calling => {
                        calls += 1;
                        mark = HitMark::ENTERED;
                    }
                    Step::End if mark == HitMark::ENTERED => {
                        sequence += 1;
                        mark = HitMark::IDLE;
                        held.clear();
                    }
                    Step::Publish => {
                        reclaimer.retire(since, published);
                        (published, since) = (published + 1, reclaimer.now());
                    }
                    Step::Scan => {
                        let free = given_out(&mut reclaimer, Some(snapshot(sequence, calls, mark)));
                        prop_assert!(free.iter().all(|hook| !held.contains(hook)), "{held:?} {free:?}");
                        given.extend(free);
                    }
                    _ => {}
                }
            }
            given.extend(given_out(&mut reclaimer, None));
            given.sort_unstable();
            prop_assert_eq!(given, (0..published).collect::<Vec<_>>(), "each once");
        }
    }
}
