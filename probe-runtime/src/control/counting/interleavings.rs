//! Hits that are only counted beside attachments that come, go and pause, in every interleaving and
//! with every value that the memory model lets a load see:
//! `RUSTFLAGS='--cfg loom' cargo test --release -p probe-runtime --lib interleavings`.
//!
//! A hit reads what its site is, and bumps its thread's counter later, by a load and a store. It may
//! be unmarked in between: nobody can wait for it. What holds of its attachments' parts:
//!
//! - A hit that begins when an attachment was made, or resumed, is told to it, once.
//! - A hit that had ended before is not, as far as anybody could know that.
//! - Of hits that were under way when its predecessor was detached, one for each thread may be told
//!   to it; none where hits are marked, and were waited for.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;

use crate::control::parts::Part;
use crate::dispatch::{Action, TallyAt};

/// What a site is: active for one attachment, for nobody, or for the next one.
const FIRST: usize = 0;
const LATENT: usize = 1;
const NEXT: usize = 2;

const HITS: usize = 3;

/// A site, its probe's counter of one thread, what an operation that has ended has left, and how many
/// of that thread's hits have ended.
struct World {
    site: AtomicUsize,
    counter: AtomicU64,
    left: AtomicUsize,
    ended: AtomicUsize,
    mark: AtomicUsize,
}

/// What a hit has seen: when it began, what had been done; then, what its site was.
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

    /// The fence is what membarrier(2) has each thread execute, where it serves: after the last hit's
    /// store, before this one's look.
    fn hit(&self, number: usize, is_marked: bool) -> Seen {
        let left = self.left.load(Ordering::Acquire);
        if is_marked {
            self.mark.store(1, Ordering::Release);
        }
        fence(Ordering::SeqCst);
        let site = self.site.load(Ordering::Relaxed);
        if site != LATENT {
            // No other thread writes it.
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

    /// Tells who begins a hit from here on that all before was done.
    fn leave(&self, left: usize) {
        self.left.store(left, Ordering::Release);
    }

    /// How many hits have ended, as far as anybody has told.
    fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }
}

fn thawed(count: u64) -> Part {
    let mut part = Part::new(0, Action::Tally(TallyAt::new(0)));
    part.turn(count);
    part
}

/// What a thread's hits have seen beside the controller's `work`, and what that returns.
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
fn attach(world: &World) -> Part {
    let part = thawed(world.count());
    world.switch(NEXT);
    part
}

/// Detaches the one that counts, and attaches another; returns how many hits that has that have found
/// the site active for its predecessor. `settle` is what detaching does last.
fn early_hits(is_marked: bool, settle: fn(&World), attach: fn(&World) -> Part) -> u64 {
    let (seen, world, part) = beside(is_marked, |world| {
        world.switch(LATENT);
        settle(world);
        let part = attach(world);
        world.leave(NEXT);
        part
    });
    assert!(seen.iter().all(|seen| seen.left != NEXT || seen.site == NEXT), "{seen:?}");
    let own = seen.iter().filter(|seen| seen.site == NEXT).count();
    part.counted(world.count()).checked_sub(own as u64).expect("each of its own is counted")
}

fn barrier(_: &World) {
    fence(Ordering::SeqCst);
}

#[test]
fn one_hit_of_a_thread_may_be_told_to_the_next() {
    // The model checker's own would begin anew with each interleaving.
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

/// A part is frozen and thawed while another counts all the time.
#[test]
fn who_pauses_has_what_came_before_and_comes_after() {
    loom::model(|| {
        let (seen, world, (part, before, until)) = beside(false, |world| {
            let mut part = thawed(0);
            let before = world.ended();
            part.turn(world.count());
            let kept = part.counted(0);
            world.leave(LATENT);
            let until = world.ended();
            assert_eq!(part.counted(world.count()), kept);
            part.turn(world.count());
            world.leave(NEXT);
            (part, before, until)
        });
        let (all, counted) = (world.count(), part.counted(world.count()));
        assert_eq!(thawed(0).counted(all), HITS as u64, "the other has all");
        let later = seen.iter().filter(|seen| seen.left == NEXT).count();
        assert!(counted >= (before + later) as u64, "{counted} of {seen:?}, {before} before");
        // Those that began and ended while it was paused, as far as anybody has told.
        let missed = seen.iter().take(until).filter(|seen| seen.left == LATENT).count();
        assert!(counted <= all - missed as u64, "{counted} of {seen:?}, {until} until then");
    });
}

/// That the checker would tell, of each step that is left out.
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
