//! Calls C code that is part of the program, and prints its probes and their hits.

use probe_runtime::{Count, finstrument, probes};

unsafe extern "C" {
    safe fn work(x: u64) -> u64;
    safe fn never(x: u64) -> u64;
}

fn main() {
    // Linked, but not called.
    std::hint::black_box(never as extern "C" fn(u64) -> u64);
    let calls = finstrument::attach(Count::new(), 100).expect("there are counters");
    for x in 0..10 {
        assert_eq!(work(x), 2 * x + 1);
    }
    for count in calls.counts() {
        let probe = &count.probe;
        println!("{} {} {} {} {}", probe.path(), probe.kind(), probe.line(), probe.sites(), count.hits);
    }
    drop(calls);
    assert_eq!(work(1), 3);
    assert_eq!(probes().iter().filter(|probe| probe.path() == "never").count(), 0);
    let stats = finstrument::stats();
    println!(
        "{} discovered, {} patched, {} kept, {} lost",
        stats.discovered, stats.patched, stats.unpatched, stats.lost
    );
}
