//! `trace`: the cost of recording a call with the times of its entry and exit. The baseline is two
//! readings of the counter, which every trace needs. `mapped` records to a file: the one that the
//! variable `PROBE_BENCH_FILE` names, or a temporary one.

// Safety: relies on sections that hold code only, and on an instruction that touches no memory.
#![expect(unsafe_code, reason = "see above")]

use std::cell::Cell;
use std::hint::black_box;

use probe_benches::{Scale, aligned, aligned_calls, figure, interleave, pin, timing};
use probe_runtime::{Trace, probe, select};

thread_local! {
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[inline(never)]
#[unsafe(link_section = ".text.trace.plain")]
fn plain() {
    black_box(());
}

/// The minimum: readings at the beginning and the end.
#[inline(never)]
#[unsafe(link_section = ".text.trace.readings")]
fn readings() {
    let start = ticks();
    black_box(());
    READINGS.set(READINGS.get().wrapping_add(ticks() - start));
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.trace.bare")]
fn bare() {
    black_box(());
}

#[probe(args(*))]
#[inline(never)]
#[unsafe(link_section = ".text.trace.number")]
fn number(value: u64) {
    black_box(value);
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.trace.mapped")]
fn mapped() {
    black_box(());
}

#[inline(never)]
#[unsafe(link_section = ".text.trace.one_number")]
fn one_number() {
    number(black_box(7));
}

aligned_calls!(call_plain, ".text.trace.plain", plain);
aligned_calls!(call_readings, ".text.trace.readings", readings);
aligned_calls!(call_bare, ".text.trace.bare", bare);
aligned_calls!(call_mapped, ".text.trace.mapped", mapped);
aligned_calls!(call_number, ".text.trace.one_number", one_number);

fn main() -> Result<(), probe_runtime::Error> {
    let scale = Scale::from_args();
    pin(0);
    let (calls, rounds) = (scale.of(20_000), scale.of(1_000));
    let bare_trace = select("**::bare")?.attach(Trace::recorder())?;
    let number_trace = select("**::number")?.attach(Trace::recorder())?;
    let file = std::env::var_os("PROBE_BENCH_FILE").map_or_else(
        || std::env::temp_dir().join(format!("trace-{}.probetrace", std::process::id())),
        Into::into,
    );
    let mapped_trace = select("**::mapped")?.attach(Trace::recorder().in_file(&file))?;
    let mut cases = [
        aligned("plain", calls, call_plain, plain),
        aligned("two-readings", calls, call_readings, readings),
        aligned("pair", calls, call_bare, bare),
        aligned("pair-mapped", calls, call_mapped, mapped),
        aligned("pair-with-number", calls, call_number, one_number),
    ];
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("trace", &medians, case, "two-readings");
    }
    figure(
        "trace",
        format_args!("{:.1}", medians.ns("pair")),
        "ns the pair",
        medians.ratio("pair", "two-readings"),
        "two-readings",
    );
    figure(
        "trace_mapped",
        format_args!("{:.1}", medians.ns("pair-mapped")),
        "ns the pair, in a file",
        medians.ratio("pair-mapped", "pair"),
        "pair",
    );
    // A file that stays is temporary.
    let _ = std::fs::remove_file(file);
    for trace in [bare_trace, number_trace, mapped_trace] {
        let totals = trace.totals();
        assert_eq!((totals.written, totals.lost), (2 * calls * (rounds + 1), 0), "no call is lost");
    }
    Ok(())
}
