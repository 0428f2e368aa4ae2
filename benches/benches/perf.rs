//! `perf`: the cost of counting the events of a call, entry and exit of an empty function. The
//! baselines are two hand-written `read(2)` of the same group, and `Latency`'s cost for a pair.

// Safety: relies on sections that hold code only, and on valid destinations for the kernel's
// results.
#![expect(unsafe_code, reason = "see above")]

use std::cell::Cell;
use std::hint::black_box;

use probe_benches::{Scale, aligned, aligned_calls, figure, interleave, pin, timing};
use probe_runtime::perf::{NoEvents, PerfEvent};
use probe_runtime::profile::Budget;
use probe_runtime::{Error, Latency, Perf, probe, select};

/// The leader of the group of measured events.
static GROUP: std::sync::OnceLock<i32> = std::sync::OnceLock::new();

thread_local! {
    static SUMS: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
}

/// The structure of `perf_event_open(2)`, to the end of its first version, 64 bytes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    of_type: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read_format: u64,
    flags: u64,
    rest: [u64; 2],
}

fn open(config: u64, leader: i32) -> i32 {
    const SOFTWARE: u32 = 1;
    const GROUP: u64 = 8;
    let attributes =
        Attributes { of_type: SOFTWARE, size: 64, config, read_format: GROUP, ..Attributes::default() };
    // SAFETY: the attributes have the size that they state.
    let opened = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, leader, 0) };
    i32::try_from(opened).expect("a descriptor")
}

/// Returns the number of events, and their counts.
fn read() -> [u64; 3] {
    let mut counts = [0; 3];
    let leader = GROUP.get().copied().unwrap_or(-1);
    // SAFETY: the destination has this many bytes.
    unsafe { libc::read(leader, counts.as_mut_ptr().cast(), size_of_val(&counts)) };
    counts
}

#[inline(never)]
#[unsafe(link_section = ".text.perf.plain")]
fn plain() {
    black_box(());
}

/// The hand-written version.
#[inline(never)]
#[unsafe(link_section = ".text.perf.by_hand")]
fn by_hand() {
    let [_, faults, switches] = read();
    black_box(());
    let [_, more_faults, more_switches] = read();
    let [sum, other] = SUMS.get();
    SUMS.set([sum + more_faults - faults, other + more_switches - switches]);
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.perf.counted")]
fn counted() {
    black_box(());
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.perf.in_user_space")]
fn in_user_space() {
    black_box(());
}

#[probe]
#[inline(never)]
#[unsafe(link_section = ".text.perf.timed")]
fn timed() {
    black_box(());
}

/// Works for some microseconds. A budget skips most of these calls.
#[probe]
#[inline(never)]
fn budgeted() {
    (0..5_000_u64).for_each(|n| _ = black_box(n));
}

aligned_calls!(call_plain, ".text.perf.plain", plain);
aligned_calls!(call_by_hand, ".text.perf.by_hand", by_hand);
aligned_calls!(call_counted, ".text.perf.counted", counted);
aligned_calls!(call_in_user_space, ".text.perf.in_user_space", in_user_space);
aligned_calls!(call_timed, ".text.perf.timed", timed);

fn main() -> Result<(), Error> {
    const PAGE_FAULTS: u64 = 2;
    const CONTEXT_SWITCHES: u64 = 3;
    let scale = Scale::from_args();
    pin(0);
    // Rounds so short that few are interrupted.
    let (calls, rounds) = (scale.of(100), scale.of(3_000));
    let software = Perf::of([PerfEvent::PageFaults, PerfEvent::ContextSwitches]);
    let perf = match select("**::counted")?.attach(software) {
        Err(Error::Consumer(error)) if error.is::<NoEvents>() => {
            println!("perf: nothing to measure: {error}");
            return Ok(());
        }
        attached => attached?,
    };
    let leader = open(PAGE_FAULTS, -1);
    GROUP.get_or_init(|| leader);
    open(CONTEXT_SWITCHES, leader);
    // The processor's counters, if there are any; otherwise the one that most machines can read
    // without a system call.
    let user_space = match select("**::in_user_space")?.attach(Perf::of(PerfEvent::HARDWARE)) {
        Err(Error::Consumer(error)) if error.is::<NoEvents>() => {
            select("**::in_user_space")?.attach(Perf::of([PerfEvent::TaskClock]))?
        }
        attached => attached?,
    };
    let _latency = select("**::timed")?.attach(Latency::new())?;
    let mut cases = [
        aligned("plain", calls, call_plain, plain),
        aligned("two-reads-by-hand", calls, call_by_hand, by_hand),
        aligned("counted", calls, call_counted, counted),
        aligned("in-user-space", calls, call_in_user_space, in_user_space),
        aligned("latency", calls, call_timed, timed),
    ];
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("perf", &medians, case, "two-reads-by-hand");
    }
    let of = |case: &str, baseline: &str| (medians.ns(case), medians.ratio(case, baseline));
    let (pair, ratio) = of("counted", "two-reads-by-hand");
    figure("perf/pair", format_args!("{pair:.0}"), "ns the pair", ratio, "two-reads-by-hand");
    let (pair, ratio) = of("in-user-space", "latency");
    let how = if user_space.event_counts().takes_system_calls() {
        "perf/pair-of-one-read"
    } else {
        "perf/pair-in-user-space"
    };
    figure(how, format_args!("{pair:.1}"), "ns the pair", ratio, "latency");
    let expected = calls * (rounds + 1);
    for perf in [&perf, &user_space] {
        assert_eq!(perf.event_counts()[0].counted(), expected, "no call is lost");
        println!("{perf}");
    }
    under_a_budget(scale.of(1_000_000))
}

/// Prints the cost of a sample, as its profiler has measured it, beside the budget.
fn under_a_budget(calls: u64) -> Result<(), Error> {
    const PERCENT: f64 = 1.0;
    let software = Perf::of([PerfEvent::PageFaults, PerfEvent::ContextSwitches]);
    let perf = select("**::budgeted")?.attach(software.budget(Budget::percent(PERCENT)))?;
    (0..calls).for_each(|_| budgeted());
    let counts = perf.event_counts();
    let cost = counts.cost().map_or(0.0, |cost| 100.0 * cost.share());
    figure("perf/budget", format_args!("{cost:.2}"), "% of the CPU time", cost / PERCENT, "the budget");
    assert!(counts[0].counted() >= 10.min(calls) && counts[0].uncounted() == 0, "a sample is counted");
    println!("{perf}");
    Ok(())
}
