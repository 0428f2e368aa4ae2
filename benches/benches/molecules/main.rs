//! `molecules`: a molecular-dynamics program, traced, as in Table 3 of the paper on `EZTrace`, with
//! some ten million events. Once in Rust with threads, and once in C with OpenMP; both compute the
//! same energy to the last bit. The baseline is the same code without probes.
//!
//! The perturbation is the paper's: the time added to the program, divided by all events. Rings
//! hold the whole run, as the paper's buffers do, so no event is lost.

#[macro_use]
mod fluid;

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, processors};
use probe_runtime::{Count, Trace, select};
use probe_tests::real::{CodeBase, Way};
use probe_trace::Trace as Recorded;

fluid!(plain,);
fluid!(probed, #[probe_runtime::probe]);

const MOLECULES: CodeBase = CodeBase {
    name: "molecules",
    package: None,
    files: &[],
    includes: &[],
    workload: concat!(env!("CARGO_MANIFEST_DIR"), "/c/molecules.c"),
    is_cpp: false,
    flags: &["-fopenmp"],
    opt_level: 2,
    in_slices: &Way::PROBED,
    libraries: &[],
    made: &[],
    counted: &[],
};
const RUST: &str = "**::probed::**";
const C: &str = "lj_*";
/// Bytes that hold the events of one thread.
const RING: usize = 96 << 20;

/// Runs the program with a trace; returns the nanoseconds of the program alone.
fn traced(selector: &str, trace: Trace, events: u64, path: Option<&Path>, run: &dyn Fn()) -> u64 {
    let trace = trace.ring_size(RING).total_size(8 * RING);
    let attached = select(selector).and_then(|set| set.attach(trace)).expect("it has probes");
    let start = Instant::now();
    run();
    let took = start.elapsed();
    let totals = attached.finish().expect("there is room");
    assert_eq!((totals.written, totals.lost), (events, 0), "each event is written");
    if let Some(path) = path {
        let told = Recorded::open(&[path]).expect("a trace").totals().expect("it is closed");
        assert_eq!((told.written, told.lost()), (events, 0), "the file has them");
    }
    took.as_nanos().try_into().unwrap_or(u64::MAX)
}

fn main() {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    let scale = Scale::from_args();
    let (steps, rounds, threads) = (scale.of(90), scale.of(11), processors());
    let [c_plain, c_probed] =
        [Way::Plain, Way::EntryReturn].map(|way| MOLECULES.load(env!("CARGO_TARGET_TMPDIR"), way));
    let energy = plain::run(steps, threads);
    let runs: [(&str, &dyn Fn()); 4] = [
        ("rust-plain", &|| assert_eq!(black_box(plain::run(steps, threads)).to_bits(), energy.to_bits())),
        ("rust-latent", &|| assert_eq!(probed::run(steps, threads).to_bits(), energy.to_bits())),
        ("c-plain", &|| assert_eq!(c_plain.workload(steps), energy.to_bits())),
        ("c-latent", &|| assert_eq!(c_probed.workload(steps), energy.to_bits())),
    ];
    let before = plain::run(0, threads);
    assert!((energy / before - 1.0).abs() < 0.001, "the energy was {before}, and is {energy}");
    let [rust, c] = [(RUST, runs[1].1), (C, runs[3].1)].map(|(selector, run)| {
        let counted = select(selector).and_then(|set| set.attach(Count::new())).expect("it has probes");
        run();
        counted.total()
    });
    println!(
        "{threads} threads, {steps} steps, energy {before:.3} to {energy:.3}; events: {rust} in Rust, {c} in C"
    );

    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    let path: PathBuf = folder.join(format!("molecules-{}.probetrace", std::process::id()));
    let to_file = || Trace::to_file(&path);
    let mut cases: Vec<Case<'_>> = runs.iter().map(|(name, run)| Case::new(name, 1, |_| run())).collect();
    cases.push(Case::given("rust-recorded", || traced(RUST, Trace::recorder(), rust, None, runs[1].1)));
    cases.push(Case::given("rust-traced", || traced(RUST, to_file(), rust, Some(&path), runs[1].1)));
    cases.push(Case::given("c-recorded", || traced(C, Trace::recorder(), c, None, runs[3].1)));
    cases.push(Case::given("c-traced", || traced(C, to_file(), c, Some(&path), runs[3].1)));
    let asked = env::var("PROBE_BENCH_ONLY").ok();
    let is_asked = |language: &str| asked.as_deref().is_none_or(|asked| asked == language);
    cases.retain(|case| is_asked(case.name().split('-').next().unwrap_or_default()));
    let medians = interleave(rounds, &mut cases);
    drop(cases);
    let _ = fs::remove_file(&path);
    for (language, events) in [("rust", rust), ("c", c)].into_iter().filter(|(it, _)| is_asked(it)) {
        let plain = format!("{language}-plain");
        for way in ["plain", "latent", "recorded", "traced"] {
            let case = format!("{language}-{way}");
            let ms = medians.ns(&case) / 1e6;
            figure(
                &format!("molecules/{case}"),
                format_args!("{ms:.1}"),
                "ms",
                medians.ratio(&case, &plain),
                &plain,
            );
        }
        for way in ["recorded", "traced"] {
            let case = format!("{language}-{way}");
            let each = (medians.ns(&case) - medians.ns(&plain)) / events as f64;
            figure(
                &format!("molecules/{case}-perturbation"),
                format_args!("{each:.1}"),
                "ns an event",
                each / 227.0,
                "EZTrace's 227 ns",
            );
        }
    }
}
