//! Shares of the CPU time, from the processor's clock, where the kernel samples it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use probe_runtime::{Budget, Profile, Profiler, probe};

use super::{ALONE, profiled};

macro_rules! works {
    ($($name:ident)*) => {
        $(
            #[probe]
            #[inline(never)]
            fn $name(rounds: u64) -> u64 {
                // Without calls, also where nothing is optimized.
                let (mut round, mut x) = (0, rounds);
                while round < rounds {
                    x = x ^ (x << 7) ^ (x >> 9) ^ round;
                    round += 1;
                }
                x
            }
        )*
    };
}
works!(much less never);

/// Not probed: its time is nobody's.
#[inline(never)]
fn outside(rounds: u64) -> u64 {
    let (mut round, mut x) = (0, rounds);
    while round < rounds {
        x = x ^ (x << 5) ^ (x >> 3) ^ round;
        round += 1;
    }
    x
}

#[test]
fn functions_with_the_most_time_come_first() {
    let _alone = ALONE.lock().unwrap();
    let profiler = Profiler::new().stepped().budget(Budget::UNLIMITED);
    let profiler = profiled("consumers::profiler::shares::*", profiler);
    let share = |profile: &Profile, name: &str| {
        profile.function(&format!("consumers::profiler::shares::{name}")).unwrap().share()
    };
    let begin = Instant::now();
    // Six tenths of the time, three and one.
    let profile = loop {
        for _ in 0..20 {
            let results = [less(30_000), much(60_000), outside(10_000)];
            assert_ne!(results, [0; 3]);
            if black_box(false) {
                never(0);
            }
            profiler.poll();
        }
        let profile = profiler.profile();
        match share(&profile, "much") {
            // The kernel permits no samples, or no site is patched.
            None if begin.elapsed() > Duration::from_millis(200) => {
                return assert!(!profiler.to_string().lines().next().unwrap().contains("CPU"), "{profiler}");
            }
            Some(of_much) if of_much.error < 0.07 => break profile,
            _ => assert!(begin.elapsed() < Duration::from_secs(60), "{profiler}"),
        }
    };
    for (name, truth) in [("much", 0.6), ("less", 0.3), ("never", 0.0)] {
        let share = share(&profile, name).unwrap();
        // Some of the time is the profiler's own.
        let off = (share.value - truth).abs();
        assert!(off <= 2.0 * share.error + 0.05, "{name}: {share:?}\n{profiler}");
    }
    let order: Vec<_> = profile.iter().map(|it| it.path().rsplit("::").next().unwrap()).collect();
    assert_eq!(order, ["much", "less", "never"]);
    let table = profiler.to_string();
    assert!(table.lines().next().unwrap().starts_with("function "), "{table}");
    assert!(table.contains(" CPU ") && table.contains(" samples of the processor's clock, "), "{table}");
    assert!(!table.contains("never"), "it was not called: {table}");
    assert!(profile.to_json().contains("\"cpu_share\":0."), "{}", profile.to_json());
}
