//! A detach that does not wait for a thread between a site and its consumer: a handler that
//! interrupted the thread there is in another consumer. Whenever the memory goes, the thread's hit
//! reads none of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread;

use probe_runtime::{Event, Trace, probe, select};
use probe_tests::turn::turn;
use probe_tests::waiting::Waiting;
use probe_tests::whole;

use super::stepped::{install, single_stepped};

mod traced {
    use probe_runtime::point;

    #[inline(never)]
    pub(super) fn bare() {
        point!("bare");
    }

    #[inline(never)]
    pub(super) fn shown() {
        point!("shown", text = %super::Held);
    }
}

#[probe]
#[inline(never)]
fn slow() {}

/// How far a trial is.
static STATE: AtomicU8 = AtomicU8::new(BEGUN);
const BEGUN: u8 = 0;
/// The handler's hit is in the other consumer.
const IN_OTHER: u8 = 1;
/// The detach waits for the thread that formats `Held`.
const DETACHING: u8 = 2;
/// That thread may continue.
const RELEASED: u8 = 3;

/// The step at whose end the handler hits `slow`, and the one at whose end the memory goes.
static HIT_AT: AtomicU64 = AtomicU64::new(u64::MAX);
static RELEASE_AT: AtomicU64 = AtomicU64::new(u64::MAX);
static STEP: AtomicU64 = AtomicU64::new(0);
static IS_HELD: AtomicBool = AtomicBool::new(false);
static IS_DETACHED: AtomicBool = AtomicBool::new(false);
/// Trials in which the detach ended in the middle of the hit.
static CROSSED: AtomicU64 = AtomicU64::new(0);

/// A value whose thread stays in the trace while it is formatted.
struct Held;

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IS_HELD.store(true, Ordering::SeqCst);
        until(|| STATE.load(Ordering::SeqCst) == RELEASED);
        f.write_str("held")
    }
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

extern "C" fn at_step(_signal: libc::c_int) {
    let step = STEP.fetch_add(1, Ordering::SeqCst);
    if step == HIT_AT.load(Ordering::SeqCst) {
        slow();
    }
    if step == RELEASE_AT.load(Ordering::SeqCst) && STATE.load(Ordering::SeqCst) == DETACHING {
        STATE.store(RELEASED, Ordering::SeqCst);
        // If the detach waits for this thread, too, it does not end.
        let ended = (0..1_000).any(|_| {
            thread::yield_now();
            IS_DETACHED.load(Ordering::SeqCst)
        });
        CROSSED.fetch_add(u64::from(ended), Ordering::SeqCst);
    }
}

/// Detaches while one thread is in the trace, and another one makes a hit in steps. Returns whether
/// the handler's hit was delivered, and the number of steps.
fn trial(hit_at: u64, release_at: u64, steps_here: bool) -> (bool, u64) {
    let trace = select("recorded_in_place::detached::traced::*").unwrap();
    let trace = trace.attach(Trace::recorder().ring_size(4096)).unwrap();
    STATE.store(BEGUN, Ordering::SeqCst);
    IS_HELD.store(false, Ordering::SeqCst);
    IS_DETACHED.store(false, Ordering::SeqCst);
    HIT_AT.store(hit_at, Ordering::SeqCst);
    RELEASE_AT.store(release_at, Ordering::SeqCst);
    let was_hit = AtomicBool::new(false);
    let step = || {
        // The thread gets its memory.
        (0..2).for_each(|_| traced::bare());
        until(|| IS_HELD.load(Ordering::SeqCst));
        STEP.store(0, Ordering::SeqCst);
        single_stepped(traced::bare);
        was_hit.store(STATE.swap(RELEASED, Ordering::SeqCst) != BEGUN, Ordering::SeqCst);
    };
    let waiting = Waiting::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            until(|| STATE.load(Ordering::SeqCst) != BEGUN);
            waiting.run(|| trace.detach());
            IS_DETACHED.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            until(|| STATE.load(Ordering::SeqCst) != BEGUN);
            if STATE.load(Ordering::SeqCst) == IN_OTHER {
                waiting.until_it_waits();
                STATE.store(DETACHING, Ordering::SeqCst);
            }
        });
        // The detach looks at one of them first.
        if steps_here {
            scope.spawn(traced::shown);
            step();
        } else {
            scope.spawn(step);
            traced::shown();
        }
    });
    (was_hit.into_inner(), STEP.load(Ordering::SeqCst))
}

#[test]
fn a_hit_reads_no_memory_of_a_consumer_that_went_before_its_mark() {
    let _turn = turn();
    install(libc::SIGTRAP, at_step);
    traced::bare();
    let other = select("recorded_in_place::detached::slow kind=entry").unwrap();
    let _other = other.attach(|_: &Event<'_>| {
        STATE.store(IN_OTHER, Ordering::SeqCst);
        until(|| STATE.load(Ordering::SeqCst) != IN_OTHER);
    });
    // The distances between the steps that are tried for the hit, and for the release.
    let (hits, releases) = if whole::is_asked_for() { (4, 2) } else { (8, 3) };
    for steps_here in [false, true] {
        let (_, steps) = trial(u64::MAX, u64::MAX, steps_here);
        // From the first step at which the hit is in its consumer, the handler's is suppressed.
        for hit_at in (0..steps).step_by(hits) {
            let mut releases = (hit_at + 1..steps).step_by(releases);
            if !releases.all(|release_at| trial(hit_at, release_at, steps_here).0) {
                break;
            }
        }
    }
    assert!(CROSSED.load(Ordering::SeqCst) > 0);
}
