//! `trace_live`: the processor time of the thread that writes a trace for Perfetto while the
//! program runs, and the size of the file, an event. The baselines are those of a trace that is
//! converted later.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use probe_benches::{Scale, figure, process_ns, thread_ns};
use probe_runtime::{Error, Trace, probe, select};

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

/// Records calls to a file with room for all of them. Returns the processor time of the thread that
/// writes it, and the bytes of the file, an event.
fn recorded(path: &Path, calls: u64) -> Result<[f64; 2], Error> {
    let others = || process_ns() - thread_ns();
    let before = others();
    let trace = Trace::to_file(path).ring_size(128 << 20);
    let trace = select("trace_live::**")?.attach(trace)?;
    (0..calls).for_each(outer);
    let totals = trace.finish()?;
    let took = (others() - before) as f64;
    let events = (EVENTS * calls) as f64;
    assert_eq!((totals.written, totals.lost), (EVENTS * calls, 0), "each event is written");
    let bytes = fs::metadata(path).expect("it was written").len();
    Ok([took, bytes as f64].map(|it| it / events))
}

fn least(one: [f64; 2], other: [f64; 2]) -> [f64; 2] {
    [one[0].min(other[0]), one[1].min(other[1])]
}

fn main() -> Result<(), Error> {
    let scale = Scale::from_args();
    let calls = scale.of(100_000);
    outer(0);
    let path = std::env::temp_dir().join(format!("trace-live-{}.probetrace", std::process::id()));
    let live_path = path.with_extension("pftrace");
    let (mut live, mut later) = ([f64::MAX; 2], [f64::MAX; 2]);
    for _ in 0..scale.of(5) {
        live = least(live, recorded(&live_path, calls)?);
        later = least(later, recorded(&path, calls)?);
    }
    for path in [path, live_path] {
        let _ = fs::remove_file(path);
    }
    for (name, unit, at) in [("time", "ns an event", 0), ("size", "bytes an event", 1)] {
        let name = format!("trace_live/{name}");
        figure(&name, format_args!("{:.1}", live[at]), unit, live[at] / later[at], "a .probetrace");
    }
    Ok(())
}
