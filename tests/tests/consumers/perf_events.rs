//! `Perf` on the kernel's own events: it counts exactly as many as the program causes. Also on the
//! processor's events, if this machine has them. A report names the events that the kernel does not
//! permit, and leaves them out.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{ptr, thread};

use probe_runtime::perf::PerfEvent::{ContextSwitches, Cycles, Instructions, PageFaults, TaskClock};
use probe_runtime::perf::{MissingEvent, NoEvents, PerfEvent};
use probe_runtime::profile::Budget;
use probe_runtime::{Attachment, Error, Perf, probe, select};

const PAGE: usize = 4096;

/// Pages that nobody has touched.
struct Fresh {
    start: *mut u8,
    pages: usize,
}

// SAFETY: memory that has one owner.
unsafe impl Send for Fresh {}

impl Fresh {
    fn new(pages: usize) -> Self {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which is advised not to be of larger pages.
        let start = unsafe {
            let start = libc::mmap(ptr::null_mut(), pages * PAGE, rights, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::madvise(start, pages * PAGE, libc::MADV_NOHUGEPAGE), 0);
            start.cast()
        };
        Self { start, pages }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.start.cast(), self.pages * PAGE) };
    }
}

/// Attaches; `None`, and it says why, where nothing is permitted or there.
fn attach(selector: &str, perf: Perf) -> Option<Attachment<Perf>> {
    match select(selector).unwrap().attach(perf) {
        Ok(attached) => Some(attached),
        Err(Error::Consumer(error)) if error.is::<NoEvents>() => {
            eprintln!("left out: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

mod faults {
    use super::*;

    #[probe]
    #[inline(never)]
    pub fn twice(first: &Fresh, second: &Fresh) {
        touch(first);
        touch(second);
    }

    #[probe]
    #[inline(never)]
    pub fn touch(fresh: &Fresh) {
        for page in 0..fresh.pages {
            // SAFETY: a byte of the mapping.
            unsafe { fresh.start.add(page * PAGE).write_volatile(1) };
        }
    }
}

#[test]
fn page_faults_are_exact() {
    let Some(perf) = attach("consumers::perf_events::faults::*", Perf::of([PageFaults])) else { return };
    let round = |pages: [usize; 2]| {
        let [first, second] = pages.map(Fresh::new);
        faults::twice(&first, &second);
    };
    let of = |path: &str| {
        let counts = perf.event_counts();
        let it = counts.function(path).unwrap();
        (it.counted(), it.total(PageFaults).unwrap(), it.own(PageFaults).unwrap())
    };
    // The first round touches memory that measuring itself uses.
    round([1, 1]);
    let before = ["consumers::perf_events::faults::twice", "consumers::perf_events::faults::touch"].map(of);
    round([100, 37]);
    let after = ["consumers::perf_events::faults::twice", "consumers::perf_events::faults::touch"].map(of);
    let more =
        |at: usize| (after[at].0 - before[at].0, after[at].1 - before[at].1, after[at].2 - before[at].2);
    assert_eq!((more(0), more(1)), ((1, 137, 0), (2, 137, 137)));
    // Each thread has its own.
    let barrier = Barrier::new(5);
    let before = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                round([1, 1]);
                barrier.wait();
                barrier.wait();
                round([10, 3]);
            });
        }
        barrier.wait();
        let before = of("consumers::perf_events::faults::touch");
        barrier.wait();
        before
    });
    let after = of("consumers::perf_events::faults::touch");
    assert_eq!((after.0 - before.0, after.1 - before.1), (8, 52));
    let counts = perf.event_counts();
    assert_eq!((counts.threads_without_events(), counts.share().to_bits()), (0, 1.0_f64.to_bits()));
    assert!(counts.takes_system_calls(), "{counts}");
    assert!(counts.cost_of_reading() > 0.0);
    assert!(counts.iter().all(|it| it.uncounted() == 0 && it.unpaired().total() == 0));
}

mod switches {
    use super::*;

    #[probe]
    #[inline(never)]
    pub fn waits() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_that_sleeps_gives_its_processor_away() {
    let Some(perf) = attach("consumers::perf_events::switches::*", Perf::of([ContextSwitches, TaskClock]))
    else {
        return;
    };
    (0..10).for_each(|_| switches::waits());
    let counts = perf.event_counts();
    let slept = counts.function("consumers::perf_events::switches::waits").unwrap();
    if let Some(switches) = slept.total(ContextSwitches) {
        assert!((10..1000).contains(&switches), "{counts}");
    } else {
        assert_eq!(counts.missing()[0].event(), ContextSwitches, "not permitted: {counts}");
    }
    // It was not on a processor meanwhile.
    assert!(slept.total(TaskClock).unwrap() < 10_000_000, "{counts}");
}

mod clock {
    use super::*;

    /// Returns what the thread has used, by its clock, inside.
    #[probe]
    #[inline(never)]
    pub fn spins(nanoseconds: u64) -> u64 {
        let start = used();
        loop {
            let elapsed = used() - start;
            if elapsed >= nanoseconds {
                return elapsed;
            }
        }
    }

    pub fn used() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a place for the result.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
    }

    /// How often the thread has lost its processor.
    pub fn switches() -> i64 {
        // SAFETY: zeros are a value of it.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: a place for the result.
        assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
        usage.ru_nvcsw + usage.ru_nivcsw
    }
}

/// By a system call or without one, alone or beside others, in nanoseconds. It never counts more
/// than has passed. In a call that keeps its processor, it counts what the thread has used by
/// another clock of the kernel's. While threads are switched, that clock counts more.
#[test]
fn the_task_clock_is_the_thread_s_time() {
    for events in [vec![TaskClock], vec![TaskClock, PageFaults], vec![PageFaults, ContextSwitches, TaskClock]]
    {
        let Some(perf) = attach("consumers::perf_events::clock::*", Perf::of(events)) else { return };
        clock::spins(1_000);
        let total = || perf.event_counts()[0].total(TaskClock).unwrap();
        let start = Instant::now();
        let mut undisturbed = 0;
        while undisturbed < 5 {
            assert!(start.elapsed() < Duration::from_secs(60), "each call lost its processor: {perf}");
            let (before, began, switches) = (total(), Instant::now(), clock::switches());
            let inside = clock::spins(1_000_000);
            let is_undisturbed = clock::switches() == switches;
            let (passed, counted) = (u64::try_from(began.elapsed().as_nanos()).unwrap(), total() - before);
            assert!(counted <= passed, "{inside} {counted} {passed}\n{perf}");
            if is_undisturbed {
                assert!(counted >= inside - inside / 50, "{inside} {counted} {passed}\n{perf}");
                undisturbed += 1;
            }
        }
    }
}

mod hardware {
    use super::*;

    /// This many times around a loop of known instructions.
    #[probe]
    #[inline(never)]
    pub fn loops(times: u64) {
        // SAFETY: a register that counts down.
        unsafe {
            std::arch::asm!("2:", "dec {0}", "jnz 2b", inout(reg) times => _, options(nomem, nostack));
        }
    }
}

/// If the processor counts, it counts the executed instructions; if not, the table says so.
#[test]
fn the_processor_s_events_or_why_not() {
    let Some(perf) = attach("consumers::perf_events::hardware::*", Perf::new()) else { return };
    for times in [1_000, 1_000_000] {
        hardware::loops(times);
    }
    let counts = perf.event_counts();
    let loops = counts.function("consumers::perf_events::hardware::loops").unwrap();
    assert_eq!(loops.counted(), 2);
    let known =
        [counts.events().collect(), counts.missing().iter().map(MissingEvent::event).collect::<Vec<_>>()];
    assert!(PerfEvent::HARDWARE.iter().all(|event| known.iter().flatten().any(|it| it == event)), "{counts}");
    if let Some(instructions) = loops.total(Instructions).filter(|_| counts.share() > 0.99) {
        // And what the hits execute.
        assert!((2_002_000..2_100_000).contains(&instructions), "{counts}");
        assert!(loops.total(Cycles).is_none_or(|cycles| cycles > 100_000), "{counts}");
        assert!(counts.is_user_mode_only(Instructions));
    } else {
        assert!(!counts.missing().is_empty() || counts.share() <= 0.99, "{counts}");
        assert!(perf.to_string().contains("\nnot counted: cycles"), "{perf}");
    }
}

mod budget {
    use super::*;

    #[probe]
    #[inline(never)]
    pub fn hot(x: u64) -> u64 {
        std::hint::black_box(x + 1)
    }
}

/// Sampled on the kernel's events: a sample, each call of it with its counts.
#[test]
fn under_a_budget_most_calls_are_not_counted() {
    let perf = Perf::of([TaskClock, PageFaults]).budget(Budget::percent(50.0));
    let Some(perf) = attach("consumers::perf_events::budget::*", perf) else { return };
    let (start, mut calls) = (Instant::now(), 0);
    // Windows are paid for before they are opened, and see a call only while this thread runs.
    let (counts, hot) = loop {
        (0..1_000_000).for_each(|x| _ = budget::hot(x));
        calls += 1_000_000;
        let counts = perf.event_counts();
        let hot = counts.function("consumers::perf_events::budget::hot").unwrap().clone();
        if hot.counted() >= 10 {
            break (counts, hot);
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{counts}");
    };
    assert!((10..calls / 10).contains(&hot.counted()), "{counts}");
    assert_eq!((hot.uncounted(), perf.failure()), (0, None));
    assert!(hot.calls().value >= 10.0 && hot.mean(PageFaults).unwrap() < 1.0, "{counts}");
}
