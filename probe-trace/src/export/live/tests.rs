//! Rings that grow from pass to pass give the packets that the whole trace gives.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message;

use super::Live;
use crate::export::perfetto::{Trace, TracePacket};
use crate::export::{Format, export};
use crate::fixtures::{Fixture, any_fixture};
use crate::item::{Definition, FieldValue, Item, TraceEvent};
use crate::layout::{self, block, control, event, field, flag, header, reading, ring, sub_buffer};
use crate::reader::{Part, Rings};

/// Records in a sub-buffer.
const SUB_BUFFER_RECORDS: usize = 5;

/// A sub-buffer's header, and its records with their times.
type SubBuffer = (Vec<u64>, Vec<(u64, Vec<u64>)>);

/// The rings of a fixture, of which the readers see the records up to a time.
#[derive(Default)]
struct GrowingRings {
    definitions: Vec<Definition>,
    rings: BTreeMap<u64, Vec<SubBuffer>>,
    generations: BTreeMap<u64, u64>,
    lost: BTreeMap<u64, [u64; 3]>,
    now: u64,
}

impl GrowingRings {
    fn new(fixture: &Fixture) -> Self {
        let mut rings = Self::default();
        for item in &fixture.items {
            match item {
                Item::Event(event) => rings.event(event),
                Item::Gap(gap) => {
                    let lost = rings.lost.entry(gap.thread.thread).or_insert([0, gap.begin, 0]);
                    (lost[0], lost[2]) = (lost[0] + gap.lost, gap.end);
                }
                Item::Thread(_) => {}
            }
        }
        rings
    }

    fn event(&mut self, of: &TraceEvent) {
        let thread = of.thread.thread;
        let (probe, is_frame) = (self.probe(&of.definition), of.definition.may_skip_exit);
        let mut payload: Vec<u64> = of.frame.filter(|_| is_frame).into_iter().collect();
        if !of.fields.is_empty() {
            payload.push((0..of.fields.len()).map(|number| u64::from(field::U64) << (8 * number)).sum());
            payload.extend(of.fields.iter().map(|value| match value {
                FieldValue::U64(value) => *value,
                other => panic!("{other} is not in these fixtures"),
            }));
        }
        let gap = self.lost.remove(&thread);
        let ring = self.rings.entry(thread).or_default();
        if gap.is_some() || ring.last().is_none_or(|(_, records)| records.len() >= SUB_BUFFER_RECORDS) {
            let mut words = vec![0; sub_buffer::WORDS];
            let lost: u64 = ring.last().map_or(0, |(before, _)| before[sub_buffer::LOST_BEFORE]);
            let [more, begin, end] = gap.unwrap_or_default();
            for (at, word) in [
                (sub_buffer::SEQUENCE, ring.len() as u64 + 1),
                (sub_buffer::THREAD, thread),
                (sub_buffer::TID, of.thread.tid),
                (sub_buffer::BASE, of.time),
                (sub_buffer::GENERATION, of.generation),
                (sub_buffer::LOST_BEFORE, lost + more),
                (sub_buffer::GAP_BEGIN, begin),
                (sub_buffer::GAP_END, end),
                (sub_buffer::WRITTEN_BEFORE, ring.iter().map(|(_, records)| records.len() as u64).sum()),
            ] {
                words[at] = word;
            }
            ring.push((words, Vec::new()));
            self.generations.insert(thread, of.generation);
        }
        let (head, records) = ring.last_mut().unwrap();
        let mut record = Vec::new();
        if self.generations.insert(thread, of.generation) != Some(of.generation) {
            record.extend([event::word(event::CONTROL, 2, 0), control::GENERATION, of.generation]);
        }
        let ticks = u32::try_from(of.time - head[sub_buffer::BASE]).unwrap();
        record.push(event::word(probe, payload.len(), ticks));
        record.extend(payload);
        records.push((of.time, record));
    }

    fn probe(&mut self, definition: &Definition) -> u32 {
        let known = self.definitions.iter().position(|known| known == definition);
        let number = known.unwrap_or_else(|| {
            self.definitions.push(definition.clone());
            self.definitions.len() - 1
        });
        // Numbers begin at 1.
        u32::try_from(number + 1).unwrap()
    }

    /// Returns the beginning of a file.
    fn head(&self) -> Vec<u8> {
        let mut words = [0; layout::HEADER_BYTES / 8];
        words[header::MAGIC] = layout::MAGIC;
        words[header::VERSION] = layout::VERSION;
        words[header::PROCESS] = 7;
        words[header::SUB_BUFFERS] = 4;
        words[header::SUB_BUFFER_WORDS] = 512;
        let mut definitions = Vec::new();
        for (number, of) in (1_u32..).zip(&self.definitions) {
            definitions.extend(number.to_le_bytes());
            let flags = if of.may_skip_exit { flag::FRAME } else { 0 }
                | if of.has_frame { flag::OWN_FRAME } else { 0 };
            let is_future = if of.is_future { flag::FUTURE } else { 0 };
            definitions.extend([of.kind.unwrap() as u8, flags | is_future]);
            definitions.extend(u16::try_from(of.fields.len()).unwrap().to_le_bytes());
            definitions.extend(of.line.to_le_bytes());
            for text in [&of.path, &of.file].into_iter().chain(&of.fields) {
                definitions.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
                definitions.extend(text.as_bytes());
            }
            definitions.resize(definitions.len().next_multiple_of(8), 0);
        }
        let of_block = [block::MAGIC, block::DEFINITIONS, definitions.len() as u64, 0];
        let words = words.into_iter().chain(of_block).flat_map(u64::to_le_bytes);
        words.chain(definitions).collect()
    }
}

impl Rings for GrowingRings {
    fn numbers(&self) -> Vec<u64> {
        self.rings.keys().copied().collect()
    }

    fn head(&self, ring: u64) -> [u64; ring::WORDS] {
        let mut words = [0; ring::WORDS];
        let (head, _) = self.rings[&ring].last().unwrap();
        let [lost, begin, end] = self.lost.get(&ring).copied().unwrap_or_default();
        words[ring::THREAD] = ring;
        words[ring::TID] = head[sub_buffer::TID];
        words[ring::LOST] = head[sub_buffer::LOST_BEFORE] + lost;
        (words[ring::GAP_BEGIN], words[ring::GAP_END]) = (begin, end);
        words
    }

    fn read(&mut self, ring: u64, words: &mut Vec<u64>) -> Part {
        let ring = &self.rings[&ring];
        let current = words.first().map_or(0, |number| usize::try_from(*number - 1).unwrap());
        let seen = |number: usize| -> Vec<u64> {
            let Some((head, records)) = ring.get(number) else { return Vec::new() };
            let records: Vec<_> = records.iter().filter(|(time, _)| *time <= self.now).collect();
            if records.is_empty() {
                Vec::new()
            } else {
                records.iter().fold(head.clone(), |sum, it| [sum, it.1.clone()].concat())
            }
        };
        let own = seen(current);
        if own.len() != words.len() {
            *words = own;
            return Part::Further;
        }
        let next = if words.is_empty() { Vec::new() } else { seen(current + 1) };
        if next.is_empty() {
            return Part::None;
        }
        *words = next;
        Part::Next
    }
}

/// Makes each item later than the one before, so that their order is certain.
fn apart(mut fixture: Fixture) -> Fixture {
    for (item, time) in fixture.items.iter_mut().zip((10..).step_by(10)) {
        match item {
            Item::Event(event) => event.time = time,
            Item::Gap(gap) => (gap.begin, gap.end) = (time, time + 1),
            Item::Thread(_) => {}
        }
    }
    fixture
}

/// Returns all packets but those that compare clocks.
fn packets(bytes: &[u8]) -> Vec<TracePacket> {
    let packets = Trace::decode(bytes).unwrap().packet;
    packets.into_iter().filter(|packet| packet.clock_snapshot.is_none()).collect()
}

fn moment(time: u64) -> [u64; reading::WORDS] {
    [time, 0, time, 1_000_000 + time, time]
}

/// Reads the fixture in passes of this length; threads are ahead of each pass by some time.
fn live(fixture: &Fixture, pass: u64, ahead: u64) -> Vec<u8> {
    let (mut rings, mut out) = (GrowingRings::new(fixture), Vec::new());
    let mut live = Live::new(rings.head(), &mut out).unwrap();
    let end = fixture.items.len() as u64 * 10 + 10;
    for time in (0..end).step_by(usize::try_from(pass).unwrap()) {
        rings.now = time + ahead;
        live.advance(&moment(time), &mut rings).unwrap();
    }
    rings.now = u64::MAX;
    live.finish(&moment(end), &mut rings).unwrap();
    drop(live);
    out
}

#[test]
fn the_clocks_are_compared_at_the_beginning_and_each_second() {
    let (mut rings, mut out) = (GrowingRings::default(), Vec::new());
    let mut live = Live::new(rings.head(), &mut out).unwrap();
    for time in [5, 500_000_000, 1_000_000_005, 1_000_000_006] {
        live.advance(&moment(time), &mut rings).unwrap();
    }
    drop(live);
    let clocks: Vec<_> = (Trace::decode(&*out).unwrap().packet.into_iter())
        .filter_map(|packet| packet.clock_snapshot)
        .map(|it| {
            it.clocks.iter().map(|it| (it.clock_id.unwrap(), it.timestamp.unwrap())).collect::<Vec<_>>()
        })
        .collect();
    let at = |time| vec![(3, time), (1, 1_000_000 + time), (6, time)];
    assert_eq!(clocks, [vec![(3, 0)], at(5), at(1_000_000_005)]);
}

#[test]
fn losses_are_told_where_the_thread_goes_on_and_at_the_end() {
    let fixture = Fixture::new()
        .hit(1, 0, "entry app::f")
        .gap(1, 0, 0, 3)
        .hit(2, 0, "entry app::f")
        .hit(1, 0, "entry app::f")
        .hit(1, 0, "exit app::f")
        .hit(2, 0, "exit app::f")
        .gap(2, 0, 0, 4);
    let fixture = apart(fixture);
    let lost = |bytes: &[u8]| -> Vec<_> {
        let of = |packet: TracePacket| Some((packet.timestamp?, packet.track_event?.debug_annotations));
        let dropped = packets(bytes).into_iter().filter(|packet| packet.previous_packet_dropped == Some(1));
        dropped.filter_map(of).map(|(time, lost)| (time, lost[0].uint_value.unwrap())).collect()
    };
    assert_eq!(lost(&live(&fixture, 10, 0)), [(20, 3), (70, 4)]);
}

#[test]
fn a_loss_that_is_told_late_does_not_end_a_future_that_goes_on() {
    let fixture = Fixture::new()
        .hit(1, 0, "entry app::task 64")
        .gap(1, 0, 0, 1)
        .hit(2, 0, "resume app::task 64")
        .hit(1, 0, "entry app::f")
        .hit(2, 0, "suspend app::task 64");
    let bytes = live(&apart(fixture), 10, 0);
    let futures = packets(&bytes).into_iter().filter_map(|packet| packet.track_descriptor?.name);
    assert_eq!(futures.collect::<Vec<_>>(), ["app::task"]);
}

proptest! {
    #[test]
    fn passes_make_the_packets_that_the_whole_trace_makes(
        mut fixture in any_fixture(),
        pass in 1..200_u64,
        ahead in 0..60_u64,
    ) {
        fixture.items.retain(|item| !matches!(item, Item::Gap(_)));
        let fixture = apart(fixture);
        let mut whole = Vec::new();
        export(Format::Perfetto, None, fixture.results(), &mut whole).unwrap();
        prop_assert_eq!(packets(&live(&fixture, pass, ahead)), packets(&whole));
    }

    #[test]
    fn losses_do_not_disturb_the_nesting(fixture in any_fixture(), pass in 1..200_u64) {
        let fixture = apart(fixture);
        let mut open: BTreeMap<u64, i64> = BTreeMap::new();
        for packet in packets(&live(&fixture, pass, 0)) {
            let Some(event) = packet.track_event else { continue };
            let depth = open.entry(event.track_uuid.unwrap()).or_default();
            *depth += match event.kind { Some(1) => 1, Some(2) => -1, _ => 0 };
            prop_assert!(*depth >= 0);
        }
        prop_assert!(open.values().all(|depth| *depth == 0));
    }
}
