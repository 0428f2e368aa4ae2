//! A ring's thread beside a thread that copies from it: in every interleaving, with every value
//! that the memory model lets a load see: `RUSTFLAGS='--cfg loom' cargo test --release -p
//! probe-runtime --features trace --lib interleavings`.
//!
//! This compiles the product's `ring.rs` once more, with atomics that the model checker knows. Each
//! of its steps can be left out, and then the model must fail.
//!
//! Words that all have the same orders would only multiply the interleavings. So of a sub-buffer
//! the model has those that publish it, and one of each kind of the others.

use loom::sync::Arc;
use loom::thread;
use probe_trace::layout::{event, sub_buffer};

use atomic::AtomicU64;
use left_out::Step;
use ring::{Head, Hit, Identity, Ring, Shape, WhenFull};

#[path = "ring.rs"]
#[expect(dead_code, reason = "the model uses a part of it")]
mod ring;

/// Steps of the protocol that a test leaves out.
mod left_out {
    use std::cell::Cell;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) enum Step {
        /// The writer clears the sequence number before it writes to the sub-buffer anew.
        Clearing,
        /// The barrier behind that.
        Barrier,
        /// The reader's barrier, before it compares the number again.
        ReadersBarrier,
        /// The position and the sequence number become visible after the stores before them.
        Publishing,
    }

    thread_local! {
        // The model's threads all run on the test's.
        static STEP: Cell<Option<Step>> = const { Cell::new(None) };
    }

    pub(super) fn set(step: Option<Step>) {
        STEP.set(step);
    }

    pub(super) fn is(step: Step) -> bool {
        STEP.get() == Some(step)
    }
}

mod atomic {
    pub(super) use loom::sync::atomic::Ordering;

    use super::left_out::{self, Step};

    /// A word of the ring's head or memory.
    pub(super) enum AtomicU64 {
        /// One that the model leaves out.
        Plain(std::sync::atomic::AtomicU64),
        /// One with all values that a load may see.
        Modelled(loom::sync::atomic::AtomicU64),
        /// The same, of a sequence number.
        Sequence(loom::sync::atomic::AtomicU64),
    }

    impl Default for AtomicU64 {
        fn default() -> Self {
            Self::Modelled(loom::sync::atomic::AtomicU64::new(0))
        }
    }

    impl AtomicU64 {
        pub(super) fn load(&self, order: Ordering) -> u64 {
            match self {
                Self::Plain(word) => word.load(order),
                Self::Modelled(word) | Self::Sequence(word) => word.load(order),
            }
        }

        pub(super) fn store(&self, value: u64, order: Ordering) {
            let is_kept = order != Ordering::Release || !left_out::is(Step::Publishing);
            let order = if is_kept { order } else { Ordering::Relaxed };
            match self {
                Self::Plain(word) => word.store(value, order),
                Self::Sequence(_) if value == 0 && left_out::is(Step::Clearing) => (),
                Self::Modelled(word) | Self::Sequence(word) => word.store(value, order),
            }
        }
    }

    pub(super) fn fence(order: Ordering) {
        let step = if order == Ordering::Release { Step::Barrier } else { Step::ReadersBarrier };
        if !left_out::is(step) {
            loom::sync::atomic::fence(order);
        }
    }
}

/// Words of records in a sub-buffer. An event with a payload needs eight, and takes two.
const ROOM: usize = 8;

struct World {
    head: Head,
    words: Vec<AtomicU64>,
    shape: Shape,
}

impl World {
    fn new(sub_buffers: u64, when_full: WhenFull) -> Arc<Self> {
        let words = sub_buffer::WORDS + ROOM;
        let word = |at| match at % words {
            sub_buffer::SEQUENCE => AtomicU64::Sequence(loom::sync::atomic::AtomicU64::new(0)),
            // Words that publish the others; one of the header; an event, its payload, an event.
            sub_buffer::USED | sub_buffer::WRITTEN_BEFORE | 16..=18 => AtomicU64::default(),
            _ => AtomicU64::Plain(std::sync::atomic::AtomicU64::new(0)),
        };
        let shape = Shape { sub_buffers, words: words as u64, when_full };
        let words = (0..words * usize::try_from(sub_buffers).unwrap()).map(word).collect();
        let world = Self { head: Head::default(), words, shape };
        world.ring().begin(0);
        Arc::new(world)
    }

    fn ring(&self) -> Ring<'_> {
        Ring { head: &self.head, words: &self.words }
    }

    /// Writes an event whose probe and payload are its number, as a hit does. It begins a
    /// sub-buffer.
    fn write(&self, number: u32) {
        let hit = hit(number);
        let identity =
            |is_known: bool| Identity { thread: (!is_known).then_some((1, [0; 2])), reading: None };
        let Some(reserved) = self.ring().reserve(self.shape, hit, 1, identity) else { return };
        reserved.payload[0].store(number.into(), atomic::Ordering::Relaxed);
        self.ring().commit(&reserved, number, 1);
    }

    fn copy(&self, number: u64) -> Option<Vec<u64>> {
        let copy = copied(self.ring(), self.shape, number)?;
        assert_eq!(copy[sub_buffer::SEQUENCE], number + 1, "torn");
        // A copy from the middle of a write has no event, or those before it.
        for (at, (probe, payload)) in (copy[sub_buffer::WRITTEN_BEFORE]..).zip(records(&copy)) {
            assert!(u64::from(probe) == at && payload.is_none_or(|payload| payload == at), "torn");
        }
        Some(copy)
    }
}

fn copied(ring: Ring<'_>, shape: Shape, number: u64) -> Option<Vec<u64>> {
    let mut copy = Vec::new();
    ring.copy(shape, number, &mut copy).map(|()| copy)
}

fn hit(number: u32) -> Hit {
    Hit { now: number.into(), thread: 1, generation: 1 }
}

/// Returns the probe and the payload of each record.
fn records(copy: &[u64]) -> Vec<(u32, Option<u64>)> {
    let (mut rest, mut records) = (&copy[sub_buffer::WORDS..], Vec::new());
    while let Some((word, after)) = rest.split_first() {
        let (payload, after) = after.split_at(event::payload(*word));
        records.push((event::probe(*word), payload.first().copied()));
        rest = after;
    }
    records
}

/// Tries up to two switches away from a thread that could continue, three in a whole run.
fn model(work: impl Fn() + Sync + Send + 'static) {
    let is_whole = std::env::var("PROBE_TEST_WHOLE").is_ok_and(|it| it == "1");
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(if is_whole { 3 } else { 2 });
    builder.check(work);
}

/// A recorder's thread replaces what another one copies.
fn replaced_and_copied(step: Option<Step>) {
    left_out::set(step);
    model(|| {
        let world = World::new(1, WhenFull::Overwrite);
        world.write(0);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                // A record without payload in the current sub-buffer, then another sub-buffer.
                assert!(world.ring().write_short(hit(1), 1, 0, |_| true));
                world.write(2);
            })
        };
        let copy_all = || world.ring().numbers(world.shape).for_each(|number| _ = world.copy(number));
        copy_all();
        // The model checker delays a load for a later store only where a thread yields.
        thread::yield_now();
        copy_all();
        writer.join().unwrap();
        let last = world.copy(1).expect("nobody writes any more");
        assert_eq!(records(&last), [(2, Some(2))]);
    });
}

#[test]
fn a_copy_beside_the_writer_is_whole_or_none() {
    replaced_and_copied(None);
}

/// A thread copies whole sub-buffers and gives them back; events that find none are lost.
fn drained(gives_back_first: bool) {
    left_out::set(None);
    model(move || {
        let world = World::new(2, WhenFull::Wait);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || (0..4).for_each(|number| world.write(number)))
        };
        let ring = world.ring();
        let (mut copies, mut next) = (Vec::new(), 0);
        let mut pass = |copies: &mut Vec<Vec<u64>>| {
            while ring.is_whole(world.shape, next) {
                if gives_back_first {
                    ring.set_drained(next + 1);
                }
                copies.push(copied(ring, world.shape, next).expect("it is not written anew"));
                next += 1;
                ring.set_drained(next);
            }
            next
        };
        // The model checker delays a load for a later store only where a thread yields.
        for _ in 0..2 {
            thread::yield_now();
            pass(&mut copies);
        }
        writer.join().unwrap();
        let rest = pass(&mut copies)..ring.numbers(world.shape).end;
        copies.extend(rest.map(|number| copied(ring, world.shape, number).expect("nobody writes any more")));
        // Each event is there in its place, or lost, and its gap is where it is.
        let (mut events, mut lost) = (0, 0);
        for copy in &copies {
            assert!(copy[sub_buffer::WRITTEN_BEFORE] == events, "{copy:?}");
            lost = copy[sub_buffer::LOST_BEFORE];
            for (probe, payload) in records(copy) {
                assert!(u64::from(probe) == events + lost && payload == Some(u64::from(probe)), "torn");
                events += 1;
            }
        }
        assert_eq!(ring.totals().0, events);
        assert!(events + ring.totals().1 == 4 && lost <= ring.totals().1);
    });
}

#[test]
fn what_is_drained_is_whole_and_the_rest_is_lost() {
    drained(false);
}

/// Checks that the model fails if any one step is left out.
mod without {
    use super::*;

    #[test]
    #[should_panic(expected = "torn")]
    fn clearing_the_sequence_number() {
        replaced_and_copied(Some(Step::Clearing));
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn the_barrier_behind_that() {
        replaced_and_copied(Some(Step::Barrier));
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn the_readers_barrier() {
        replaced_and_copied(Some(Step::ReadersBarrier));
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn publishing_what_was_written() {
        replaced_and_copied(Some(Step::Publishing));
    }

    #[test]
    #[should_panic(expected = "it is not written anew")]
    fn copying_before_giving_back() {
        drained(true);
    }
}
