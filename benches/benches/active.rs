//! `active`: the cost of a pair of hits, entry and exit of an empty function, beside a flag and a
//! counter.

// Safety: relies on sections that hold code only.
#![expect(unsafe_code, reason = "see above")]

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use probe_benches::{Scale, aligned, aligned_calls, interleave, pin, timing};
use probe_runtime::{Consumer, Count, Event, probe, select};

thread_local! {
    static HITS: Cell<u64> = const { Cell::new(0) };
    static ENTERED: Cell<u64> = const { Cell::new(0) };
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

static FLAG: AtomicBool = AtomicBool::new(false);

#[inline(never)]
#[unsafe(link_section = ".text.active.plain")]
fn plain() {
    black_box(());
}

/// A hand-written version: one counter for entries and exits.
#[inline(never)]
#[unsafe(link_section = ".text.active.atomic_bool")]
fn flagged() {
    if FLAG.load(Ordering::Relaxed) {
        HITS.set(HITS.get() + 1);
    }
    black_box(());
    if FLAG.load(Ordering::Relaxed) {
        HITS.set(HITS.get() + 1);
    }
}

/// The same with a counter for each place, as with probes.
#[inline(never)]
#[unsafe(link_section = ".text.active.atomic_bool_apart")]
fn flagged_apart() {
    if FLAG.load(Ordering::Relaxed) {
        ENTERED.set(ENTERED.get() + 1);
    }
    black_box(());
    if FLAG.load(Ordering::Relaxed) {
        LEFT.set(LEFT.get() + 1);
    }
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.active.counted")]
fn counted() {
    black_box(());
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.active.consumed")]
fn consumed() {
    black_box(());
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.active.shared")]
fn shared() {
    black_box(());
}

aligned_calls!(call_plain, ".text.active.plain", plain);
aligned_calls!(call_flagged, ".text.active.atomic_bool", flagged);
aligned_calls!(call_flagged_apart, ".text.active.atomic_bool_apart", flagged_apart);
aligned_calls!(call_counted, ".text.active.counted", counted);
aligned_calls!(call_consumed, ".text.active.consumed", consumed);
aligned_calls!(call_shared, ".text.active.shared", shared);

/// The smallest consumer.
struct Seen;

impl Consumer for Seen {
    fn hit(&self, _event: &Event<'_>) {
        SEEN.with(|seen| seen.set(seen.get() + 1));
    }
}

fn main() -> Result<(), probe_runtime::Error> {
    let scale = Scale::from_args();
    pin(0);
    FLAG.store(black_box(true), Ordering::Relaxed);
    let (calls, rounds) = (scale.of(20_000), scale.of(2_000));
    let counts = select("**::counted")?.attach(Count::new())?;
    let twice = (select("**::shared")?.attach(Count::new())?, select("**::shared")?.attach(Count::new())?);
    let _seen = select("**::consumed")?.attach(Seen)?;
    let mut cases = [
        aligned("plain", calls, call_plain, plain),
        aligned("atomic-bool", calls, call_flagged, flagged),
        aligned("atomic-bool-own-counters", calls, call_flagged_apart, flagged_apart),
        aligned("count", calls, call_counted, counted),
        aligned("two-counts", calls, call_shared, shared),
        aligned("consumer", calls, call_consumed, consumed),
    ];
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("active", &medians, case, "atomic-bool");
    }
    let apart = medians.ratio("count", "atomic-bool-own-counters");
    println!(
        "count by atomic-bool-own-counters, which keep entries and exits apart as probes do: {apart:.2}"
    );
    let expected = 2 * calls * (rounds + 1);
    for total in
        [HITS.get(), ENTERED.get() + LEFT.get(), counts.total(), twice.0.total(), twice.1.total(), SEEN.get()]
    {
        assert_eq!(total, expected, "no hit is lost");
    }
    Ok(())
}
