//! `c_values`: arguments of a function in C, read at its entry, beside a hit that is delivered
//! without them.

use std::cell::Cell;

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, pin, timing};
use probe_runtime::{Consumer, Event, select};
use probe_tests::real::{CodeBase, Way};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

const BASE: CodeBase = CodeBase::of_file("arguments", concat!(env!("CARGO_MANIFEST_DIR"), "/c/arguments.c"));

/// The functions of one build have names of their own, so that their probes are separate.
macro_rules! build {
    ($prefix:literal, $call:literal) => {
        (
            CodeBase {
                flags: &[
                    "-g",
                    "-falign-loops=64",
                    concat!("-DNAME(it)=", $prefix, "_##it"),
                    concat!("-DCALL=NAME(", $call),
                ],
                ..BASE
            },
            $prefix,
        )
    };
}

thread_local! {
    static SEEN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The smallest consumer that counts fields, too.
struct Seen;

impl Consumer for Seen {
    fn hit(&self, event: &Event<'_>) {
        let fields = event.fields().len() as u64;
        SEEN.with(|seen| seen.set((seen.get().0 + 1, seen.get().1 + fields)));
    }
}

fn main() -> Result<(), probe_runtime::Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let (calls, rounds) = (scale.of(20_000), scale.of(1_000));
    let kinds = [
        ("latent", build!("latent", "one)(7)"), None),
        ("delivered", build!("delivered", "one)(7)"), Some(false)),
        ("one-number", build!("number", "one)(7)"), Some(true)),
        ("four-numbers", build!("numbers", "four)(1, -2, 3, 4)"), Some(true)),
        ("text", build!("text", "text)(\"a text\")"), Some(true)),
    ];
    let loaded: Vec<_> = kinds.iter().map(|(_, (base, _), _)| base.load(ROOT, Way::EntryReturn)).collect();
    let mut attached = Vec::new();
    for (_, (_, prefix), reads_values) in kinds {
        if let Some(reads_values) = reads_values {
            let set = select(&format!("{prefix}_* kind=entry"))?;
            attached.push(if reads_values { set.c_values() } else { set }.attach(Seen)?);
        }
    }
    let case = |(name, loaded): (&'static str, &probe_tests::real::Loaded)| {
        let workload = loaded.workload_function();
        Case::new(name, calls, move |calls| assert_eq!(workload(calls), calls))
    };
    let mut cases: Vec<_> = kinds.iter().map(|(name, ..)| *name).zip(&loaded).map(case).collect();
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("c_values", &medians, case, "delivered");
    }
    let more = |case: &str, values: f64| (medians.ns(case) - medians.ns("delivered")) / values;
    for (name, case, values) in
        [("first-number", "one-number", 1.0), ("each-of-four", "four-numbers", 4.0), ("text", "text", 1.0)]
    {
        let ratio = medians.ratio(case, "delivered");
        let value = format!("{:.2}", more(case, values));
        figure(&format!("c_values/{name}-over-delivered"), value, "ns", ratio, "delivered");
    }
    let further = (medians.ns("four-numbers") - medians.ns("one-number")) / 3.0;
    let ratio = medians.ratio("four-numbers", "one-number");
    figure("c_values/a-further-number", format_args!("{further:.2}"), "ns", ratio, "one number");
    let hits = calls * (rounds + 1);
    assert_eq!(SEEN.get(), (4 * hits, 6 * hits), "no hit and no value is lost");
    Ok(())
}
