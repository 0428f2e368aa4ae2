//! The profiler's shares of the CPU time in C code, at each kind of its sites.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::profile::{Budget, FunctionProfile};
use probe_runtime::{Profiler, select};
use probe_tests::real::{CodeBase, Way};
use probe_tests::turn::turn;

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");
const BASE: CodeBase = CodeBase::of_file("shares", concat!(env!("CARGO_MANIFEST_DIR"), "/c/shares.c"));

/// The functions' parts of the work. `inlined` has no sites of its own at entries and returns.
const OF_MACHINE_CODE: [(&str, f64); 4] = [("much", 6.0), ("less", 5.0), ("inlined", 0.0), ("never", 0.0)];
const OF_HOOKS: [(&str, f64); 4] = [("much", 6.0), ("less", 3.0), ("inlined", 2.0), ("never", 0.0)];

type Kind = (Way, &'static str, &'static [&'static str], [(&'static str, f64); 4]);

/// Compares the shares with the parts; `false` if nothing is sampled.
fn are_true(way: Way, prefix: &str, flags: &'static [&'static str], parts: [(&str, f64); 4]) -> bool {
    let loaded = CodeBase { flags, ..BASE }.load(ROOT, way);
    // Call sites are discovered by their first hits.
    (0..2).for_each(|_| assert_eq!(loaded.workload(2), 2));
    let profiler = Profiler::new().stepped().budget(Budget::percent(50.0));
    let profiler = select(&format!("{prefix}_*")).unwrap().attach(profiler).unwrap();
    let begin = Instant::now();
    let profile = loop {
        (0..20).for_each(|_| assert_eq!(loaded.workload(5_000), 5_000));
        profiler.poll();
        let profile = profiler.profile();
        match profile.function(&format!("{prefix}_much")).unwrap().share() {
            None if begin.elapsed() > Duration::from_millis(500) => return false,
            Some(share) if share.error < 0.045 => break profile,
            _ => assert!(begin.elapsed() < Duration::from_secs(60), "{profiler}"),
        }
    };
    // On a busy machine, hits and page faults take a part of the time that nobody knows.
    let much = profile.function(&format!("{prefix}_much")).unwrap().share().unwrap();
    assert!(much.value > 0.2, "{profiler}");
    for (name, part) in parts {
        let Some(share) = profile.function(&format!("{prefix}_{name}")).and_then(FunctionProfile::share)
        else {
            assert!(part == 0.0, "{name}\n{profiler}");
            continue;
        };
        let part = part / 6.0;
        let off = (share.value - part * much.value).abs();
        assert!(off <= 2.0 * (share.error + part * much.error), "{name}: {share:?}\n{profiler}");
    }
    true
}

#[test]
fn they_are_true_at_each_kind_of_site() {
    let _turn = turn();
    // The first thread makes its first hit before the first operation of the process.
    let kinds: [Kind; 3] = [
        (Way::Hooks, "shares_hk", &["-DNAME(it)=shares_hk_##it"], OF_HOOKS),
        (Way::EntryReturn, "shares_er", &["-DNAME(it)=shares_er_##it"], OF_MACHINE_CODE),
        (Way::InstrumentFunctions, "shares_if", &["-DNAME(it)=shares_if_##it"], OF_HOOKS),
    ];
    let sampled = kinds.map(|(way, prefix, flags, parts)| {
        thread::spawn(move || are_true(way, prefix, flags, parts)).join().unwrap()
    });
    // The kernel permits samples, or none.
    assert!(sampled == [true; 3] || sampled == [false; 3], "{sampled:?}");
    points_have_none();
}

fn points_have_none() {
    let flags = &[
        "-DNAME(it)=shares_pt_##it",
        "-DPOINTS",
        concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../probe-build/include"),
    ];
    let loaded = CodeBase { flags, ..BASE }.load(ROOT, Way::Plain);
    let profiler = select("shares_points::*").unwrap().attach(Profiler::new().stepped()).unwrap();
    assert_eq!(loaded.workload(5_000), 5_000);
    profiler.poll();
    let (table, profile) = (profiler.to_string(), profiler.profile());
    assert_eq!(profile.iter().count(), 0, "{table}");
    let note = " is left out: points have no calls; select functions, or count or trace it";
    assert_eq!(table.matches(note).count(), 1, "{table}");
}
