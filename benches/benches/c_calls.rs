//! `c_calls`: a small function in C, latent and counted, beside the plain function and Rust's.

// Safety: relies on sections that hold code only.
#![expect(unsafe_code, reason = "see above")]

use std::hint::black_box;

use probe_benches::{Case, IS_PATCHED, Scale, aligned, aligned_calls, interleave, pin, timing};
use probe_runtime::{Count, probe, select};
use probe_tests::real::{CodeBase, Way};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

const SMALL: CodeBase = CodeBase {
    flags: &["-falign-loops=64", "-DSMALL=small"],
    ..CodeBase::of_file("small", concat!(env!("CARGO_MANIFEST_DIR"), "/c/small.c"))
};

/// The same function under another name, so that its probes are separate.
const SMALL_HOOKED: CodeBase = CodeBase { flags: &["-falign-loops=64", "-DSMALL=small_hooked"], ..SMALL };

#[inline(never)]
#[unsafe(link_section = ".text.c_calls.plain")]
fn plain() {
    black_box(());
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.c_calls.latent")]
fn latent() {
    black_box(());
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.c_calls.counted")]
fn counted() {
    black_box(());
}

aligned_calls!(call_plain, ".text.c_calls.plain", plain);
aligned_calls!(call_latent, ".text.c_calls.latent", latent);
aligned_calls!(call_counted, ".text.c_calls.counted", counted);

fn main() -> Result<(), probe_runtime::Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let (calls, rounds) = (scale.of(20_000), scale.of(2_000));
    let [plain_c, entry_return, empty_hooks] =
        [Way::Plain, Way::EntryReturn, Way::EmptyHooks].map(|way| SMALL.load(ROOT, way));
    let hooks_removed = SMALL_HOOKED.load(ROOT, Way::InstrumentFunctions);
    let case = |name, loaded: &probe_tests::real::Loaded| {
        let workload = loaded.workload_function();
        Case::new(name, calls, move |calls| assert_eq!(workload(calls), calls))
    };
    let latent = interleave(
        rounds,
        &mut [
            case("plain", &plain_c),
            case("entry-return-latent", &entry_return),
            case("instrument-functions-latent", &hooks_removed),
            case("empty-hooks", &empty_hooks),
            aligned("rust-plain", calls, call_plain, plain),
            aligned("rust-latent", calls, call_latent, latent),
        ],
    );
    for case in latent.names() {
        timing("c_calls", &latent, case, if case.starts_with("rust") { "rust-plain" } else { "plain" });
    }

    let counts = ["small", "small_hooked", "c_calls::counted"]
        .map(|selector| select(selector).and_then(|set| set.attach(Count::new())));
    let active = interleave(
        rounds,
        &mut [
            aligned("rust-count", calls, call_counted, counted),
            case("entry-return-count", &entry_return),
            case("instrument-functions-count", &hooks_removed),
        ],
    );
    for case in active.names() {
        timing("c_calls", &active, case, "rust-count");
    }
    for attachment in counts {
        assert_eq!(attachment?.total(), 2 * calls * (rounds + 1), "no hit is lost");
    }
    Ok(())
}
