//! `discovery`: the cost of a function of `-finstrument-functions` at its first call, latent, and
//! active.

use std::hint::black_box;
use std::time::Instant;

use probe_benches::baseline::protect;
use probe_benches::instrumented::{Hooks, Instrumented, clean};
use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, median, pin, timing};
use probe_runtime::patch::TextPolicy;
use probe_runtime::{Count, Error, finstrument, probe, select};

#[probe]
#[inline(never)]
fn counted(x: u64) -> u64 {
    black_box(x) * 3 + 1
}

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let result = first_hits(scale).and_then(|()| operations(scale)).and_then(|()| calls(scale));
    clean();
    result
}

/// Calls each function for the first time: two first hits, its entry's and its exit's.
fn first_hits(scale: Scale) -> Result<(), Error> {
    let functions = if scale == Scale::Full { 5_000 } else { 50 };
    for (name, policy, is_counted) in [
        ("sealed", TextPolicy::Sealed, false),
        ("open", TextPolicy::Open, false),
        ("sealed-counted", TextPolicy::Sealed, true),
    ] {
        finstrument::text_policy(policy);
        let object = Instrumented::load(name, functions, Hooks::Ours);
        let counting =
            if is_counted { Some(finstrument::attach(Count::new(), 6 * functions)?) } else { None };
        let before = finstrument::stats();
        let mut samples: Vec<f64> = object.functions().iter().map(|function| first_call(*function)).collect();
        let waiting = finstrument::stats().waiting;
        // A call site that waits for another call on its page is patched by the second call at the
        // latest.
        let mut again: Vec<f64> = object.functions().iter().map(|function| first_call(*function)).collect();
        let stats = finstrument::stats();
        assert_eq!((stats.patched - before.patched, stats.waiting), (2 * functions, 0), "{stats:?}");
        if let Some(counting) = counting {
            assert_eq!(counting.total(), 4 * functions as u64);
        }
        // This includes the patching at the second call.
        let mean = trimmed_mean(&mut samples) + trimmed_mean(&mut again);
        finstrument::text_policy(TextPolicy::Sealed);
        // The time to open and seal a page that has been written before.
        let two_protects =
            median(object.functions().iter().map(|function| open_and_seal(*function)).collect());
        if policy == TextPolicy::Sealed && !is_counted {
            figure("discovery/two-mprotect", format_args!("{two_protects:.0}"), "ns", 1.0, "two-mprotect");
        }
        let ninety_ninth = samples[samples.len() * 99 / 100];
        for (what, ns) in [("-mean", mean), ("", median(samples)), ("-99th", ninety_ninth)] {
            let name = format!("discovery/first-hit-{name}{what}");
            figure(&name, format_args!("{ns:.0}"), "ns", ns / two_protects, "two-mprotect");
        }
        let split_calls = stats.split_calls - before.split_calls;
        println!(
            "{split_calls} of {} call sites lay across two words; {waiting} waited for their second hit",
            2 * functions
        );
    }
    finstrument::text_policy(TextPolicy::Sealed);
    Ok(())
}

/// Returns the mean without the slowest hundredth, during which other programs ran. Sorts the
/// samples.
fn trimmed_mean(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    let most = &samples[..samples.len() * 99 / 100];
    most.iter().sum::<f64>() / most.len() as f64
}

fn open_and_seal(function: extern "C" fn(u64) -> u64) -> f64 {
    let page = function as usize;
    let start = Instant::now();
    protect(page, true);
    protect(page, false);
    ns(start)
}

/// Returns the nanoseconds of one first hit.
fn first_call(function: extern "C" fn(u64) -> u64) -> f64 {
    let start = Instant::now();
    black_box(function(black_box(1)));
    ns(start) / 2.0
}

fn ns(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

/// Measures an operation after a function was first called, while thousands of others are known: it
/// examines that function's two call sites, which are patched or waiting. Then it measures one
/// after an object without probes was loaded.
fn operations(scale: Scale) -> Result<(), Error> {
    let functions = if scale == Scale::Full { 300 } else { 10 };
    let object = Instrumented::load("later", functions, Hooks::Ours);
    // The first call in an object reads its file.
    first_call(object.functions()[0]);
    let known = select("sealed_*")?.attach(Count::new())?;
    let others = finstrument::stats().discovered;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for function in &object.functions()[1..] {
        first_call(*function);
        for samples in [&mut with, &mut without] {
            let start = Instant::now();
            finstrument::start();
            samples.push(ns(start));
        }
    }
    assert_eq!(finstrument::stats().discovered, others + 2 * (functions - 1));
    assert_eq!(select("later_*")?.len(), 2 * functions);
    drop(known);
    let without = median(without);
    figure("discovery/operation", format_args!("{without:.0}"), "ns", 1.0, "operation");
    let with = median(with);
    figure("discovery/operation-after-one", format_args!("{with:.0}"), "ns", with / without, "operation");
    let after_load = |at: usize| {
        Instrumented::load(&format!("other-{at}"), 1, Hooks::None);
        let start = Instant::now();
        finstrument::start();
        ns(start)
    };
    let after_load = median((0..if scale == Scale::Full { 9 } else { 1 }).map(after_load).collect());
    figure(
        "discovery/operation-after-load",
        format_args!("{after_load:.0}"),
        "ns",
        after_load / without,
        "operation",
    );
    println!("{others} call sites were known");
    Ok(())
}

/// Measures a call of a small function: its entry and its exit.
fn calls(scale: Scale) -> Result<(), Error> {
    let plain = Instrumented::load("plain", 1, Hooks::None);
    let empty = Instrumented::load("empty", 1, Hooks::Empty);
    let latent = Instrumented::load("latent", 1, Hooks::Ours);
    let active = Instrumented::load("active", 1, Hooks::Ours);
    let known = finstrument::stats().patched;
    latent.call_first(1);
    let counting = finstrument::attach(Count::new(), 100_000)?;
    // This also counts the sites that are known by now.
    let others = select("latent_*")?.hold()?;
    // The second call patches the waiting sites.
    active.call_first(2);
    assert_eq!(finstrument::stats().patched, known + 4);
    let rust = select("**::counted")?.attach(Count::new())?;
    let before = counting.total();
    // A round is shorter than the time between interruptions, or the median would include them.
    let calls = scale.of(5_000);
    let mut ran = 1;
    let medians = interleave(
        scale.of(3_001),
        &mut [
            Case::new("plain", calls, |calls| _ = black_box(plain.call_first(calls))),
            Case::new("empty-hooks", calls, |calls| _ = black_box(empty.call_first(calls))),
            Case::new("latent", calls, |calls| _ = black_box(latent.call_first(calls))),
            Case::new("active", calls, |calls| {
                ran += calls;
                _ = black_box(active.call_first(calls));
            }),
            Case::new("rust-active", calls, |calls| {
                for _ in 0..calls {
                    black_box(counted(black_box(1)));
                }
            }),
        ],
    );
    assert_eq!(counting.total() - before, 2 * (ran - 1));
    drop((others, rust));
    for case in ["plain", "empty-hooks", "latent", "active", "rust-active"] {
        timing("discovery", &medians, case, "plain");
    }
    Ok(())
}
