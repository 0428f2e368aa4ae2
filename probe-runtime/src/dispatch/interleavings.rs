//! Hits and a detacher, in every interleaving and with every value that the memory model lets a load see:
//! `RUSTFLAGS='--cfg loom' cargo test --release -p probe-runtime --lib interleavings`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

use super::presence::{Mark, Presence};

/// A thread's presence, and two hooks, of which one is published. The model checker tells if one is used while, or after, it is
/// freed: each use is a read of its cell, freeing it a write.
struct World {
    presence: Presence,
    published: AtomicUsize,
    hooks: [UnsafeCell<bool>; 2],
}

impl World {
    fn new() -> Arc<Self> {
        let hooks = [UnsafeCell::new(false), UnsafeCell::new(false)];
        Arc::new(Self { presence: Presence::new(), published: AtomicUsize::new(0), hooks })
    }

    /// As `dispatch` does; `nested` is what a signal handler does meanwhile.
    fn hit(&self, nested: impl FnOnce()) {
        let outer = self.presence.enter();
        let hook = self.published.load(Ordering::Acquire);
        nested();
        self.use_hook(hook);
        self.presence.set(outer);
    }

    /// The same with a consumer, around which the mark is another.
    fn consuming_hit(&self) {
        let outer = self.presence.enter();
        let hook = self.published.load(Ordering::Acquire);
        self.presence.set(Mark::Consuming);
        self.use_hook(hook);
        self.presence.set(outer.max(Mark::Entered));
        self.presence.set(outer);
    }

    #[expect(unsafe_code, reason = "the cell is what is checked")]
    fn use_hook(&self, hook: usize) {
        // SAFETY: the model checker refuses a read beside, or unordered with, a write.
        self.hooks[hook].with(|is_freed| assert!(!unsafe { *is_freed }, "used after it was freed"));
    }

    /// As the control and `quiesce` do: after what is published is another hook, the first one is freed.
    #[expect(unsafe_code, reason = "the cell is what is checked")]
    fn detach(&self, heavy_barrier: impl FnOnce()) {
        self.published.swap(1, Ordering::AcqRel);
        heavy_barrier();
        let watched = self.presence.watch();
        while !self.presence.has_left(watched) {
            thread::yield_now();
        }
        // SAFETY: as above.
        self.hooks[0].with_mut(|is_freed| unsafe { *is_freed = true });
    }
}

fn full() {
    fence(Ordering::SeqCst);
}

fn check(hits: impl Fn(&World) + Copy + Send + Sync + 'static, heavy_barrier: fn()) {
    loom::model(move || {
        let world = World::new();
        let thread = {
            let world = Arc::clone(&world);
            thread::spawn(move || hits(&world))
        };
        world.detach(heavy_barrier);
        thread.join().unwrap();
        assert_eq!(world.presence.mark(), Mark::Idle);
    });
}

#[test]
fn what_a_hit_has_read_is_not_freed_under_it() {
    check(|world| world.hit(|| ()), full);
}

#[test]
fn a_hit_that_follows_is_not_waited_for_and_reads_what_is_published() {
    check(
        |world| {
            world.hit(|| ());
            world.hit(|| ());
        },
        full,
    );
}

#[test]
fn the_end_of_a_nested_hit_is_not_that_of_the_outer_one() {
    check(|world| world.hit(|| world.hit(|| ())), full);
}

#[test]
fn a_consumer_is_inside() {
    check(World::consuming_hit, full);
}

/// Two threads, two presences: each is waited for. Of a thread's switches where it need not wait, up to two are tried.
#[test]
fn every_thread_is_waited_for() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let (world, other) = (World::new(), Arc::new(Presence::new()));
        let first = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.hit(|| ()))
        };
        let second = {
            let (world, presence) = (Arc::clone(&world), Arc::clone(&other));
            thread::spawn(move || {
                let outer = presence.enter();
                world.use_hook(world.published.load(Ordering::Acquire));
                presence.set(outer);
            })
        };
        world.detach(|| {
            full();
            let watched = other.watch();
            while !other.has_left(watched) {
                thread::yield_now();
            }
        });
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// That the checker would tell.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_barrier_a_hook_is_freed_under_a_hit() {
    check(|world| world.hit(|| ()), || ());
}
