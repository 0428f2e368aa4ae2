use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

mod histories;

/// A ring of two sub-buffers with room for eight words of records each.
const TINY: Shape = Shape { sub_buffers: 2, words: HEADER + 8, when_full: WhenFull::Overwrite };

struct Owned {
    head: Head,
    words: Vec<AtomicU64>,
    shape: Shape,
}

impl Owned {
    fn new(shape: Shape) -> Self {
        let words = (0..shape.sub_buffers * shape.words).map(|_| AtomicU64::new(0)).collect();
        let own = Self { head: Head::default(), words, shape };
        own.ring().begin(0);
        own
    }

    fn ring(&self) -> Ring<'_> {
        Ring { head: &self.head, words: &self.words }
    }

    /// Writes an event as a hit does; returns whether it was written.
    fn event(&self, hit: Hit, probe: u32, payload: &[u64]) -> bool {
        let ring = self.ring();
        if payload.is_empty() && ring.write_short(hit, probe, 0, |_| true) {
            return true;
        }
        let Some(reserved) = ring.reserve(self.shape, hit, payload.len(), identity(hit)) else {
            return false;
        };
        let stored = reserved.payload.iter().zip(payload);
        let used = stored.map(|(place, word)| place.store(*word, Relaxed)).count();
        ring.commit(&reserved, probe, used);
        true
    }

    fn copies(&self) -> Vec<Vec<u64>> {
        self.ring().numbers(self.shape).filter_map(|number| self.copy(number)).collect()
    }

    fn copy(&self, number: u64) -> Option<Vec<u64>> {
        let mut copy = Vec::new();
        self.ring().copy(self.shape, number, &mut copy).map(|()| copy)
    }
}

fn identity(hit: Hit) -> impl FnOnce(bool) -> Identity {
    let thread = (hit.thread + 100, [u64::from_le_bytes(*b"worker\0\0"), 0]);
    move |is_known| Identity { thread: (!is_known).then_some(thread), reading: Some((hit.now + 1, 2, 77)) }
}

fn hit(now: u64) -> Hit {
    Hit { now, thread: 1, generation: 1 }
}

/// Returns the probes, the ticks since the base and the payloads of a copy's records.
fn records(copy: &[u64]) -> Vec<(u32, u32, &[u64])> {
    let (mut rest, mut records) = (&copy[sub_buffer::WORDS..], Vec::new());
    while let Some((word, after)) = rest.split_first() {
        let (payload, after) = after.split_at(event::payload(*word));
        records.push((event::probe(*word), event::ticks(*word), payload));
        rest = after;
    }
    records
}

#[test]
fn records_follow_each_other_from_the_base_of_their_sub_buffer() {
    let ring = Owned::new(TINY);
    assert!(ring.event(hit(1000), 7, &[]));
    assert!(ring.event(hit(1005), 8, &[]));
    let [copy] = &ring.copies()[..] else { panic!("one sub-buffer") };
    assert_eq!(records(copy), [(7, 0, &[][..]), (8, 5, &[][..])]);
    let header = [
        (sub_buffer::SEQUENCE, 1),
        (sub_buffer::USED, HEADER + 2),
        (sub_buffer::THREAD, 1),
        (sub_buffer::TID, 101),
        (sub_buffer::NAME, u64::from_le_bytes(*b"worker\0\0")),
        (sub_buffer::BASE, 1000),
        (sub_buffer::READ_AT, 1001),
        (sub_buffer::WIDTH, 2),
        (sub_buffer::MONOTONIC, 77),
        (sub_buffer::WRITTEN_BEFORE, 0),
        (sub_buffer::GENERATION, 1),
    ];
    header.into_iter().for_each(|(at, word)| assert_eq!(copy[at], word, "word {at}"));
    assert_eq!(ring.ring().totals(), (2, 0));
}

#[test]
fn a_long_time_and_a_new_generation_have_records_of_their_own() {
    let wide = Shape { words: HEADER + 32, ..TINY };
    let ring = Owned::new(wide);
    assert!(ring.event(hit(10), 1, &[]));
    let later = 10 + (1 << 32);
    assert!(ring.event(hit(later), 2, &[]));
    assert!(ring.event(Hit { generation: 3, ..hit(later + 4) }, 3, &[]));
    // Another processor's counter may be behind.
    assert!(ring.event(Hit { generation: 3, ..hit(later - 1) }, 4, &[]));
    let [copy] = &ring.copies()[..] else { panic!("one sub-buffer") };
    assert_eq!(
        records(copy),
        [
            (1, 0, &[][..]),
            (event::CONTROL, 0, &[control::TIME, later]),
            (2, 0, &[]),
            (event::CONTROL, 4, &[control::GENERATION, 3]),
            (3, 4, &[]),
            (event::CONTROL, u32::MAX, &[control::TIME, later - 1]),
            (4, 0, &[]),
        ]
    );
}

#[test]
fn the_latest_records_replace_the_oldest() {
    let ring = Owned::new(TINY);
    // The first of a sub-buffer needs room for control records, too; eight fit.
    (0..20).for_each(|at| assert!(ring.event(hit(at), 1, &[])));
    let copies = ring.copies();
    let known: Vec<_> = copies
        .iter()
        .map(|copy| (copy[sub_buffer::SEQUENCE], copy[sub_buffer::WRITTEN_BEFORE], records(copy).len()))
        .collect();
    assert_eq!(known, [(2, 8, 8), (3, 16, 4)]);
    assert_eq!(ring.ring().totals(), (20, 0));
}

#[test]
fn a_full_ring_stops_and_counts() {
    let ring = Owned::new(Shape { when_full: WhenFull::Stop, ..TINY });
    let written = (0..30).filter(|at| ring.event(hit(*at), 1, &[])).count();
    assert_eq!(written, 16);
    assert_eq!(ring.ring().totals(), (16, 14));
    let head = ring.ring().head_words();
    assert_eq!((head[ring::GAP_BEGIN], head[ring::GAP_END], head[ring::LOST_NOW]), (16, 29, 14));
}

#[test]
fn a_gap_lies_between_two_sub_buffers() {
    let ring = Owned::new(Shape { when_full: WhenFull::Wait, ..TINY });
    let write = |range: std::ops::Range<u64>| range.filter(|at| ring.event(hit(*at), 1, &[])).count();
    assert_eq!(write(0..20), 16);
    assert!(ring.ring().is_whole(ring.shape, 0));
    ring.ring().set_drained(1);
    assert_eq!(write(20..22), 2);
    let copies = ring.copies();
    let last = &copies[1];
    let gap = [sub_buffer::LOST_BEFORE, sub_buffer::GAP_BEGIN, sub_buffer::GAP_END].map(|at| last[at]);
    assert_eq!((records(last).len(), gap), (2, [4, 16, 19]));
    assert_eq!(ring.ring().totals(), (18, 4));
}

/// A time off the processor may begin the first sub-buffer of a thread that has lost events before.
#[test]
fn late_losses_are_told_before_a_time_off_the_processor() {
    let ring = Owned::new(Shape { words: HEADER + 48, when_full: WhenFull::Wait, ..TINY });
    let mut now = 0;
    while ring.event(hit(now), 1, &[]) {
        now += 1;
    }
    let later = |now| Hit { thread: 2, ..hit(now) };
    (100..103).for_each(|now| assert!(!ring.event(later(now), 1, &[])));
    assert_eq!(ring.ring().ringless(), 3);
    ring.ring().set_drained(1);
    ring.ring().off(ring.shape, later(120), Some([105, 115, 0, 0, 0, 0]), identity(later(120)));
    assert!(ring.event(later(121), 1, &[]));
    let copies = ring.copies();
    let expected = [
        (event::CONTROL, 0, &[control::GAP, 3, 100, 102][..]),
        (event::CONTROL, 0, &[control::OFF, 105, 115, 0, 0, 0, 0]),
        (1, 1, &[]),
    ];
    assert_eq!(records(copies.last().unwrap()), expected);
    // The first thread has lost one.
    assert_eq!((ring.ring().ringless(), ring.ring().totals().1), (0, 4));
}

#[test]
fn a_record_that_is_lost_lets_no_smaller_one_pass() {
    let ring = Owned::new(Shape { sub_buffers: 1, when_full: WhenFull::Stop, ..TINY });
    assert!(ring.event(hit(1), 1, &[]));
    // Seven words are left. The record and what may come first need eight.
    assert!(!ring.event(hit(2), 2, &[5]));
    assert!(!ring.event(hit(3), 3, &[]), "it would come after a gap that nothing tells of");
    assert_eq!(ring.ring().totals(), (1, 2));
}

#[test]
fn a_ring_passes_to_another_thread_with_a_sub_buffer() {
    let ring = Owned::new(TINY);
    assert!(ring.event(hit(1), 1, &[]));
    assert!(ring.event(Hit { thread: 2, ..hit(2) }, 1, &[]));
    let threads: Vec<_> = ring.copies().iter().map(|copy| (copy[sub_buffer::THREAD], copy.len())).collect();
    assert_eq!(threads, [(1, sub_buffer::WORDS + 1), (2, sub_buffer::WORDS + 1)]);
}

#[test]
fn a_payload_that_fits_in_no_sub_buffer_gets_less_room() {
    let ring = Owned::new(TINY);
    assert!(ring.event(hit(1), 1, &[1, 2, 3, 4, 5]));
    assert_eq!(records(&ring.copies()[0]), [(1, 0, &[1][..])]);
}

/// A ring in a file, which has its losses behind it.
fn mapped(shape: Shape) -> Owned {
    let mut ring = Owned::new(shape);
    ring.words.extend((0..ring::WORDS).map(|_| AtomicU64::new(0)));
    ring
}

/// The numbers of the records that a reader finds in the file, by sub-buffer.
fn found(ring: &Owned) -> Vec<(u64, Vec<u32>)> {
    let load = |word: &AtomicU64| word.load(Relaxed);
    let sub_buffers = ring.words.chunks_exact(at(ring.shape.words)).take(at(ring.shape.sub_buffers));
    let mut found: Vec<_> = sub_buffers
        .map(|words| words.iter().map(load).collect::<Vec<_>>())
        .filter(|words| words[sub_buffer::SEQUENCE] != 0)
        .map(|words| {
            let (mut at, mut probes) = (sub_buffer::WORDS, Vec::new());
            while words.get(at).is_some_and(|word| *word != 0) {
                probes.push(event::probe(words[at]));
                at += 1 + event::payload(words[at]);
            }
            (words[sub_buffer::SEQUENCE], probes)
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn a_file_has_each_record_as_soon_as_it_is_written() {
    // Through each sub-buffer several times, with records of several sizes.
    let (words, events) = if cfg!(miri) { (12, 25) } else { (1200, 3999) };
    let ring = mapped(Shape { words: HEADER + words, ..TINY });
    let mut all = Vec::new();
    for number in 1..=events {
        let payload = [u64::MAX; 3];
        assert!(ring.event(hit(u64::from(number)), number, &payload[..number as usize % 4]));
        all.push(number);
        let found: Vec<_> = found(&ring).into_iter().flat_map(|(_, probes)| probes).collect();
        assert!(!found.is_empty() && all.ends_with(&found), "{number}: {found:?}");
    }
    assert_eq!(ring.ring().totals(), (u64::from(events), 0));
}

#[test]
fn a_file_has_each_loss() {
    let ring = mapped(Shape { when_full: WhenFull::Stop, ..TINY });
    for number in 1..=30 {
        ring.event(hit(number), 1, &[]);
        let told = ring.words[at(ring.shape.sub_buffers * ring.shape.words) + ring::LOST].load(Relaxed);
        assert_eq!(told, number.saturating_sub(16));
    }
    let tail = &ring.words[at(ring.shape.sub_buffers * ring.shape.words)..];
    let told = [ring::GAP_BEGIN, ring::GAP_END, ring::THREAD, ring::TID, ring::WRITTEN].map(|at| &tail[at]);
    assert_eq!(told.map(|word| word.load(Relaxed)), [17, 30, 1, 101, 0]);
    ring.ring().close(ring.shape);
    assert_eq!(tail[ring::WRITTEN].load(Relaxed), 16);
}

#[test]
fn a_file_that_becomes_zero_is_written_from_the_next_sub_buffer_on() {
    let ring = mapped(TINY);
    (1..=10).for_each(|number| assert!(ring.event(hit(number), 1, &[])));
    ring.words.iter().for_each(|word| word.store(0, Relaxed));
    (11..=13).for_each(|number| assert!(ring.event(hit(number), 2, &[])));
    assert_eq!(found(&ring), []);
    (14..=17).for_each(|number| assert!(ring.event(hit(number), 3, &[])));
    assert_eq!(found(&ring), [(3, vec![3])]);
    assert_eq!(ring.copies()[0][sub_buffer::WRITTEN_BEFORE], 16);
}

#[test]
fn a_payload_that_fits_in_no_event_gets_less_room() {
    let ring = Owned::new(Shape { words: 4096, ..TINY });
    assert!(ring.event(hit(1), 1, &[5; 2000]));
    assert_eq!(records(&ring.copies()[0]), [(1, 0, &[5; event::PAYLOAD_MAX][..])]);
}

/// Each copy is one that its thread has written, whole, whenever it was taken.
#[test]
fn copies_beside_the_writer_are_whole() {
    let events = if cfg!(miri) { 40 } else { 200_000 };
    let ring = Owned::new(Shape { words: HEADER + 16, ..TINY });
    let is_over = AtomicBool::new(false);
    let mut seen = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            // An event's probe, time and payload are its number.
            for number in 0..events {
                #[expect(clippy::cast_possible_truncation, reason = "below the probes' limit")]
                let is_written = ring.event(hit(number), number as u32, &[number]);
                assert!(is_written);
            }
            is_over.store(true, Release);
        });
        let mut is_last = false;
        while !is_last {
            is_last = is_over.load(Acquire);
            for copy in ring.copies() {
                let before = copy[sub_buffer::WRITTEN_BEFORE];
                for (at, (probe, ticks, payload)) in (before..).zip(records(&copy)) {
                    assert_eq!((u64::from(probe), payload), (at, &[at][..]));
                    assert_eq!(copy[sub_buffer::BASE] + u64::from(ticks), at);
                    seen += 1;
                }
            }
        }
    });
    assert!(seen > 0);
}
