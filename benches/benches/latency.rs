//! `latency`: the cost of measuring a call, entry and exit of an empty function. The baseline is
//! hand-written: two readings of the counter, and a histogram.

// Safety: relies on sections that hold code only, and on an instruction that touches no memory.
#![expect(unsafe_code, reason = "see above")]

use std::cell::RefCell;
use std::hint::black_box;

use probe_benches::spans::Spans;
use probe_benches::{Scale, aligned, aligned_calls, figure, interleave, pin, timing};
use probe_runtime::latency::hdrhistogram::Histogram;
use probe_runtime::{Consumer, Event, Latency, probe, select};
use tracing::subscriber;

type RecordedTimes = RefCell<(u64, Histogram<u64>)>;

fn times() -> RecordedTimes {
    RefCell::new((0, Histogram::new_with_max(1 << 40, 2).expect("two digits")))
}

thread_local! {
    static BY_HAND: RecordedTimes = times();
    static SPANS: RecordedTimes = times();
    static READINGS: RefCell<u64> = const { RefCell::new(0) };
}

fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[inline(never)]
#[unsafe(link_section = ".text.latency.plain")]
fn plain() {
    black_box(());
}

/// The minimum: readings at the beginning and the end.
#[inline(never)]
#[unsafe(link_section = ".text.latency.readings")]
fn readings() {
    let start = ticks();
    black_box(());
    READINGS.with_borrow_mut(|sum| *sum = sum.wrapping_add(ticks() - start));
}

/// The hand-written version.
#[inline(never)]
#[unsafe(link_section = ".text.latency.by_hand")]
fn by_hand() {
    let start = ticks();
    black_box(());
    let elapsed = ticks() - start;
    BY_HAND.with_borrow_mut(|(_, histogram)| histogram.saturating_record(elapsed));
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.latency.measured")]
fn measured() {
    black_box(());
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.latency.consumed")]
fn consumed() {
    black_box(());
}

#[tracing::instrument]
#[inline(never)]
#[unsafe(link_section = ".text.latency.span")]
fn span() {
    black_box(());
}

aligned_calls!(call_plain, ".text.latency.plain", plain);
aligned_calls!(call_readings, ".text.latency.readings", readings);
aligned_calls!(call_by_hand, ".text.latency.by_hand", by_hand);
aligned_calls!(call_measured, ".text.latency.measured", measured);
aligned_calls!(call_consumed, ".text.latency.consumed", consumed);

/// An empty consumer: the cost that all consumers have.
struct Nothing;

impl Consumer for Nothing {
    fn hit(&self, _event: &Event<'_>) {}
}

fn main() -> Result<(), probe_runtime::Error> {
    let scale = Scale::from_args();
    pin(0);
    let (calls, rounds) = (scale.of(20_000), scale.of(1_000));
    let latency = select("**::measured")?.attach(Latency::new())?;
    let _nothing = select("**::consumed")?.attach(Nothing)?;
    // No span is nested in another.
    let _spans = subscriber::set_default(Spans {
        enter: || SPANS.with_borrow_mut(|(start, _)| *start = ticks()),
        exit: || {
            let end = ticks();
            SPANS.with_borrow_mut(|(start, histogram)| histogram.saturating_record(end - *start));
        },
    });
    let mut cases = [
        aligned("plain", calls, call_plain, plain),
        aligned("two-readings", calls, call_readings, readings),
        aligned("by-hand", calls, call_by_hand, by_hand),
        aligned("empty-consumer", calls, call_consumed, consumed),
        aligned("measured", calls, call_measured, measured),
        probe_benches::Case::new("tracing-span", calls, |calls| (0..calls).for_each(|_| span())),
    ];
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("latency", &medians, case, "by-hand");
    }
    figure(
        "latency",
        format_args!("{:.1}", medians.ns("measured")),
        "ns the pair",
        medians.ratio("measured", "by-hand"),
        "by-hand",
    );
    let expected = calls * (rounds + 1);
    let latencies = latency.latencies();
    let recorded =
        |times: &'static std::thread::LocalKey<RecordedTimes>| times.with_borrow(|(_, it)| it.len());
    for total in [latencies[0].calls(), recorded(&BY_HAND), recorded(&SPANS)] {
        assert_eq!(total, expected, "no call is lost");
    }
    println!("{latency}");
    Ok(())
}
