//! Any history of a ring, written by its thread and read by `probe-trace`: hits with times far
//! apart and with payloads, other threads and generations, sub-buffers that are given back or not.

use probe_trace::layout::{self, HEADER_BYTES, block, header, reading};
use probe_trace::{FieldValue, Item, Trace};
use proptest::prelude::*;

use super::*;

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// A hit: ticks since the one before, and its fields.
    Hit(u64, Vec<u64>),
    /// Another thread takes the ring over.
    Thread,
    /// Sites are switched.
    Generation,
    /// The oldest whole sub-buffer is written to the file, and given back.
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let later =
        prop_oneof![8 => 0..100_u64, 1 => (1_u64 << 32) - 2..(1 << 32) + 2, 1 => 1_u64 << 33..1 << 40];
    let fields = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(any::<u64>(), 1..12)];
    let step = prop_oneof![
        12 => (later, fields).prop_map(|(later, fields)| Step::Hit(later, fields)),
        1 => Just(Step::Thread),
        1 => Just(Step::Generation),
        1 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 0..if cfg!(miri) { 40 } else { 200 })
}

/// A hit as its thread made it.
struct Made {
    now: u64,
    thread: u64,
    generation: u32,
    fields: Vec<u64>,
}

/// The file's blocks, a word each.
struct File(Vec<u64>);

impl File {
    fn block(&mut self, kind: u64, words: &[u64]) {
        self.0.extend([block::MAGIC, kind, 8 * words.len() as u64, 0]);
        self.0.extend(words);
    }

    /// Begins a file with one probe for each number of fields, whose ticks are nanoseconds.
    fn new(shape: Shape) -> Self {
        let mut words = vec![0; HEADER_BYTES / 8];
        words[header::MAGIC] = layout::MAGIC;
        words[header::VERSION] = layout::VERSION;
        words[header::SUB_BUFFER_WORDS] = shape.words;
        let mut file = Self(words);
        for fields in 0..12_u32 {
            // Probes' numbers begin at 1.
            let mut bytes = (fields + 1).to_le_bytes().to_vec();
            bytes.extend([0, 0, u8::try_from(fields).unwrap(), 0]);
            // The line, the lengths of path and file, and those of the fields' names.
            bytes.resize(bytes.len() + 4 * (3 + fields as usize), 0);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let (words, _) = bytes.as_chunks();
            let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
            file.block(block::DEFINITIONS, &words);
        }
        let mut moment = [0; reading::WORDS];
        (moment[reading::TICKS], moment[reading::MONOTONIC]) = (1 << 50, 1 << 50);
        file.block(block::READING, &moment);
        file
    }

    fn read(self) -> Trace {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        Trace::read([("the file", std::io::Cursor::new(bytes))]).unwrap()
    }
}

/// Plays the steps. Returns the hits but for those of threads that got no room, the file, and the
/// ring.
fn play(steps: &[Step], shape: Shape) -> (Vec<Made>, File, Owned) {
    let ring = Owned::new(shape);
    let (mut made, mut late, mut file) = (Vec::new(), Vec::new(), File::new(shape));
    let (mut now, mut thread, mut generation) = (5, 1, 1);
    let copy = |number| {
        let mut copy = Vec::new();
        ring.ring().copy(shape, number, &mut copy).expect("it is whole");
        copy
    };
    for step in steps {
        match step {
            Step::Hit(later, fields) => {
                now += later;
                let hit = Hit { now, thread, generation };
                let types = u64::from_le_bytes([layout::field::U64; 8]);
                let payload: Vec<_> =
                    vec![types; fields.len().div_ceil(8)].into_iter().chain(fields.iter().copied()).collect();
                let probe = u32::try_from(fields.len() + 1).unwrap();
                let made_now = Made { now, thread, generation, fields: fields.clone() };
                let before = ring.ring().ringless();
                ring.timed(hit, probe, &payload);
                let after = ring.ring().ringless();
                if after > before {
                    // An earlier thread has left the ring full.
                    late.push(made_now);
                } else {
                    // Those that are told now come first.
                    let told = usize::try_from(before - after).unwrap();
                    made.extend(late.drain(late.len() - told..));
                    made.push(made_now);
                }
            }
            Step::Thread => thread += 1,
            Step::Generation => generation += 2,
            Step::Drain => {
                let next = ring.ring().drained();
                if shape.when_full == WhenFull::Wait && ring.ring().is_whole(shape, next) {
                    file.block(block::SUB_BUFFER, &copy(next));
                    ring.ring().set_drained(next + 1);
                }
            }
        }
    }
    let drained = ring.ring().drained();
    let left = ring.ring().numbers(shape).filter(|number| *number >= drained);
    left.for_each(|number| file.block(block::SUB_BUFFER, &copy(number)));
    file.block(block::RING, &ring.ring().head_words());
    file.block(block::UNSEEN, &[ring.ring().ringless(), 0]);
    (made, file, ring)
}

impl Owned {
    /// Writes an event as a hit does, with no reading of the clocks.
    fn timed(&self, hit: Hit, probe: u32, payload: &[u64]) {
        let ring = self.ring();
        if payload.is_empty() && ring.write_short(hit, probe, 0, |_| true) {
            return;
        }
        let identity = |is_known: bool| {
            let thread = (!is_known).then_some((hit.thread + 100, [0; 2]));
            Identity { thread, reading: None }
        };
        let Some(reserved) = ring.reserve(self.shape, hit, payload.len(), identity) else { return };
        reserved.payload.iter().zip(payload).for_each(|(place, word)| place.store(*word, Relaxed));
        ring.commit(&reserved, probe, payload.len());
    }
}

fn check(steps: &[Step], when_full: WhenFull) {
    // The largest payload and what may come first have 20 words.
    let words = HEADER + if cfg!(miri) { 20 } else { 40 };
    let shape = Shape { sub_buffers: 4, words, when_full };
    let (made, file, ring) = play(steps, shape);
    let (written, lost) = ring.ring().totals();
    assert_eq!(written + lost, made.len() as u64, "each hit is written or lost");
    if cfg!(miri) {
        // The reader has no unsafe code, and takes far longer there than the ring.
        return;
    }
    let mut trace = file.read();
    let totals = trace.totals().unwrap();
    assert_eq!((totals.written, totals.without_room), (written, lost));
    let hits = steps.iter().filter(|step| matches!(step, Step::Hit(..))).count() as u64;
    assert_eq!(totals.emitted(), hits);
    let items: Vec<_> = trace.items().map(Result::unwrap).collect();
    let events = items.iter().filter(|item| matches!(item, Item::Event(_))).count() as u64;
    // A recorder has lost none, and has the latest.
    let mut at =
        if when_full == WhenFull::Overwrite { made.len() - usize::try_from(events).unwrap() } else { 0 };
    for item in &items {
        match item {
            Item::Event(event) => {
                let hit = &made[at];
                let fields: Vec<_> = hit.fields.iter().map(|word| FieldValue::U64(*word)).collect();
                assert_eq!((event.time, event.thread.thread), (hit.now, hit.thread), "hit {at}");
                assert_eq!((event.thread.tid, &event.fields), (hit.thread + 100, &fields), "hit {at}");
                assert_eq!(event.generation, u64::from(hit.generation), "hit {at}");
                at += 1;
            }
            Item::Gap(gap) => {
                let lost = &made[at..at + usize::try_from(gap.lost).unwrap()];
                let ends = [lost.first(), lost.last()].map(|hit| hit.map(|hit| hit.now));
                assert_eq!(ends, [Some(gap.begin), Some(gap.end)], "at hit {at}");
                assert!(lost.iter().all(|hit| hit.thread == gap.thread.thread), "at hit {at}");
                at += lost.len();
            }
            _ => (),
        }
    }
    assert_eq!(at, made.len());
}

proptest! {
    #[test]
    fn a_drained_ring_has_all_hits_or_their_gaps(steps in steps()) {
        check(&steps, WhenFull::Wait);
    }

    #[test]
    fn a_ring_that_stops_has_the_first_hits(steps in steps()) {
        check(&steps, WhenFull::Stop);
    }

    #[test]
    fn a_recorder_has_the_latest_hits(steps in steps()) {
        check(&steps, WhenFull::Overwrite);
    }
}
