//! zlib and SQLite compiled with plain `-finstrument-functions`: every function that the workload
//! calls is discovered under its name, with its file and line, and counted from its first call on.
//! Afterwards it is latent, with the same results. Each in a process of its own: it counts all
//! probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::finstrument::{Reason, Unpatched};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Count, Kind, finstrument, probes};
use probe_tests::real::{CodeBase, SQLITE, Way, ZLIB, checks};

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

#[test]
fn zlib() {
    scenario(&ZLIB, "zlib", 30_000, 1, 1);
}

#[test]
fn sqlite() {
    scenario(&SQLITE, "sqlite", 10_000, 15, 250);
}

fn scenario(base: &CodeBase, name: &str, amount: u64, most_kept: usize, least_jumps: usize) {
    checks::in_a_child(base, ROOT, name, Way::Hooks, |_| {
        all_are_discovered(base, amount, most_kept, least_jumps);
    });
}

/// Checks that all functions but `most_kept` are patched, and that this many jumps to the hook are.
fn all_are_discovered(base: &CodeBase, amount: u64, most_kept: usize, least_jumps: usize) {
    let [by_hand, hooked] = [Way::Counted, Way::Hooks].map(|way| base.load(ROOT, way));
    let digest = by_hand.workload(amount);
    assert_eq!(probes(), [], "nothing before the first call");

    let counting = finstrument::attach(Count::new(), 100_000).unwrap();
    assert_eq!(hooked.workload(amount), digest, "discovered and counted");
    let counts = counting.counts();
    // The next operation finds the jumps to the hook.
    finstrument::start();
    let stats = finstrument::stats();
    assert_eq!((stats.lost, stats.unnamed, stats.beyond_capacity, stats.waiting), (0, 0, 0, 0), "{stats:?}");
    // Uncertain jumps to the exit hook, and calls of it that two inlined functions share lose none.
    let kept = finstrument::unpatched();
    let is_exit = |it: &Unpatched| it.probe().kind() == Kind::Exit;
    assert!(
        kept.iter().all(|it| matches!(it.reason(), Reason::NotACall | Reason::Shared) && is_exit(it)),
        "{kept:?}"
    );
    let shared = || kept.iter().filter(|it| it.reason() == Reason::Shared);
    for it in shared() {
        let [entries, exits] = [Kind::Entry, Kind::Exit].map(|kind| counts.hits(it.probe().path(), kind));
        assert_eq!(entries, exits, "{it:?}");
    }
    // A shared call was a site first.
    assert_eq!(stats.discovered, stats.patched + kept.len() - shared().count());
    // All but functions with jumps through tables, and functions inlined in ones without hooks.
    assert!(kept.len() <= most_kept && stats.tail_jumps >= least_jumps, "{stats:?} {kept:?}");
    for (function, calls) in base.counted.iter().zip(by_hand.counters()) {
        assert_eq!(counts.hits(function.path, Kind::Entry), Some(calls), "{function:?}");
    }

    for probe in probes() {
        assert_eq!(probe.state(), ProbeState::Active, "{probe}");
        let mut files = base.files.iter().chain([&base.workload]);
        assert!(files.any(|file| probe.file().ends_with(file)), "{probe}");
        assert_ne!(probe.line(), 0, "{probe}");
    }
    assert_eq!(hooked.workload(amount), digest, "counted");
    drop(counting);
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    assert_eq!(hooked.workload(amount), digest, "latent");
    // A second workload discovers nothing new: it calls the same functions.
    let after = finstrument::stats();
    assert_eq!(
        (after.discovered, after.patched, after.lost),
        (stats.discovered, stats.patched, 0),
        "{after:?}"
    );
}
