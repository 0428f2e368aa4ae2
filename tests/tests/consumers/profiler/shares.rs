//! Shares of the CPU time, from the processor's clock, where the kernel samples it.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, thread};

use probe_runtime::profile::{Budget, Profile};
use probe_runtime::{Profiler, probe};

use super::{ALONE, profiled};

macro_rules! works {
    ($($name:ident)*) => {
        $(
            #[probe]
            #[inline(never)]
            pub(super) fn $name(rounds: u64) -> u64 {
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

mod of_threads {
    use probe_runtime::probe;
    works!(first second);
}

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
    // Six tenths of the time, three and one. The spans vary: if a round took as long as the time
    // between two samples, they would all show one part of it.
    let mut spans = (0_u64..).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54);
    let profile = loop {
        for span in spans.by_ref().take(20) {
            let results = [less(30 * span), much(60 * span), outside(10 * span)];
            black_box(results);
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

/// Executes `work` on a thread until it is stopped.
struct Busy {
    stops: Arc<AtomicBool>,
    id: libc::pid_t,
    thread: JoinHandle<()>,
}

impl Busy {
    /// Returns after the first call.
    fn begin(work: fn(u64) -> u64) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let of_thread = Arc::clone(&stops);
        let thread = thread::spawn(move || {
            black_box(work(1));
            // SAFETY: no preconditions.
            tell.send(unsafe { libc::gettid() }).unwrap();
            while !of_thread.load(Relaxed) {
                black_box(work(20_000));
            }
        });
        Self { stops, id: told.recv().unwrap(), thread }
    }

    fn end(self) {
        self.stops.store(true, Relaxed);
        self.thread.join().unwrap();
    }
}

#[test]
fn a_thread_with_the_id_of_an_earlier_one_is_sampled() {
    let _alone = ALONE.lock().unwrap();
    let profiler = Profiler::new().stepped().budget(Budget::UNLIMITED);
    let profiler = profiled("consumers::profiler::shares::of_threads::*", profiler);
    let is_seen = |name: &str, within: Duration| {
        let begin = Instant::now();
        loop {
            profiler.poll();
            let profile = profiler.profile();
            let share = profile
                .function(&format!("consumers::profiler::shares::of_threads::{name}"))
                .unwrap()
                .share();
            if share.is_some_and(|it| it.value > 0.0) || begin.elapsed() > within {
                return share.is_some_and(|it| it.value > 0.0);
            }
            thread::sleep(Duration::from_millis(1));
        }
    };
    let earlier = Busy::begin(of_threads::first);
    if !is_seen("first", Duration::from_secs(2)) {
        earlier.end();
        return eprintln!("the kernel permits no samples");
    }
    let id = earlier.id;
    earlier.end();
    // No poll notices the end. Only root may choose an id, and another program may be quicker.
    for _ in 0..20 {
        if fs::write("/proc/sys/kernel/ns_last_pid", (id - 1).to_string()).is_err() {
            return eprintln!("ids can't be chosen here");
        }
        let later = Busy::begin(of_threads::second);
        let is_it = later.id == id;
        let is_seen = is_it && is_seen("second", Duration::from_secs(20));
        later.end();
        if is_it {
            return assert!(is_seen, "{profiler}");
        }
    }
    eprintln!("other programs took the id");
}
