//! Hits, and threads that take hooks and consumers from them, in every interleaving and with every
//! value that the memory model lets a load see: `RUSTFLAGS='--cfg loom' cargo test --release -p
//! probe-runtime --lib interleavings`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::thread;

use super::hit_state::{HitMark, HitState};
use super::reclaimer::{Epoch, Reclaimer, ThreadSnapshot};

/// The marks of two consumers.
const A: usize = 64;
const B: usize = 128;

/// A thread's hit state; two hooks, of which one is published; the consumer A, which may be closed.
/// Each use of a hook or consumer reads its cell, and freeing it writes the cell. So the model
/// checker reports a use during or after a free.
struct World {
    hit_state: HitState,
    published: AtomicUsize,
    hooks: [UnsafeCell<bool>; 2],
    is_closed: AtomicBool,
    consumer: UnsafeCell<bool>,
}

impl World {
    fn new() -> Arc<Self> {
        let hooks = [UnsafeCell::new(false), UnsafeCell::new(false)];
        Arc::new(Self {
            hit_state: HitState::new(),
            published: AtomicUsize::new(0),
            hooks,
            is_closed: AtomicBool::new(false),
            consumer: UnsafeCell::new(false),
        })
    }

    /// A hit as `dispatch` makes it, of a hook that counts. `nested` is the work of a signal
    /// handler meanwhile.
    fn hit(&self, nested: impl FnOnce()) {
        let outer = self.hit_state.enter();
        let hook = self.published.load(Ordering::Acquire);
        nested();
        use_it(&self.hooks[hook]);
        self.hit_state.leave(outer);
    }

    /// The same for a hook with the consumers B and A; A only as long as the first hook is
    /// published.
    fn calling_hit(&self) {
        let outer = self.hit_state.enter();
        let hook = self.published.load(Ordering::Acquire);
        self.hit_state.begin_call(HitMark::consuming(B));
        self.hit_state.end_call();
        use_it(&self.hooks[hook]);
        if hook == 0 {
            self.call_a();
            self.hit_state.end_call();
        }
        self.hit_state.leave(outer);
    }

    fn call_a(&self) {
        self.hit_state.begin_call(HitMark::consuming(A));
        if !self.is_closed.load(Ordering::Relaxed) {
            use_it(&self.consumer);
        }
    }

    /// As the control does: publishes the other hook, and closes A.
    fn take_away(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.published.swap(1, Ordering::AcqRel);
    }

    /// As `wait` does.
    fn synchronize(&self, awaited: Option<HitMark>) {
        let watched = self.hit_state.watch();
        while self.hit_state.is_in(watched, awaited) {
            thread::yield_now();
        }
    }

    /// As `Reclaimer` does: returns whether the first hook can be freed after one more scan.
    fn scan(&self, reclaimer: &mut Reclaimer<()>) -> bool {
        let snapshot =
            ThreadSnapshot { slot: 0, watched: self.hit_state.watch(), mark: self.hit_state.mark() };
        reclaimer.scan(std::iter::once(snapshot));
        !reclaimer.drain_reclaimable(|()| true).is_empty()
    }
}

#[expect(unsafe_code, reason = "the cell is what is checked")]
fn use_it(cell: &UnsafeCell<bool>) {
    // SAFETY: the model checker refuses a read that is concurrent with a write, or not ordered
    // after it.
    cell.with(|is_freed| assert!(!unsafe { *is_freed }, "used after it was freed"));
}

#[expect(unsafe_code, reason = "the cell is what is checked")]
fn free(cell: &UnsafeCell<bool>) {
    // SAFETY: as above.
    cell.with_mut(|is_freed| unsafe { *is_freed = true });
}

fn full() {
    fence(Ordering::SeqCst);
}

fn beside(
    hits: impl Fn(&World) + Copy + Send + Sync + 'static,
    takes: impl Fn(&World) + Copy + Send + Sync + 'static,
) {
    loom::model(move || {
        let world = World::new();
        let thread = {
            let world = Arc::clone(&world);
            thread::spawn(move || hits(&world))
        };
        takes(&world);
        thread.join().unwrap();
        assert_eq!(world.hit_state.mark(), HitMark::IDLE);
    });
}

/// Detaches A: drops its consumer.
fn detaches(heavy_barrier: fn(), awaited: Option<HitMark>) -> impl Fn(&World) + Copy + Send + Sync + 'static {
    move |world| {
        world.take_away();
        heavy_barrier();
        world.synchronize(awaited);
        free(&world.consumer);
    }
}

/// Frees the first hook if one of two scans allows it.
fn retires(heavy_barrier: fn()) -> impl Fn(&World) + Copy + Send + Sync + 'static {
    move |world| {
        let mut reclaimer = Reclaimer::default();
        reclaimer.retire(Epoch::UNKNOWN, ());
        world.take_away();
        heavy_barrier();
        if world.scan(&mut reclaimer) || world.scan(&mut reclaimer) {
            free(&world.hooks[0]);
        }
    }
}

#[test]
fn a_hook_is_not_freed_under_a_hit() {
    beside(|world| world.hit(|| ()), retires(full));
}

#[test]
fn the_next_hit_reads_the_published_hook() {
    beside(
        |world| {
            world.hit(|| ());
            world.hit(|| ());
        },
        retires(full),
    );
}

#[test]
fn the_end_of_a_nested_hit_is_not_that_of_the_outer_one() {
    beside(|world| world.hit(|| world.hit(|| ())), retires(full));
}

/// A signal handler's hit calls B before the outer hit has read its hook, and a scan sees it there.
/// Then another hook is published. The outer hit reads it, and calls B, too, while that hook is
/// retired.
fn calls_twice(end_first: fn(&HitState)) {
    loom::model(move || {
        let (world, steps) = (World::new(), Arc::new([AtomicBool::new(false), AtomicBool::new(false)]));
        let until = |step: &AtomicBool| {
            while !step.load(Ordering::Acquire) {
                thread::yield_now();
            }
        };
        let thread = {
            let (world, steps) = (Arc::clone(&world), Arc::clone(&steps));
            thread::spawn(move || {
                let outer = world.hit_state.enter();
                world.hit_state.begin_call(HitMark::consuming(B));
                steps[0].store(true, Ordering::Release);
                until(&steps[1]);
                end_first(&world.hit_state);
                let hook = world.published.load(Ordering::Acquire);
                world.hit_state.begin_call(HitMark::consuming(B));
                use_it(&world.hooks[hook]);
                world.hit_state.leave(outer);
            })
        };
        let mut reclaimer = Reclaimer::default();
        until(&steps[0]);
        assert!(!world.scan(&mut reclaimer));
        let since = reclaimer.now();
        steps[1].store(true, Ordering::Release);
        reclaimer.retire(since, ());
        world.take_away();
        full();
        if world.scan(&mut reclaimer) {
            free(&world.hooks[0]);
        }
        thread.join().unwrap();
    });
}

#[test]
fn an_outer_hit_reads_after_a_nested_call() {
    calls_twice(HitState::end_call);
}

#[test]
fn a_thread_in_a_consumer_keeps_its_hook() {
    beside(World::calling_hit, retires(full));
}

#[test]
fn a_consumer_is_dropped_under_no_hit() {
    beside(World::calling_hit, detaches(full, Some(HitMark::consuming(A))));
}

/// B's call lasts until A is detached: neither thread waits for the other.
#[test]
fn threads_in_other_consumers_are_not_waited_for() {
    loom::model(|| {
        let (world, is_detached) = (World::new(), Arc::new(AtomicBool::new(false)));
        world.hit_state.enter();
        world.hit_state.begin_call(HitMark::consuming(B));
        let thread = {
            let (world, is_detached) = (Arc::clone(&world), Arc::clone(&is_detached));
            thread::spawn(move || {
                while !is_detached.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                world.hit_state.end_call();
                world.call_a();
                world.hit_state.leave(HitMark::IDLE);
            })
        };
        detaches(full, Some(HitMark::consuming(A)))(&world);
        is_detached.store(true, Ordering::Release);
        thread.join().unwrap();
    });
}

/// Two threads, two presences: each is waited for. The model tries up to two switches away from a
/// thread that could continue.
#[test]
fn every_thread_is_waited_for() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let (world, other) = (World::new(), Arc::new(HitState::new()));
        let first = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.hit(|| ()))
        };
        let second = {
            let (world, hit_state) = (Arc::clone(&world), Arc::clone(&other));
            thread::spawn(move || {
                let outer = hit_state.enter();
                use_it(&world.hooks[world.published.load(Ordering::Acquire)]);
                hit_state.leave(outer);
            })
        };
        world.take_away();
        full();
        let watched = other.watch();
        while other.is_in(watched, None) {
            thread::yield_now();
        }
        world.synchronize(None);
        free(&world.hooks[0]);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// Checks that the model checker finds a fault if a step is left out.
mod left_out {
    use super::*;

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_barrier_before_a_scan() {
        beside(|world| world.hit(|| ()), retires(|| ()));
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_barrier_before_waiting() {
        beside(World::calling_hit, detaches(|| (), Some(HitMark::consuming(A))));
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn waiting_for_the_consumer() {
        beside(World::calling_hit, detaches(full, None));
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn asking_whether_it_is_closed() {
        let hits = |world: &World| {
            let outer = world.hit_state.enter();
            let hook = world.published.load(Ordering::Acquire);
            world.hit_state.begin_call(HitMark::consuming(B));
            world.hit_state.end_call();
            if hook == 0 {
                world.hit_state.begin_call(HitMark::consuming(A));
                use_it(&world.consumer);
                world.hit_state.end_call();
            }
            world.hit_state.leave(outer);
        };
        beside(hits, detaches(full, Some(HitMark::consuming(A))));
    }

    /// The scan mistakes a second call for the first one, as if the thread had been in it all the
    /// time.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn counting_calls() {
        calls_twice(|hit_state| hit_state.set(HitMark::ENTERED));
    }
}

/// Threads that look for slots of dead owners, and a thread that takes such a slot and has the dead
/// owner's id.
mod owners {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use loom::thread;

    use super::super::ownership::{Owner, Ownership};

    const ID: u32 = 7;

    /// A slot whose owner has ended, and the kernel's knowledge.
    struct World {
        slot: Ownership,
        /// Whether a thread with that id exists.
        exists: AtomicBool,
        given_back: AtomicUsize,
    }

    impl World {
        /// As `reap_if_dead` does; `end` ends the ownership.
        fn reap_if_dead(&self, end: fn(&Ownership, Owner) -> bool) {
            let owner = self.slot.now();
            if owner.tid().is_some() && !self.exists.load(Ordering::SeqCst) && end(&self.slot, owner) {
                self.slot.clear();
                self.given_back.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn two_find_it_and_one_takes_it(end: fn(&Ownership, Owner) -> bool) {
        loom::model(move || {
            let world = Arc::new(World {
                slot: Ownership::new(),
                exists: AtomicBool::new(false),
                given_back: AtomicUsize::new(0),
            });
            assert!(world.slot.take(ID));
            let other = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.reap_if_dead(end))
            };
            let new = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    world.exists.store(true, Ordering::SeqCst);
                    world.slot.take(ID)
                })
            };
            world.reap_if_dead(end);
            other.join().unwrap();
            let is_taken = new.join().unwrap();
            let given_back = world.given_back.load(Ordering::Relaxed);
            assert!(given_back <= 1, "given back twice");
            assert_eq!(world.slot.now().is_thread(), is_taken || given_back == 0);
        });
    }

    #[test]
    fn no_thread_takes_the_slot_from_the_next_owner() {
        two_find_it_and_one_takes_it(Ownership::end);
    }

    /// The model checker must find the fault if an owner is known only by its id.
    #[test]
    #[should_panic(expected = "given back twice")]
    fn an_id_alone() {
        two_find_it_and_one_takes_it(|slot, owner| {
            let now = slot.now();
            now.tid() == owner.tid() && slot.end(now)
        });
    }
}
