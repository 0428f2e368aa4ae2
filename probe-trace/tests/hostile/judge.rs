//! The rules that reading and exporting keep, whatever the bytes are.

use std::collections::HashMap;
use std::io::{self, Cursor, Write};

use probe_trace::calls::{Calls, Step, Track};
use probe_trace::export::{Format, export};
use probe_trace::{Item, Trace};

/// Bytes that an export writes at most for each byte of the file. An event of eight bytes writes
/// its probe's path, of at most 4,117 bytes, which escapes make up to six times as long.
const LONGER: usize = 4096;
/// Bytes that a line of folded stacks has at most: see `Folded`.
const LINE: usize = (1 << 16) + 64;
/// Bytes that an export has in any case.
const FRAME: usize = 4096;

/// The parts of files that could be read.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    pub files: usize,
    pub items: usize,
    pub events: usize,
    pub written: usize,
}

impl Seen {
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.items += other.items;
        self.events += other.events;
        self.written += other.written;
    }
}

/// All formats.
pub const FORMATS: [Format; 4] = [Format::Perfetto, Format::Chrome, Format::Firefox, Format::Folded];

/// Reads files, merges them and exports them in these formats; panics if a rule is broken.
pub fn judge(files: &[&[u8]], formats: &[Format]) -> Seen {
    let length = files.iter().map(|file| file.len()).sum::<usize>();
    let sources = files.iter().map(|file| ("it", Cursor::new(file.to_vec())));
    let Ok(mut trace) = Trace::read(sources) else { return Seen::default() };
    let mut seen = Seen { files: files.len(), ..Seen::default() };
    if let Some(totals) = trace.totals() {
        assert!(totals.emitted() >= totals.written && totals.emitted() >= totals.lost());
    }
    assert!(trace.problems().len() <= 16 * files.len());
    let _ = (trace.clock_error(), trace.wall_time(u64::MAX));
    let mut last = 0;
    for item in trace.items() {
        let item = item.expect("memory has no errors");
        seen.items += 1;
        let (begin, end) = match &item {
            Item::Event(event) => (event.time, event.time),
            Item::Gap(gap) => (gap.begin, gap.end),
            Item::Off(off) => (off.begin, off.end.unwrap_or(off.begin)),
            _ => continue,
        };
        seen.events += usize::from(matches!(item, Item::Event(_)));
        assert!(last <= begin && begin <= end, "{item:?} after {last}");
        last = begin;
    }
    assert!(seen.items * 8 <= length, "{} items of {length} bytes", seen.items);
    nest(Calls::new(trace.items()).map(Result::unwrap));
    for format in formats.iter().copied() {
        let mut written = Written(0);
        export(format, trace.clocks(), trace.items(), &mut written).expect("nothing refuses the output");
        let of_events = if format == Format::Folded { seen.events * LINE } else { length * LONGER };
        assert!(written.0 <= FRAME + of_events, "{format:?}: {} bytes of {length}", written.0);
        seen.written += written.0;
    }
    seen
}

/// Slices of a track nest, and its times never decrease.
fn nest(steps: impl Iterator<Item = Step>) {
    let mut open: HashMap<Track, (u64, Vec<_>)> = HashMap::new();
    for step in steps {
        let (track, time) = match &step {
            Step::Begin(begin) => (begin.track, begin.time),
            Step::End(end) => (end.track, end.time),
            _ => continue,
        };
        let (last, slices) = open.entry(track).or_default();
        assert!(*last <= time, "{step:?} after {last}");
        *last = time;
        match step {
            Step::Begin(begin) => slices.push(begin.slice),
            Step::End(end) => assert_eq!(slices.pop(), Some(end.slice)),
            _ => (),
        }
    }
    assert!(open.values().all(|(_, slices)| slices.is_empty()));
}

/// Counts written bytes.
struct Written(usize);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
