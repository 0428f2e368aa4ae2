//! `sites`: a call's two hits at each kind of site, with each kind of consumer, beside a Rust
//! function's entry and exit with the same consumer.

// Safety: relies on sections that hold code only.
#![expect(unsafe_code, reason = "see above")]

use std::hint::black_box;

use probe_benches::{
    Case, IS_PATCHED, Medians, Scale, aligned, aligned_calls, figure, interleave, pin, timing,
};
use probe_runtime::{CallTree, Consumer, Count, Error, Event, Latency, ProbeSet, Trace, probe, select};
use probe_tests::real::{CodeBase, Loaded, Way};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

/// A small function in C; the flags say its name.
const SMALL: CodeBase = CodeBase {
    flags: &["-falign-loops=64", "-DSMALL=small_entry_return"],
    ..CodeBase::of_file("sites", concat!(env!("CARGO_MANIFEST_DIR"), "/c/small.c"))
};
const HOOKED: CodeBase = CodeBase { flags: &["-falign-loops=64", "-DSMALL=small_hooked"], ..SMALL };
const POINTS: CodeBase = CodeBase {
    flags: &[
        "-falign-loops=64",
        "-DSMALL=small_with_points",
        "-DPOINTS",
        concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../probe-build/include"),
    ],
    ..SMALL
};
const DISCOVERED: CodeBase =
    CodeBase { flags: &["-falign-loops=64", "-DSMALL=small_discovered", "-DRESULT"], ..SMALL };
/// The compiler makes a jump of its last call, that of the exit hook.
const JUMPING: CodeBase = CodeBase { flags: &["-falign-loops=64", "-DSMALL=small_jumping"], ..SMALL };

/// The kinds of sites, with their selectors.
const KINDS: [(&str, &str); 6] = [
    ("rust", "sites::pair"),
    ("c-entry-return", "small_entry_return"),
    ("c-instrument-functions", "small_hooked"),
    ("c-point", "small_points::*"),
    ("discovered", "small_discovered"),
    ("discovered-jump", "small_jumping"),
];

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.sites.pair")]
fn pair() {
    black_box(());
}

aligned_calls!(call_pair, ".text.sites.pair", pair);

/// A user's consumer.
struct Nothing;

impl Consumer for Nothing {
    fn hit(&self, _event: &Event<'_>) {}
}

/// The loops that call each function.
struct Loops {
    of_c: [Loaded; 5],
    calls: u64,
    rounds: u64,
}

impl Loops {
    /// Times the calls of all kinds, and prints the figures of this consumer.
    fn run(&self, consumer: &str) -> Medians {
        let case = |name, loaded: &Loaded| {
            let workload = loaded.workload_function();
            Case::new(name, self.calls, move |calls| assert_eq!(workload(calls), calls))
        };
        let mut cases = vec![aligned("rust", self.calls, call_pair, pair)];
        cases.extend(KINDS[1..].iter().zip(&self.of_c).map(|((name, _), loaded)| case(*name, loaded)));
        let medians = interleave(self.rounds, &mut cases);
        for kind in medians.names() {
            timing(&format!("sites/{consumer}"), &medians, kind, "rust");
        }
        medians
    }

    /// The calls of each function in a [run](Self::run).
    fn made(&self) -> u64 {
        self.calls * (self.rounds + 1)
    }
}

fn probes() -> Result<ProbeSet, Error> {
    let text: Vec<_> = KINDS.iter().map(|(_, selector)| *selector).collect();
    let set = select(&text.join(", "))?;
    assert_eq!(set.len(), 2 * KINDS.len());
    Ok(set)
}

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let of_c = [
        SMALL.load(ROOT, Way::EntryReturn),
        HOOKED.load(ROOT, Way::InstrumentFunctions),
        POINTS.load(ROOT, Way::Plain),
        DISCOVERED.load(ROOT, Way::Hooks),
        JUMPING.load(ROOT, Way::Hooks),
    ];
    let loops = Loops { of_c, calls: scale.of(10_000), rounds: scale.of(300) };
    // Call sites are discovered by their first hits, or by their second.
    for discovered in &loops.of_c[3..] {
        assert_eq!(discovered.workload(2), 2);
    }

    let count = probes()?.attach(Count::new())?;
    loops.run("count");
    assert_eq!(count.total(), 2 * KINDS.len() as u64 * loops.made(), "no hit is lost");
    drop(count);

    let latency = probes()?.attach(Latency::new())?;
    loops.run("latency");
    let latencies = latency.latencies();
    let shown = |selector: &str| {
        let found = latencies.iter().find(|function| function.path() == selector);
        let function = found.unwrap_or_else(|| panic!("{selector}: {latencies}"));
        assert_eq!((function.calls(), function.unpaired().total()), (loops.made(), 0), "{selector}");
        function.quantile(0.5) as f64
    };
    let paired = KINDS.iter().filter(|(kind, _)| *kind != "c-point");
    for (kind, selector) in paired {
        let [ns, rust] = [selector, &KINDS[0].1].map(|selector| shown(selector));
        figure(&format!("sites/shown/{kind}"), ns, "ns", ns / rust, "rust");
    }
    drop(latency);

    let trace = probes()?.attach(Trace::recorder())?;
    loops.run("trace");
    let totals = trace.totals();
    assert_eq!((totals.written, totals.lost), (2 * KINDS.len() as u64 * loops.made(), 0), "no hit is lost");
    drop(trace);

    let tree = probes()?.attach(CallTree::new())?;
    loops.run("call-tree");
    drop(tree);

    let _nothing = probes()?.attach(Nothing)?;
    loops.run("consumer");
    Ok(())
}
