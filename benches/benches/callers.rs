//! `callers`: hits that are grouped by their caller, and by the stack of their callers, beside hits
//! that are grouped by their thread, and hits that are delivered.

use std::hint::black_box;

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, pin, timing};
use probe_runtime::aggregate::Group;
use probe_runtime::{Aggregate, Consumer, Error, Event, probe, select};
use probe_tests::real::{CodeBase, Loaded, Way};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

const BASE: CodeBase = CodeBase::of_file("callers", concat!(env!("CARGO_MANIFEST_DIR"), "/c/callers.c"));

/// The functions of one build have names of their own, so that their probes are separate.
macro_rules! build {
    ($prefix:literal, $frames:literal) => {
        CodeBase { flags: &[$frames, "-falign-loops=64", concat!("-DNAME(it)=", $prefix, "_##it")], ..BASE }
    };
}

struct Empty;

impl Consumer for Empty {
    fn hit(&self, _: &Event<'_>) {}
}

#[inline(never)]
#[probe]
fn rust_by_thread() {
    black_box(());
}

#[inline(never)]
#[probe]
fn rust_by_caller() {
    black_box(());
}

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let (calls, rounds) = (scale.of(20_000), scale.of(1_000));
    let kinds = [
        ("delivered", build!("delivered", "-fno-omit-frame-pointer"), None),
        ("by-thread", build!("by_thread", "-fno-omit-frame-pointer"), Some("count by(thread)")),
        ("by-caller", build!("by_caller", "-fno-omit-frame-pointer"), Some("count by(caller)")),
        ("by-stack", build!("by_stack", "-fno-omit-frame-pointer"), Some("count by(stack)")),
        ("by-stack-without", build!("without", "-fomit-frame-pointer"), Some("count by(stack)")),
    ];
    let loaded: Vec<Loaded> = kinds.iter().map(|(_, base, _)| base.load(ROOT, Way::EntryReturn)).collect();
    let mut aggregates = Vec::new();
    let _empty = select("delivered_callee kind=entry")?.attach(Empty)?;
    for (name, _, text) in &kinds {
        if let Some(text) = text {
            let prefix = name.trim_start_matches("by-stack-").replace('-', "_");
            let set = select(&format!("{prefix}_callee kind=entry"))?;
            aggregates.push(set.attach(Aggregate::new(text).expect("it is written above"))?);
        }
    }
    for (function, text) in [("rust_by_thread", "count by(thread)"), ("rust_by_caller", "count by(caller)")] {
        let set = select(&format!("**::{function} kind=entry"))?;
        aggregates.push(set.attach(Aggregate::new(text).expect("it is written above"))?);
    }
    let case = |(name, loaded): (&'static str, &Loaded)| {
        let workload = loaded.workload_function();
        Case::new(name, calls, move |calls| assert_eq!(workload(calls), calls))
    };
    let mut cases: Vec<_> = kinds.iter().map(|(name, ..)| *name).zip(&loaded).map(case).collect();
    cases.push(Case::new("rust-by-thread", calls, |calls| (0..calls).for_each(|_| rust_by_thread())));
    cases.push(Case::new("rust-by-caller", calls, |calls| (0..calls).for_each(|_| rust_by_caller())));
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("callers", &medians, case, "delivered");
    }
    for (name, case, baseline) in [
        ("caller", "by-caller", "by-thread"),
        ("caller-in-rust", "rust-by-caller", "rust-by-thread"),
        ("stack-of-16", "by-stack", "by-thread"),
        ("stack-of-16-without-frame-pointers", "by-stack-without", "by-thread"),
    ] {
        let more = medians.ns(case) - medians.ns(baseline);
        figure(
            &format!("callers/{name}"),
            format!("{more:.2}"),
            "ns",
            medians.ratio(case, baseline),
            baseline,
        );
    }
    for aggregate in &aggregates {
        let hits: u64 = aggregate.groups().iter().map(Group::count).sum();
        assert_eq!(hits, calls * (rounds + 1), "no hit is lost");
        println!("{}", aggregate.groups());
    }
    Ok(())
}
