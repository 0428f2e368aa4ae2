//! Forks while profilers are at work. The child has no daemon and says so; it keeps the figures
//! from before the fork, and ends normally. The parent's daemon continues. A stepped profiler
//! continues in both. A process of its own, since other tests' threads would disturb the forks.
#![cfg(unix)]

use std::time::{Duration, Instant};

use probe_runtime::profile::{Budget, Profile};
use probe_runtime::{Profiler, probe, select};
use probe_tests::scenario::in_a_child;
use probe_tests::text::Text;

#[probe]
#[inline(never)]
fn work(x: u64) -> u64 {
    x + 1
}

#[test]
fn the_child_has_no_daemon() {
    let text = Text::of_this_process();
    let set = select("consumers::profiler_fork::work").unwrap();
    let daemon = || Profiler::new().epoch(Duration::from_millis(1)).budget(Budget::UNLIMITED);
    for round in 0..20 {
        let mut profiler = Some(set.attach(daemon()).unwrap());
        let mut stepped = Some(set.attach(daemon().stepped()).unwrap());
        (0..100).for_each(|x| {
            work(x);
        });
        let status = in_a_child(|| {
            let (profiler, stepped) = (profiler.take().unwrap(), stepped.take().unwrap());
            let failure = profiler.failure().unwrap();
            assert!(failure.contains("forked"), "{failure}");
            assert!(profiler.to_string().contains("called no more"), "{profiler}");
            let known = profiler.profile();
            work(1);
            // But for the clock's rate, which becomes known better.
            let calls = |profile: &Profile| -> Vec<_> {
                profile.iter().map(|it| (it.calls(), it.counted(), it.samples())).collect()
            };
            assert_eq!(calls(&known), calls(&profiler.profile()), "what it was at the fork");
            assert!(known.iter().all(|function| function.counted() <= 100));
            assert_eq!(stepped.profile()[0].counted(), 101);
            stepped.poll();
            work(1);
            assert_eq!(stepped.profile()[0].counted(), 102);
            // Waits for nobody.
            drop(profiler);
            drop(stepped);
            // One of its own works.
            let own = select("consumers::profiler_fork::work").unwrap().attach(daemon()).unwrap();
            work(1);
            assert_eq!((own.failure(), own.profile()[0].counted()), (None, 1));
            drop(own);
            if round == 0 {
                text.assert_as_in_file();
            }
        });
        assert_eq!(status, 0, "its assertion is on stderr");
        let profiler = profiler.take().unwrap();
        assert_eq!(profiler.failure(), None);
        let samples = profiler.profile()[0].samples();
        let start = Instant::now();
        while profiler.profile()[0].samples() < samples + 2 {
            (0..100).for_each(|x| {
                work(x);
            });
            assert!(start.elapsed() < Duration::from_secs(20), "the daemon goes on: {profiler}");
        }
        assert_eq!(stepped.take().unwrap().failure(), None);
    }
    text.assert_as_in_file();
}
