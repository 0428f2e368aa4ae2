//! `trace_formats`: the processor time to convert a trace, an event, for each format. The baseline
//! reads the events of the same trace and does nothing with them. `live` is the processor time of
//! the thread that writes a trace for Perfetto while the program runs; its baseline is the same for
//! a trace that is converted later. The last figure compares the sizes of the two files.

// Safety: relies on a place for the result of a system call.
#![expect(unsafe_code, reason = "see above")]
#![expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]

use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;

use probe_benches::{Scale, figure};
use probe_runtime::{Trace, probe, select};
use probe_trace::Trace as Recorded;
use probe_trace::export::{Format, export};

#[probe]
#[inline(never)]
fn outer(number: u64) {
    inner(number);
    inner(number + 1);
    probe!("length", number = number % 100);
}

#[probe(args(*))]
#[inline(never)]
fn inner(number: u64) {
    black_box(number);
}

/// Events of a call of `outer`.
const EVENTS: u64 = 7;

fn least(one: [f64; 2], other: [f64; 2]) -> [f64; 2] {
    [one[0].min(other[0]), one[1].min(other[1])]
}

/// Returns this clock's time in nanoseconds.
fn clock(id: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::clock_gettime(id, &raw mut time) }, 0);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the processor time of this thread.
fn own() -> f64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Records calls to a file with room for all of them. Returns the processor time of the thread that
/// writes it, an event, and the bytes of an event.
fn recorded(path: &Path, calls: u64) -> Result<[f64; 2], probe_runtime::Error> {
    let others = || clock(libc::CLOCK_PROCESS_CPUTIME_ID) - own();
    let before = others();
    let trace = Trace::to_file(path).ring_size(128 << 20);
    let trace = select("trace_formats::**")?.attach(trace)?;
    (0..calls).for_each(outer);
    let totals = trace.finish()?;
    let took = others() - before;
    let events = (EVENTS * calls) as f64;
    assert_eq!((totals.written, totals.lost), (EVENTS * calls, 0));
    Ok([took / events, fs::metadata(path).map_or(0, |it| it.len()) as f64 / events])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scale = Scale::from_args();
    let calls = scale.of(100_000);
    let rounds = scale.of(5);
    outer(0);
    let path = std::env::temp_dir().join(format!("trace-formats-{}.probetrace", std::process::id()));
    let live_path = path.with_extension("pftrace");
    let (mut live, mut later) = ([f64::MAX; 2], [f64::MAX; 2]);
    for _ in 0..rounds {
        live = least(live, recorded(&live_path, calls)?);
        later = least(later, recorded(&path, calls)?);
    }
    let events = EVENTS * calls;
    let mut read = f64::MAX;
    let mut times = [f64::MAX; 3];
    let formats = [Format::Perfetto, Format::Chrome, Format::Folded];
    for _ in 0..rounds {
        let began = own();
        let count = Recorded::open(&[&path])?.items().count();
        assert!(count as u64 > events, "each event and a thread");
        read = read.min(own() - began);
        for (format, time) in formats.into_iter().zip(&mut times) {
            let began = own();
            export(format, Recorded::open(&[&path])?.items(), File::create("/dev/null")?)?;
            *time = (*time).min(own() - began);
        }
    }
    fs::remove_file(&path)?;
    fs::remove_file(&live_path)?;
    let each = |time: f64| time / events as f64;
    for (format, time) in formats.into_iter().zip(times) {
        let name = format!("trace_formats/{format:?}").to_lowercase();
        let ratio = each(time) / each(read);
        figure(&name, format_args!("{:.0}", each(time)), "ns an event", ratio, "reading them");
    }
    for (name, unit, at) in [("live", "ns an event", 0), ("size", "bytes an event", 1)] {
        let name = format!("trace_formats/{name}");
        figure(&name, format_args!("{:.1}", live[at]), unit, live[at] / later[at], "a .probetrace");
    }
    Ok(())
}
