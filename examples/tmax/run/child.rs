//! One run, in a process of its own, which a wait that is too short may end.

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

/// Calls between two looks at whether it is over.
const CALLS: u64 = 64;
/// Before a toggle whose time is taken: so that executors run as if there were none.
const SETTLE: u64 = 4_000;
/// Not a time: the executor was preempted.
const PREEMPTED: u64 = 1;
/// Toggles that don't count: the executor may not run yet.
const WARM_UP: usize = 20;

/// Runs it, and prints what was seen.
pub fn run(trial: Trial) -> Result<(), Box<dyn Error>> {
    limit(&trial);
    let site = Site::new(&trial);
    pin(0);
    // First the stress: whatever it does to the caches and predictors is there when the time is taken.
    let wrong = if trial.toggles == 0 { 0 } else { stress(&site, &trial)? };
    let samples = if trial.samples == 0 { Vec::new() } else { visibility(&site, trial.samples)? };
    println!("{}", Seen { wrong, visibility: Visibility::of(samples) });
    Ok(())
}

/// No core files of crashes that are expected, and an end of what hangs: by `SIGPROF` after far more of the processors' time than
/// the run takes, however busy others keep them. (All of its threads spin, so one that hangs uses it up.)
fn limit(trial: &Trial) {
    let wait = match trial.delay {
        Delay::Ticks(wait) => wait,
        Delay::Barrier => 30_000,
    };
    let sum = (trial.toggles + trial.samples as u64).saturating_mul(4 * wait + 50_000);
    let seconds = (20 + sum / ticks_per_second()).saturating_mul(2 * probe_benches::processors() as u64);
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let limit = libc::timeval { tv_sec: seconds.try_into().unwrap_or(libc::time_t::MAX), ..none };
    // SAFETY: structures of this function's own.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
        libc::setitimer(
            libc::ITIMER_PROF,
            &libc::itimerval { it_interval: none, it_value: limit },
            std::ptr::null_mut(),
        );
    }
}

/// Toggles as fast as it goes while executors check every value; returns how many were wrong.
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

/// Toggles again and again, each time taking the time until one executor on another processor has seen it. Where one of
/// the two threads was preempted, the time is not taken: to be interrupted is to serialise, so that is not what a wait is for.
fn visibility(site: &Site, samples: usize) -> Result<Vec<u64>, PatchError> {
    // When the value last changed, or `PREEMPTED`; 0 as soon as that was noted.
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

/// Waits for a time, and takes it.
fn take(changed: &AtomicU64) -> u64 {
    loop {
        match changed.swap(0, Ordering::Acquire) {
            0 => spin_loop(),
            at => return at,
        }
    }
}

/// Notes when the value changes.
fn watch(site: &Site, stop: &AtomicBool, changed: &AtomicU64) {
    let function = black_box(site.code.function());
    let (mut last, mut before) = (site.values[0], preemptions());
    while !stop.load(Ordering::Relaxed) {
        let value = function();
        // Nothing but the two, or else a change would be counted twice.
        if value != last && site.values.contains(&value) {
            let (at, now) = (ticks(), preemptions());
            changed.store(if now == before { at } else { PREEMPTED }, Ordering::Release);
            (last, before) = (value, now);
        }
    }
}
