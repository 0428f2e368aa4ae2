//! One run, in a process of its own, which may crash if the wait is too short.

// Safety: relies on system calls that concern this process alone.
#![expect(unsafe_code, reason = "see above")]

use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_benches::ticks::{spin_until, ticks, ticks_per_second};
use probe_benches::toggling::pin_executor;
use probe_benches::{pin, preemptions};
use probe_runtime::patch::PatchError;

use super::site::Site;
use super::trial::{Delay, Seen, Trial, Visibility};

/// Number of calls between two checks of the stop flag.
const CALLS: u64 = 64;
/// Ticks before a timed toggle, so that executors run undisturbed.
const SETTLE: u64 = 4_000;
/// A mark in place of a time: the executor was preempted.
const PREEMPTED: u64 = 1;
/// Number of toggles that don't count, because the executor may not run yet.
const WARM_UP: usize = 20;

/// Runs the trial, and prints its result.
pub fn run(trial: Trial) -> Result<(), Box<dyn Error>> {
    limit(&trial);
    let site = Site::new(&trial);
    pin(0);
    // The stress comes first, so that its effects on caches and predictors are present in the
    // timing.
    let wrong = if trial.toggles == 0 { 0 } else { stress(&site, &trial)? };
    let samples = if trial.samples == 0 { Vec::new() } else { visibility(&site, trial.samples)? };
    println!("{}", Seen { wrong, visibility: Visibility::of(samples) });
    Ok(())
}

/// Disables core files, since crashes are expected, and ends a run that hangs. `SIGPROF` arrives
/// after far more CPU time than the run needs, however busy the machine is. (All threads spin, so a
/// hung run uses up that time.)
fn limit(trial: &Trial) {
    let wait = match trial.delay {
        Delay::Ticks(wait) => wait,
        Delay::Barrier => 30_000,
    };
    let sum = (trial.toggles + trial.samples as u64).saturating_mul(4 * wait + 50_000);
    let seconds = (20 + sum / ticks_per_second()).saturating_mul(2 * probe_benches::processors() as u64);
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let limit = libc::timeval { tv_sec: seconds.try_into().unwrap_or(libc::time_t::MAX), ..none };
    // SAFETY: the structures belong to this function.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
        libc::setitimer(
            libc::ITIMER_PROF,
            &libc::itimerval { it_interval: none, it_value: limit },
            std::ptr::null_mut(),
        );
    }
}

/// Toggles at full speed while executors check every value; returns the number of wrong values.
fn stress(site: &Site, trial: &Trial) -> Result<u64, PatchError> {
    let (stop, wrong) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for nth in 0..trial.executors {
            let (stop, wrong) = (&stop, &wrong);
            scope.spawn(move || {
                pin_executor(nth);
                wrong.fetch_add(count_wrong(site, stop), Ordering::Relaxed);
            });
        }
        let done = (0..trial.toggles).try_for_each(|nth| site.write(nth % 2 == 0).map(drop));
        stop.store(true, Ordering::Relaxed);
        done
    })?;
    Ok(wrong.into_inner())
}

fn count_wrong(site: &Site, stop: &AtomicBool) -> u64 {
    let (function, [off, on]) = (black_box(site.code.function()), site.values);
    let mut wrong = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..CALLS {
            let value = function();
            wrong += u64::from(value != off && value != on);
        }
    }
    wrong
}

/// Toggles repeatedly, and measures each time until an executor on another processor has seen the
/// toggle. A toggle during which one of the two threads was preempted does not count: an interrupt
/// serialises the processor, so the time would not show the need for a wait.
fn visibility(site: &Site, samples: usize) -> Result<Vec<u64>, PatchError> {
    // The time of the last change of the value, or `PREEMPTED`; 0 once the time was taken.
    let (stop, changed) = (AtomicBool::new(false), AtomicU64::new(0));
    site.write(false)?;
    let mut taken = Vec::with_capacity(samples);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin_executor(0);
            watch(site, &stop, &changed);
        });
        let done = (0..WARM_UP + samples).try_for_each(|nth| {
            spin_until(ticks() + SETTLE + nth as u64 * 37 % 1_000);
            let before = preemptions();
            let written = site.write(nth % 2 == 0)?;
            let seen = take(&changed);
            if nth >= WARM_UP && seen != PREEMPTED && before == preemptions() {
                taken.push(seen.saturating_sub(written));
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        done
    })?;
    Ok(taken)
}

/// Waits for a time to be stored, and removes it.
fn take(changed: &AtomicU64) -> u64 {
    loop {
        match changed.swap(0, Ordering::Acquire) {
            0 => spin_loop(),
            at => return at,
        }
    }
}

/// Stores the times at which the value changes.
fn watch(site: &Site, stop: &AtomicBool, changed: &AtomicU64) {
    let function = black_box(site.code.function());
    let (mut last, mut before) = (site.values[0], preemptions());
    while !stop.load(Ordering::Relaxed) {
        let value = function();
        // Other values are ignored, or else a change would be counted twice.
        if value != last && site.values.contains(&value) {
            let (at, now) = (ticks(), preemptions());
            changed.store(if now == before { at } else { PREEMPTED }, Ordering::Release);
            (last, before) = (value, now);
        }
    }
}
