//! `trace_export`: the processor time to read a trace, and to convert it for other tools. The trace
//! has nested calls of two threads, points with a number and with a text. The baseline of reading
//! is to add up the file's words, that of converting is to read.

use std::fs;
use std::hint::black_box;
use std::io::{self, Cursor, Write};
use std::path::PathBuf;
use std::thread;

use probe_benches::{Case, Scale, figure, interleave, pin, thread_ns};
use probe_runtime::{Error, Trace, probe, select};
use probe_trace::Trace as Recorded;
use probe_trace::export::{Format, export};

#[probe]
#[inline(never)]
fn outer(number: u64) -> u64 {
    let sum = (0..4).map(|n| inner(number + n)).sum();
    probe!("sum", sum);
    probe!("said", text = TEXTS[usize::from(number % 2 == 1)]);
    sum
}

#[probe]
#[inline(never)]
fn inner(number: u64) -> u64 {
    black_box(number)
}

const TEXTS: [&str; 2] = ["one", "a text that is longer"];
/// Events of a call of `outer`.
const EVENTS: u64 = 2 + 4 * 2 + 2;
const THREADS: u64 = 2;

/// Counts bytes in place of writing them.
struct Bytes(u64);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(black_box(bytes).len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a trace's file as it is on the disk.
fn record(calls: u64) -> Result<Vec<u8>, Error> {
    outer(0);
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("export-{}.probetrace", std::process::id()));
    // Rings that hold all of it.
    let first = Trace::first().ring_size(64 << 20).total_size(256 << 20);
    let trace = select("**::trace_export::**")?.attach(first)?;
    thread::scope(|scope| {
        (0..THREADS).for_each(|_| _ = scope.spawn(|| (0..calls).for_each(|n| _ = outer(n))));
    });
    let totals = trace.snapshot(&path)?;
    assert_eq!((totals.written, totals.lost), (THREADS * calls * EVENTS, 0), "each event is written");
    let file = fs::read(&path).expect("it was written");
    let _ = fs::remove_file(path);
    Ok(file)
}

fn open(file: &'static [u8]) -> Recorded {
    Recorded::read([("bytes", Cursor::new(file))]).expect("a trace")
}

/// Returns a case that measures processor time.
fn timed<'a>(name: &'static str, mut run: impl FnMut() + 'a) -> Case<'a> {
    Case::given(name, move || {
        let before = thread_ns();
        run();
        thread_ns() - before
    })
}

fn main() -> Result<(), Error> {
    let scale = Scale::from_args();
    pin(0);
    let calls = scale.of(20_000);
    let file: &'static [u8] = record(calls)?.leak();
    // Each thread is an item, too.
    let items = THREADS * (calls * EVENTS + 1);
    let convert = |format: Format| {
        move || {
            let (mut trace, mut out) = (open(file), Bytes(0));
            export(format, trace.clocks(), trace.items(), &mut out).expect("all of it is written");
            assert_ne!(out.0, 0);
        }
    };
    let mut cases = [
        timed("bytes", || {
            let sum = file.as_chunks().0.iter().fold(0, |sum: u64, word| sum ^ u64::from_le_bytes(*word));
            black_box(sum);
        }),
        timed("reader", move || {
            let mut trace = open(file);
            assert_eq!(trace.items().flatten().count() as u64, items);
        }),
        timed("perfetto", convert(Format::Perfetto)),
        timed("chrome", convert(Format::Chrome)),
        timed("folded", convert(Format::Folded)),
    ];
    let medians = interleave(scale.of(11), &mut cases);
    for case in medians.names().skip(1) {
        let ns = medians.ns(case) / items as f64;
        let baseline = if case == "reader" { "bytes" } else { "reader" };
        figure(
            &format!("trace_export/{case}"),
            format_args!("{ns:.0}"),
            "ns an item",
            medians.ratio(case, baseline),
            &format!("{baseline}: {:.2} million items a second", 1e3 / ns),
        );
    }
    Ok(())
}
