//! `latent`: the cost of an empty function with a latent entry and exit.

// Safety: relies on sections that hold code only.
#![expect(unsafe_code, reason = "see above")]

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use probe_benches::{Scale, aligned, aligned_calls, interleave, pin, timing};
use probe_runtime::probe;
use static_keys::{define_static_key_false, static_branch_unlikely};

thread_local! {
    static HITS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    HITS.set(HITS.get() + 1);
}

#[inline(never)]
#[unsafe(link_section = ".text.latent.plain")]
fn plain() {
    black_box(());
}

/// The same function again: the difference from `plain` is the machine's noise.
#[inline(never)]
#[unsafe(link_section = ".text.latent.again")]
fn plain_again() {
    black_box(());
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.latent.probe")]
fn probed() {
    black_box(());
}

define_static_key_false!(KEY);

#[inline(never)]
#[unsafe(link_section = ".text.latent.static_keys")]
fn static_keys() {
    if static_branch_unlikely!(KEY) {
        count();
    }
    black_box(());
    if static_branch_unlikely!(KEY) {
        count();
    }
}

static FLAG: AtomicBool = AtomicBool::new(false);

#[inline(never)]
#[unsafe(link_section = ".text.latent.atomic_bool")]
fn atomic_bool() {
    if FLAG.load(Ordering::Relaxed) {
        count();
    }
    black_box(());
    if FLAG.load(Ordering::Relaxed) {
        count();
    }
}

#[tracing::instrument(level = "trace")]
#[inline(never)]
#[unsafe(link_section = ".text.latent.tracing")]
fn instrumented() {
    black_box(());
}

aligned_calls!(call_plain, ".text.latent.plain", plain);
aligned_calls!(call_plain_again, ".text.latent.again", plain_again);
aligned_calls!(call_probed, ".text.latent.probe", probed);
aligned_calls!(call_static_keys, ".text.latent.static_keys", static_keys);
aligned_calls!(call_atomic_bool, ".text.latent.atomic_bool", atomic_bool);
aligned_calls!(call_instrumented, ".text.latent.tracing", instrumented);

fn main() {
    let scale = Scale::from_args();
    pin(0);
    static_keys::global_init();
    let calls = scale.of(50_000);
    let mut cases = [
        aligned("plain", calls, call_plain, plain),
        aligned("plain-again", calls, call_plain_again, plain_again),
        aligned("probe", calls, call_probed, probed),
        aligned("static-keys", calls, call_static_keys, static_keys),
        aligned("atomic-bool", calls, call_atomic_bool, atomic_bool),
        aligned("tracing", calls, call_instrumented, instrumented),
    ];
    let medians = interleave(scale.of(4_000), &mut cases);
    for case in medians.names() {
        timing("latent", &medians, case, "plain");
    }
    assert_eq!(HITS.get(), 0, "nobody listens");
}
