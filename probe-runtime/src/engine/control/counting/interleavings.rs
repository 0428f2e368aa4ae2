//! A model of hits that are only counted, beside attachments that come, go and pause. It runs every
//! interleaving, with every value that the memory model lets a load see: `RUSTFLAGS='--cfg loom'
//! cargo test --release -p probe-runtime --lib interleavings`.
//!
//! A hit reads its site's instruction, and later increments its thread's counter by a load and a
//! store. In between, the hit may be unmarked, so that no thread can wait for it. For attachments'
//! slots, the following holds:
//!
//! - A hit that begins after an attachment was made, or resumed, is counted for it, once.
//! - A hit that had ended before is not, if the controlling thread could know that it had ended.
//! - Of hits that were under way when its predecessor was detached, one for each thread may be
//!   counted for it; none if hits are marked and the detach waited for them.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;

use crate::engine::control::Start;
use crate::engine::control::probe_attachments::AttachmentSlot;
use crate::engine::dispatch::{Action, CounterAt};

/// States of a site: active for the first attachment, latent, or active for the next attachment.
const FIRST: usize = 0;
const LATENT: usize = 1;
const NEXT: usize = 2;

const HITS: usize = 3;

/// A site, its probe's counter in one thread, the state left by the last finished operation, and
/// the number of that thread's hits that have ended.
struct World {
    site: AtomicUsize,
    counter: AtomicU64,
    left: AtomicUsize,
    ended: AtomicUsize,
    mark: AtomicUsize,
}

/// The observations of a hit: the finished operation when it began, then the state of its site.
#[derive(Clone, Copy, Debug)]
struct Seen {
    left: usize,
    site: usize,
}

impl World {
    fn new() -> Arc<Self> {
        let [site, left] = [(); 2].map(|()| AtomicUsize::new(FIRST));
        let [ended, mark] = [(); 2].map(|()| AtomicUsize::new(0));
        Arc::new(Self { site, counter: AtomicU64::new(0), left, ended, mark })
    }

    /// Performs a hit. The fence stands for membarrier(2), which makes each thread execute one. It
    /// is where it has an effect: after the last hit's store, before this hit reads its site.
    fn hit(&self, number: usize, is_marked: bool) -> Seen {
        let left = self.left.load(Ordering::Acquire);
        if is_marked {
            self.mark.store(1, Ordering::Release);
        }
        fence(Ordering::SeqCst);
        let site = self.site.load(Ordering::Relaxed);
        if site != LATENT {
            // No other thread writes this counter.
            self.counter.store(self.counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        if is_marked {
            self.mark.store(0, Ordering::Release);
        }
        self.ended.store(number + 1, Ordering::Release);
        Seen { left, site }
    }

    fn switch(&self, site: usize) {
        self.site.store(site, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.counter.load(Ordering::Relaxed)
    }

    /// Publishes the end of an operation to hits that begin from now on.
    fn leave(&self, left: usize) {
        self.left.store(left, Ordering::Release);
    }

    /// Returns the number of hits that the controlling thread knows to have ended.
    fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }
}

fn thawed(count: u64) -> AttachmentSlot {
    let mut slot = AttachmentSlot::new(0, Action::Count(CounterAt::new(0)), Start::On);
    slot.toggle_frozen(count);
    slot
}

/// Runs a thread's hits beside `work`; returns their observations, the world, and the result of
/// `work`.
fn beside<T>(is_marked: bool, work: impl FnOnce(&World) -> T) -> (Vec<Seen>, Arc<World>, T) {
    let world = World::new();
    let thread = {
        let world = Arc::clone(&world);
        thread::spawn(move || (0..HITS).map(|number| world.hit(number, is_marked)).collect())
    };
    let done = work(&world);
    (thread.join().unwrap(), world, done)
}

/// Reads the counter, and makes the site active.
fn attach(world: &World) -> AttachmentSlot {
    let slot = thawed(world.count());
    world.switch(NEXT);
    slot
}

/// Detaches the first attachment, and attaches the next one. Returns how many hits the next one has
/// counted that found the site active for the first. `settle` is the last step of detaching.
fn early_hits(is_marked: bool, settle: fn(&World), attach: fn(&World) -> AttachmentSlot) -> u64 {
    let (seen, world, slot) = beside(is_marked, |world| {
        world.switch(LATENT);
        settle(world);
        let slot = attach(world);
        world.leave(NEXT);
        slot
    });
    assert!(seen.iter().all(|seen| seen.left != NEXT || seen.site == NEXT), "{seen:?}");
    let own = seen.iter().filter(|seen| seen.site == NEXT).count();
    slot.counted(world.count()).checked_sub(own as u64).expect("each of its own is counted")
}

fn barrier(_: &World) {
    fence(Ordering::SeqCst);
}

#[test]
fn one_hit_of_a_thread_may_be_told_to_the_next() {
    // Not one of the model checker's atomics: these start anew with each interleaving.
    static MOST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    loom::model(|| _ = MOST.fetch_max(early_hits(false, barrier, attach), Ordering::Relaxed));
    assert_eq!(MOST.load(Ordering::Relaxed), 1);
}

#[test]
fn none_is_where_hits_are_waited_for() {
    let settle = |world: &World| {
        fence(Ordering::SeqCst);
        while world.mark.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
    };
    loom::model(move || assert_eq!(early_hits(true, settle, attach), 0));
}

/// Freezes and thaws a slot while another one counts all the time.
#[test]
fn who_pauses_has_what_came_before_and_comes_after() {
    loom::model(|| {
        let (seen, world, (slot, before, until)) = beside(false, |world| {
            let mut slot = thawed(0);
            let before = world.ended();
            slot.toggle_frozen(world.count());
            let kept = slot.counted(0);
            world.leave(LATENT);
            let until = world.ended();
            assert_eq!(slot.counted(world.count()), kept);
            slot.toggle_frozen(world.count());
            world.leave(NEXT);
            (slot, before, until)
        });
        let (all, counted) = (world.count(), slot.counted(world.count()));
        assert_eq!(thawed(0).counted(all), HITS as u64, "the other has all");
        let later = seen.iter().filter(|seen| seen.left == NEXT).count();
        assert!(counted >= (before + later) as u64, "{counted} of {seen:?}, {before} before");
        // Hits that began and ended while it was paused, as far as the controlling thread knows.
        let missed = seen.iter().take(until).filter(|seen| seen.left == LATENT).count();
        assert!(counted <= all - missed as u64, "{counted} of {seen:?}, {until} until then");
    });
}

/// Checks that the model fails if any one step is left out.
mod left_out {
    use super::*;

    #[test]
    #[should_panic(expected = "more than one a thread")]
    fn the_barrier_of_a_detach() {
        loom::model(|| assert!(early_hits(false, |_| (), attach) <= 1, "more than one a thread"));
    }

    #[test]
    #[should_panic(expected = "assertion `left == right` failed")]
    fn waiting_for_hits() {
        loom::model(|| assert_eq!(early_hits(true, barrier, attach), 0));
    }

    #[test]
    #[should_panic(expected = "each of its own is counted")]
    fn reading_the_counter_first() {
        let attach = |world: &World| {
            world.switch(NEXT);
            thawed(world.count())
        };
        loom::model(move || _ = early_hits(false, barrier, attach));
    }
}
