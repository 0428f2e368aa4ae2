//! Switches sites while they run: eight threads execute 64 probed functions, two attach, pause,
//! resume and detach random sets of them with random policies. No result or field is wrong, no hit
//! is lost; at the end the text equals the file's.
//! A process of its own: the phases follow each other and compare the whole text.
//!
//! Ten million sites are toggled with `PROBE_TEST_WHOLE=1`, a thirty-second of that without.
//! `PROBE_LIVE_SEED` repeats a run, `PROBE_SOAK_SECONDS` prolongs it.
#![cfg(not(probe_portable))]

use std::env;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::field::ValueRef;
use probe_runtime::losses::lost_hits;
use probe_runtime::patch::{Report, TextPolicy, Visibility};
use probe_runtime::{Attachment, Consumer, Count, Event, Kind, probe, select};
use probe_tests::stops::Stops;
use probe_tests::text::Text;
use probe_tests::whole;

const FUNCTIONS: usize = 64;
const WORKERS: usize = 8;
const TOGGLERS: usize = 2;
/// Sites that the whole toggles.
const TOGGLES: u64 = 10_000_000;

/// Computes the result of each function, without probes.
fn plain(function: u64, x: u64) -> u64 {
    let mut sum = x;
    for round in 0..=function % 3 {
        sum = sum.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ function).wrapping_add(round);
    }
    sum
}

macro_rules! functions {
    ($($name:ident $number:literal)*) => {
        $(
            #[probe]
            #[inline(never)]
            fn $name(x: u64) -> u64 {
                let mut sum = x;
                for round in 0..=$number % 3 {
                    probe!("round", number = $number, x);
                    sum = sum.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ $number).wrapping_add(round);
                }
                sum
            }
        )*
        const ALL: [fn(u64) -> u64; FUNCTIONS] = [$($name),*];
    };
}

functions! {
    f00 0_u64 f01 1_u64 f02 2_u64 f03 3_u64 f04 4_u64 f05 5_u64 f06 6_u64 f07 7_u64 f08 8_u64 f09 9_u64
    f10 10_u64 f11 11_u64 f12 12_u64 f13 13_u64 f14 14_u64 f15 15_u64 f16 16_u64 f17 17_u64 f18 18_u64 f19 19_u64
    f20 20_u64 f21 21_u64 f22 22_u64 f23 23_u64 f24 24_u64 f25 25_u64 f26 26_u64 f27 27_u64 f28 28_u64 f29 29_u64
    f30 30_u64 f31 31_u64 f32 32_u64 f33 33_u64 f34 34_u64 f35 35_u64 f36 36_u64 f37 37_u64 f38 38_u64 f39 39_u64
    f40 40_u64 f41 41_u64 f42 42_u64 f43 43_u64 f44 44_u64 f45 45_u64 f46 46_u64 f47 47_u64 f48 48_u64 f49 49_u64
    f50 50_u64 f51 51_u64 f52 52_u64 f53 53_u64 f54 54_u64 f55 55_u64 f56 56_u64 f57 57_u64 f58 58_u64 f59 59_u64
    f60 60_u64 f61 61_u64 f62 62_u64 f63 63_u64
}

/// xorshift64*, so that a seed repeats a run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Checks that the fields are those of the call: workers pass an `x` that identifies the function.
#[derive(Default)]
struct Checks {
    hits: AtomicU64,
}

impl Consumer for Checks {
    fn hit(&self, event: &Event<'_>) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        if event.kind() == Kind::Point {
            let fields: Vec<_> = event.fields().map(|(_, value)| value).collect();
            let [ValueRef::U64(number), ValueRef::U64(x)] = *fields else { panic!("{fields:?}") };
            assert_eq!(x % 64, number);
        } else {
            assert!(event.path().starts_with("patching::live::f"), "{}", event.path());
        }
    }
}

/// Calls all functions, with arguments that identify them; returns the number of calls.
fn work(random: &mut Random) -> u64 {
    for (number, function) in (0..).zip(ALL) {
        let x = random.next() & !63 | number;
        assert_eq!(black_box(function)(x), plain(number, x), "f{number:02}({x:#x})");
    }
    64
}

/// Returns a random set, perhaps of probes that another thread toggles at the same time.
fn any_set(random: &mut Random) -> String {
    let digit = random.below(7);
    match random.below(6) {
        0 => "patching::live::**".to_owned(),
        1 => format!("patching::live::f{digit}*"),
        2 => format!("patching::live::f*{digit} kind=entry"),
        3 => format!("patching::live::f{digit}* kind=exit, patching::live::round"),
        4 => format!("patching::live::**, !patching::live::f{digit}*"),
        _ => format!("patching::live::f0{digit}"),
    }
}

/// Returns a set that no other toggler uses, for the most part.
fn own_set(toggler: usize, random: &mut Random) -> String {
    let digit = random.below(7);
    match (toggler % 2, random.below(2)) {
        (0, 0) => "patching::live::f*".to_owned(),
        (0, _) => format!("patching::live::f*, !patching::live::f{digit}*"),
        (_, 0) => "patching::live::round".to_owned(),
        (..) => format!("patching::live::round, patching::live::f{digit}0 kind=exit"),
    }
}

/// Returns the number of switched sites of a report; panics if any was refused.
fn switched(report: &Report) -> u64 {
    assert_eq!(report.refused(), 0, "{report}");
    u64::try_from(report.patched()).unwrap()
}

/// Attaches, pauses and resumes, detaches; returns the number of switched sites.
fn toggle<C: Consumer>(toggler: usize, random: &mut Random, consumer: C) -> u64 {
    let text = if random.below(6) == 0 { TextPolicy::Sealed } else { TextPolicy::Open };
    let visibility = if random.below(6) == 0 { Visibility::Synchronous } else { Visibility::Eventual };
    let is_own = random.below(4) != 0;
    let selector = if is_own { own_set(toggler, random) } else { any_set(random) };
    // Changes by one locked instruction a site are repeated thousands of times. The others are
    // slow: they change protections, or wait for threads in hits.
    let is_rapid = is_own && text == TextPolicy::Open && visibility == Visibility::Eventual;
    let pauses = random.below(if is_rapid { 2_000 } else { 12 });
    let set = select(&selector).unwrap().text_policy(text).visibility(visibility);
    let hold = (random.below(8) == 0).then(|| set.hold().unwrap());
    let attachment = set.attach(consumer).unwrap();
    drop(hold);
    let mut switches = switched(attachment.report());
    for _ in 0..pauses {
        switches += switched(&attachment.pause());
        switches += switched(&attachment.resume());
    }
    if random.below(2) == 0 {
        switches += switched(&attachment.pause());
    }
    assert_eq!(attachment.failure(), None);
    switches + switched(&attachment.detach())
}

fn seed() -> u64 {
    let given = env::var("PROBE_LIVE_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    let seed = given.unwrap_or_else(|| u64::from(now()) << 20 | u64::from(std::process::id())) | 1;
    println!("PROBE_LIVE_SEED={seed}");
    seed
}

/// Runs workers until all togglers are done; returns the numbers of toggles and of calls.
fn run(seed: u64, toggler: impl Fn(usize, &mut Random) -> u64 + Sync) -> (u64, u64) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        let (stop, toggler) = (&stop, &toggler);
        let random = |number: usize| Random(seed.wrapping_mul(2 * u64::try_from(number).unwrap() + 1) | 1);
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                scope.spawn(move || {
                    let (mut random, mut calls) = (random(number), 0);
                    while !stop.load(Ordering::Relaxed) {
                        calls += work(&mut random);
                        if number != 0 {
                            // Worker 0 never rests; the others leave processors to the togglers.
                            thread::sleep(Duration::from_micros(300));
                        }
                    }
                    calls
                })
            })
            .collect();
        let togglers: Vec<_> = (0..TOGGLERS)
            .map(|number| scope.spawn(move || toggler(number, &mut random(WORKERS + number))))
            .collect();
        let ended: Vec<_> = togglers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        drop(stops);
        let switches = ended.into_iter().map(Result::unwrap).sum();
        (switches, workers.into_iter().map(|worker| worker.join().unwrap()).sum())
    })
}

#[test]
fn live() {
    let (text, seed) = (Text::of_this_process(), seed());
    text.assert_as_in_file();
    anything_goes(seed);
    text.assert_as_in_file();
    nothing_is_lost(seed);
    text.assert_as_in_file();
    exact_between_barriers(seed);
    text.assert_as_in_file();
    assert_eq!(lost_hits(), 0);
}

/// Random toggling: this many sites, and as many seconds as are asked for.
fn anything_goes(seed: u64) {
    let least = if whole::is_asked_for() { TOGGLES } else { TOGGLES / 32 };
    let soak: u64 = env::var("PROBE_SOAK_SECONDS").map_or(0, |seconds| seconds.parse().expect("seconds"));
    let (began, soak) = (Instant::now(), Duration::from_secs(soak));
    let total = AtomicU64::new(0);
    let toggler = |number, random: &mut Random| {
        let mut own = 0;
        while total.load(Ordering::Relaxed) < least || began.elapsed() < soak {
            let switches = if random.below(2) == 0 {
                toggle(number, random, Count::new())
            } else {
                toggle(number, random, Checks::default())
            };
            own += switches;
            total.fetch_add(switches, Ordering::Relaxed);
        }
        own
    };
    let (switches, calls) = run(seed, toggler);
    assert!(switches >= least);
    println!("{switches} toggles during {calls} calls, in {:?}", began.elapsed());
}

/// An attachment counts every call while others attach and detach on the same probes.
fn nothing_is_lost(seed: u64) {
    let stays = select("patching::live::f* kind=entry|exit").unwrap().attach(Count::new()).unwrap();
    let checks = select("patching::live::round").unwrap().attach(Checks::default()).unwrap();
    let toggler = |_, random: &mut Random| (0..50).map(|_| toggle_beside(random)).sum();
    let (_, calls) = run(seed ^ 0x5555, toggler);
    let each = calls / 64;
    for count in stays.counts() {
        assert_eq!(count.hits, each, "{}", count.probe);
    }
    assert_eq!(stays.counts().len(), 2 * FUNCTIONS);
    let rounds: u64 = (0..64).map(|number| 1 + number % 3).sum();
    assert_eq!(checks.hits.load(Ordering::Relaxed), each * rounds);
    assert_eq!((checks.suppressed(), checks.failure()), (0, None));
}

/// As `toggle`, without holds, which would silence the other attachments.
fn toggle_beside(random: &mut Random) -> u64 {
    let visibility = if random.below(2) == 0 { Visibility::Synchronous } else { Visibility::Eventual };
    let set = select(&any_set(random)).unwrap().visibility(visibility);
    let (count, checks) = (set.attach(Count::new()).unwrap(), set.attach(Checks::default()).unwrap());
    for _ in 0..random.below(4) {
        let _ = (count.pause(), checks.pause());
        let _ = (checks.resume(), count.resume());
    }
    switched(&checks.detach()) + switched(&count.detach())
}

/// Threads call the functions while a consumer is attached. Every call after `attach` has returned
/// is counted.
fn exact_between_barriers(seed: u64) {
    let barrier = Barrier::new(WORKERS + 1);
    let is_attached = AtomicBool::new(false);
    let rounds = 20;
    thread::scope(|scope| {
        for number in 0..WORKERS {
            let (barrier, is_attached) = (&barrier, &is_attached);
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_add(u64::try_from(number).unwrap()) | 1);
                for round in 0..rounds {
                    while !is_attached.load(Ordering::Acquire) {
                        work(&mut random);
                    }
                    barrier.wait();
                    barrier.wait();
                    (0..=round).for_each(|_| assert_eq!(work(&mut random), 64));
                    barrier.wait();
                    barrier.wait();
                }
            });
        }
        for round in 0..rounds {
            let hits: Attachment<Count> = select("patching::live::f*").unwrap().attach(Count::new()).unwrap();
            is_attached.store(true, Ordering::Release);
            // All workers wait here. Calls during `attach` may be counted or not.
            barrier.wait();
            let before = hits.counts();
            barrier.wait();
            barrier.wait();
            assert_eq!(before.len(), 2 * FUNCTIONS);
            for (before, after) in before.iter().zip(hits.counts()) {
                let expected = u64::try_from(WORKERS * (round + 1)).unwrap();
                assert_eq!(after.hits - before.hits, expected, "{}", after.probe);
            }
            is_attached.store(false, Ordering::Release);
            drop(hits);
            barrier.wait();
        }
    });
}
