//! Perfetto's format, written while the program runs.
//!
//! Perfetto's reader sorts packets by their times, so the file needs no order across threads. A
//! call's slice begins and ends in packets of their own: a file that ends early has the beginning.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`. Perfetto could take stamps of a clock of the trace's
//! own, but it knows that clock's unit in whole nanoseconds, and uses one offset between two
//! readings.

use std::io::{self, BufWriter, Cursor, Write};
use std::path::Path;

use super::{perfetto::Perfetto, sink::Sink};
use crate::calls::Pairing;
use crate::item::Item;
use crate::layout::reading;
use crate::reader::{RingReader, Rings};

/// The bytes that are written at once.
const WRITE_BUFFER_BYTES: usize = 1 << 16;
/// The least nanoseconds between two packets that compare the system's clocks.
const CLOCK_SNAPSHOT_INTERVAL_NS: u64 = 1_000_000_000;

/// Writes a trace for Perfetto while its program runs, from the rings of its threads. After each
/// pass the file can be opened; slices that have not ended are shown as such.
///
/// Memory: one sub-buffer for each ring, open calls and futures, and each name once.
///
/// ```
/// use probe_trace::export::Live;
/// let error = Live::new(b"PK".to_vec(), Vec::new()).unwrap_err();
/// assert!(error.to_string().starts_with("the trace is no trace of latent probes"));
/// ```
pub struct Live<W: Write> {
    items: RingReader,
    pairing: Pairing,
    sink: Perfetto<BufWriter<W>>,
    /// `CLOCK_MONOTONIC` at the last packet that compares the clocks.
    last_snapshot: Option<u64>,
    events: u64,
}

impl<W: Write> Live<W> {
    /// Begins a file. `head` is the beginning of a trace as [`layout`](crate::layout) has it: the
    /// header, the program's name, the definitions.
    ///
    /// # Errors
    /// If `head` is not such a beginning, or if the writer has an error.
    pub fn new(head: Vec<u8>, writer: W) -> io::Result<Self> {
        let (items, _) = RingReader::new(Path::new("the trace"), Cursor::new(head))
            .map_err(|it| io::Error::new(io::ErrorKind::InvalidData, it))?;
        let sink = Perfetto::new(BufWriter::with_capacity(WRITE_BUFFER_BYTES, writer))?;
        Ok(Self { items, pairing: Pairing::default(), sink, last_snapshot: None, events: 0 })
    }

    /// Adds definitions of further probes, before their first hits are written: the content of a
    /// block of them, as [`layout`](crate::layout) has it.
    ///
    /// ```no_run
    /// # fn joined(live: &mut probe_trace::export::Live<Vec<u8>>, block: &[u8]) {
    /// live.define(block);
    /// # }
    /// ```
    pub fn define(&mut self, definitions: &[u8]) {
        self.items.define(definitions);
    }

    /// Adds stacks, before the hits that have their numbers are written: the content of a block of
    /// them, as [`layout`](crate::layout) has it.
    ///
    /// ```no_run
    /// # fn seen(live: &mut probe_trace::export::Live<Vec<u8>>, block: &[u8]) {
    /// live.add_stacks(block);
    /// # }
    /// ```
    pub fn add_stacks(&mut self, stacks: &[u8]) {
        self.items.add_stacks(stacks);
    }

    /// Returns the number of hits so far. After a pass without an error, the writer has them all.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the writer. After a pass without an error, it has all that was written.
    pub fn writer(&mut self) -> &mut W {
        self.sink.writer().get_mut()
    }

    /// Writes the hits up to this [reading] of all clocks, which was taken before the
    /// rings are read.
    ///
    /// # Errors
    /// If the writer has an error. Don't continue the trace then.
    pub fn advance(&mut self, now: &[u64; reading::WORDS], rings: &mut impl Rings) -> io::Result<()> {
        let monotonic = now[reading::MONOTONIC];
        if self.last_snapshot.is_none_or(|last| monotonic.saturating_sub(last) >= CLOCK_SNAPSHOT_INTERVAL_NS)
        {
            self.last_snapshot = Some(monotonic);
            self.sink.write_clocks(now)?;
        }
        let Self { items, pairing, sink, events, .. } = self;
        let mut written = Ok(());
        items.advance(now, rings, |item| {
            *events += u64::from(matches!(item, Item::Event(_)));
            pairing.take(item);
            while let Some(step) = pairing.step() {
                written = std::mem::replace(&mut written, Ok(())).and_then(|()| sink.step(&step));
            }
        });
        written?;
        sink.finish()
    }

    /// Writes the hits that are left, and ends all slices. No thread may write to the rings any
    /// more.
    ///
    /// # Errors
    /// If the writer has an error.
    pub fn finish(&mut self, now: &[u64; reading::WORDS], rings: &mut impl Rings) -> io::Result<()> {
        self.advance(now, rings)?;
        self.items.finish(rings, |item| {
            self.events += u64::from(matches!(item, Item::Event(_)));
            self.pairing.take(item);
        });
        self.pairing.finish();
        while let Some(step) = self.pairing.step() {
            self.sink.step(&step)?;
        }
        self.sink.finish()
    }
}

impl<W: Write> std::fmt::Debug for Live<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("items", &self.items).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Rings that grow from pass to pass give the packets that the whole trace gives.

    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::export::perfetto::{Trace, TracePacket};
    use crate::export::{Format, export};
    use crate::item::{Definition, FieldValue, TraceEvent};
    use crate::layout::{self, block, control, event, field, flag, header, ring, sub_buffer};
    use crate::reader::Part;
    use crate::tests::{Fixture, any_fixture};

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
                    Item::Thread(_) | Item::Off(_) | Item::OffLost(_) => {}
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
        // The rings of these tests don't have them.
        fixture.items.retain(|item| !matches!(item, Item::Off(_) | Item::OffLost(_)));
        for (item, time) in fixture.items.iter_mut().zip((10..).step_by(10)) {
            match item {
                Item::Event(event) => event.time = time,
                Item::Gap(gap) => (gap.begin, gap.end) = (time, time + 1),
                Item::Thread(_) | Item::Off(_) | Item::OffLost(_) => {}
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
            let dropped =
                packets(bytes).into_iter().filter(|packet| packet.previous_packet_dropped == Some(1));
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
}
