//! SQLite compiled with plain `-finstrument-functions`: every function that the workload calls is
//! discovered under its name, with its file and line, and counted from its first call on.
//! Afterwards it is latent, with the same results.

use probe_runtime::finstrument::{Reason, Unpatched};
use probe_runtime::{Count, Kind, ProbeState, finstrument, probes};
use probe_tests::real::{Way, checks, sqlite};

use crate::sqlite_counts::ROOT;

const ROWS: u64 = 10_000;

#[test]
fn discovered() {
    checks::in_a_child(&sqlite(), ROOT, "discovered::discovered", Way::Hooks, |_| all_are_discovered());
}

fn all_are_discovered() {
    let [reference, by_hand, hooked] =
        [Way::Reference, Way::Counted, Way::Hooks].map(|way| sqlite().load(ROOT, way));
    let digest = reference.workload(ROWS);
    assert_eq!(by_hand.workload(ROWS), digest);
    assert_eq!(probes(), [], "nothing before the first call");

    let counting = finstrument::attach(Count::new(), 100_000).unwrap();
    assert_eq!(hooked.workload(ROWS), digest, "discovered and counted");
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
    assert!(kept.len() <= 15 && stats.tail_jumps >= 250, "{stats:?} {kept:?}");
    for (function, calls) in sqlite().counted.iter().zip(by_hand.counters()) {
        assert_eq!(counts.hits(function.path, Kind::Entry), Some(calls), "{function:?}");
    }

    for probe in probes() {
        assert_eq!(probe.state(), ProbeState::Active, "{probe}");
        let is_of_sqlite = probe.file().ends_with("sqlite3/sqlite3.c");
        assert!(is_of_sqlite || probe.file().ends_with("sqlite_workload.c"), "{probe}");
        assert_ne!(probe.line(), 0, "{probe}");
    }
    assert_eq!(hooked.workload(ROWS), digest, "counted");
    drop(counting);
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    assert_eq!(hooked.workload(ROWS), digest, "latent");
    // A second workload discovers nothing new: it calls the same functions.
    let after = finstrument::stats();
    assert_eq!(
        (after.discovered, after.patched, after.lost),
        (stats.discovered, stats.patched, 0),
        "{after:?}"
    );
}
