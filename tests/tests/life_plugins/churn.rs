//! Two threads load and unload plugins, while a third toggles all probes, and a fourth lists them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use probe_runtime::losses::unreadable_records;
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Count, Error, Kind, probes, select};
use probe_tests::library::Library;
use probe_tests::random::Random;
use probe_tests::text::Text;
use probe_tests::whole;

use super::{CALLED_BACK, let_plugins_call_back, own, plugin};

/// The least duration of a churn.
pub(super) fn time() -> Duration {
    Duration::from_secs(if whole::is_asked_for() { 4 } else { 1 })
}

/// The least number of rounds of each thread: a slower thread continues after the others.
const LEAST: u64 = 10;

pub(super) fn churn(seed: u64) {
    let_plugins_call_back();
    let copy = env::temp_dir().join(format!("libplugin-{}.so", std::process::id()));
    fs::copy(plugin("plugin"), &copy).unwrap();
    let end = Instant::now() + time();
    let goes_on = || Instant::now() < end;
    let repeats = |done: u64| goes_on() || done < LEAST;
    let tally = select("life_plugins::own").unwrap().attach(Count::new()).unwrap();
    let calls = thread::scope(|scope| {
        let mut others = Vec::new();
        others.push(scope.spawn(move || {
            let mut loads = 0_u64;
            while repeats(loads) {
                load_and_count();
                loads += 1;
            }
            loads
        }));
        let copy = &copy;
        others.push(scope.spawn(move || {
            let mut random = Random::new(seed);
            let mut loads = 0_u64;
            while repeats(loads) {
                let library = Library::open(copy);
                for _ in 0..random.below(3) {
                    assert_eq!((library.function("plugin_sum"))(2), 3);
                }
                library.close();
                loads += 1;
            }
            loads
        }));
        others.push(scope.spawn(move || {
            let mut random = Random::new(seed + 100);
            let mut toggles = 0_u64;
            while repeats(toggles) {
                toggles += toggle_all(&mut random);
            }
            toggles
        }));
        let tally = &tally;
        others.push(scope.spawn(move || {
            let mut looks = 0_u64;
            while repeats(looks) {
                let own = probes().into_iter().filter(|probe| probe.path() == "life_plugins::own");
                assert_eq!(own.map(|probe| probe.sites()).sum::<usize>(), 2);
                // Records of a plugin that is being loaded.
                assert!(unreadable_records() <= 2);
                assert_eq!(tally.counts().len(), 2);
                looks += 1;
            }
            looks
        }));
        let worker = scope.spawn(move || {
            let mut calls = 0_u64;
            while goes_on() {
                assert_eq!(own(calls), calls + 1);
                calls += 1;
            }
            calls
        });
        let others: Vec<u64> = others.into_iter().map(|other| other.join().unwrap()).collect();
        println!("loads, loads, toggles, looks: {others:?}");
        worker.join().unwrap()
    });
    fs::remove_file(&copy).unwrap();
    // The plugins' constructors and destructors also call it.
    let calls = calls + CALLED_BACK.load(Ordering::Relaxed);
    let counts = tally.counts();
    let hits = |kind| counts.hits("life_plugins::own", kind);
    assert_eq!((hits(Kind::Entry), hits(Kind::Exit)), (Some(calls), Some(calls)));
    assert_eq!(tally.detach().patched(), 2);
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    assert_eq!(unreadable_records(), 0);
    Text::of_this_process().assert_as_in_file();
}

/// Loads a plugin, counts its calls, and checks the counts before and after unloading it. No other
/// thread calls the plugin.
fn load_and_count() {
    let library = Library::open(&plugin("caller"));
    // Another thread may have read its records before the dynamic linker had relocated them.
    let set = select("caller::**::long kind=entry, caller::caller_sum").unwrap();
    assert_eq!(set.len(), 3);
    let hits = set.attach(Count::new()).unwrap();
    assert_eq!(hits.report().refused(), 0);
    assert_eq!((library.function("caller_sum"))(7), 28);
    assert_eq!(hits.total(), 9);
    library.close();
    assert_eq!((hits.total(), hits.counts().len()), (9, 3));
    assert_eq!(hits.detach().refused(), 0);
}

/// Attaches to all probes, pauses, resumes, reads the counts, detaches. Returns the number of
/// switched sites.
fn toggle_all(random: &mut Random) -> u64 {
    let text = match random.below(3) {
        0 => TextPolicy::Sealed,
        1 => TextPolicy::Open,
        _ => TextPolicy::Alias,
    };
    let visibility = [Visibility::Synchronous, Visibility::Eventual][usize::from(random.below(2) == 1)];
    let hits = select("**").unwrap().text_policy(text).visibility(visibility).attach(Count::new()).unwrap();
    assert_eq!(hits.report().refused(), 0, "{}", hits.report());
    let steps = random.below(6);
    for _ in 0..steps {
        let report = match random.below(4) {
            0 => hits.pause(),
            1 => hits.resume(),
            // No other attachment counts on these.
            2 => match select("plugin::**") {
                Ok(set) => set.text_policy(text).hold().unwrap().report().clone(),
                Err(error) => {
                    assert!(matches!(error, Error::NoMatch { .. }), "{error}");
                    continue;
                }
            },
            _ => {
                assert!(hits.counts().len() >= 2);
                assert!(hits.probes().len() >= 2);
                continue;
            }
        };
        assert_eq!(report.refused(), 0, "{report}");
    }
    assert_eq!(hits.detach().refused(), 0);
    steps + 2
}
