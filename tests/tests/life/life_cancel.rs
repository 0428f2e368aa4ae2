//! Threads that are cancelled (`pthread_cancel`) while they hit probes, or are inside operations of
//! this crate: nothing is torn. Locks are free, text is whole, counts are exact, and whoever
//! detaches does not wait for the dead. A process of its own, whose tests take turns: they look at
//! the whole text.
//!
//! A cancellation is a forced unwind, which must not meet a destructor of Rust's: a thread's first
//! function here has none.
#![cfg(all(target_os = "linux", not(probe_portable)))]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use probe_runtime::losses::lost_hits;
use probe_runtime::patch::{OpenText, TextPolicy, unrestored_bytes};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Consumer, Count, Event, Kind, point, probe, probes, select};
use probe_tests::cancel::{Start, Thread};
use probe_tests::random::Random;
use probe_tests::stops::Stops;
use probe_tests::text::Text;

const DEFERRED: libc::c_int = 0;
const ASYNCHRONOUS: libc::c_int = 1;

unsafe extern "C-unwind" {
    fn pthread_testcancel();
    fn pthread_setcanceltype(new: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    // SAFETY: no pointers. The alarm kills a process that hangs.
    unsafe { libc::alarm(240) };
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What C calls.
#[probe]
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn life_cancel_work(x: u64) -> u64 {
    x + 1
}

#[inline(never)]
fn slow(x: u64) -> u64 {
    point!("slow");
    x + 1
}

/// How often any thread has called `life_cancel_work`, and come back.
static CALLS: AtomicU64 = AtomicU64::new(0);

extern "C-unwind" fn hit_and_test(_: *mut c_void) -> *mut c_void {
    loop {
        life_cancel_work(1);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: nothing here has a destructor.
        unsafe { pthread_testcancel() };
    }
}

/// May be cancelled anywhere, as long as it is not in Rust's or the runtime's functions.
extern "C-unwind" fn hit_and_spin(_: *mut c_void) -> *mut c_void {
    loop {
        life_cancel_work(1);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: nothing here has a destructor; the loop between the calls changes nothing.
        unsafe {
            pthread_setcanceltype(ASYNCHRONOUS, ptr::null_mut());
            std::arch::asm!("2: dec {0:r}", "jnz 2b", inout(reg) 2000_u64 => _, options(nomem, nostack));
            pthread_setcanceltype(DEFERRED, ptr::null_mut());
        }
    }
}

fn pause(random: &mut Random) {
    thread::sleep(Duration::from_micros(random.below(1500)));
}

fn must_be_whole() {
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    Text::of_this_process().assert_as_in_file();
    assert_eq!(lost_hits(), 0);
}

/// Threads are cancelled between hits, while another thread toggles their probe.
fn cancel_hitting(start: Start) {
    let _turn = turn();
    let mut random = Random::new(1);
    let set = select("life::life_cancel::life_cancel_work").unwrap();
    let tally = set.attach(Count::new()).unwrap();
    let before = CALLS.load(Ordering::Relaxed);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let other = set.attach(Calls::default()).unwrap();
                assert_eq!(other.detach().refused(), 0);
            }
        });
        for _ in 0..150 {
            let threads = [Thread::start(start), Thread::start(start)];
            pause(&mut random);
            threads.into_iter().for_each(Thread::cancel);
        }
        drop(stops);
    });
    let calls = CALLS.load(Ordering::Relaxed) - before;
    assert!(calls > 1000, "{calls}");
    let counts = tally.counts();
    let hits = |kind| counts.hits("life::life_cancel::life_cancel_work", kind);
    assert_eq!((hits(Kind::Entry), hits(Kind::Exit)), (Some(calls), Some(calls)));
    assert_eq!(tally.detach().patched(), 2);
    must_be_whole();
}

#[derive(Default)]
struct Calls(AtomicU64);

impl Consumer for Calls {
    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn threads_that_hit_are_cancelled() {
    cancel_hitting(hit_and_test);
}

#[test]
fn threads_that_hit_are_cancelled_at_once() {
    cancel_hitting(hit_and_spin);
}

/// The detaching thread waits and sleeps meanwhile: a cancellation point.
struct Sleeps;

impl Consumer for Sleeps {
    fn hit(&self, _event: &Event<'_>) {
        thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for Sleeps {
    fn drop(&mut self) {
        // Another one.
        thread::sleep(Duration::from_micros(100));
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

static ATTACHED: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn operate() {
    let set = select("life::life_cancel::slow").unwrap();
    ATTACHED.fetch_add(1, Ordering::Relaxed);
    let hits = set.attach(Sleeps).unwrap();
    assert_eq!(hits.pause().refused() + hits.resume().refused(), 0);
    drop(set.hold().unwrap());
    assert_eq!(hits.probes().len(), 1);
    assert_eq!(hits.detach().refused(), 0);
}

extern "C-unwind" fn operate_and_test(_: *mut c_void) -> *mut c_void {
    loop {
        operate();
        // SAFETY: nothing here has a destructor.
        unsafe { pthread_testcancel() };
    }
}

#[test]
fn threads_that_operate_are_cancelled() {
    let _turn = turn();
    let mut random = Random::new(3);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(slow(1), 2);
            }
        });
        // On a loaded machine, many threads are cancelled before they attach.
        let mut rounds = 0;
        while rounds < 100 || ATTACHED.load(Ordering::Relaxed) < 200 {
            let threads = [Thread::start(operate_and_test), Thread::start(operate_and_test)];
            pause(&mut random);
            threads.into_iter().for_each(Thread::cancel);
            rounds += 1;
        }
        drop(stops);
    });
    let attached = ATTACHED.load(Ordering::Relaxed);
    assert!(attached >= 200, "{attached}");
    // Each operation has gone to its end; the last one frees what others left.
    drop(select("life::life_cancel::slow").unwrap().attach(Count::new()).unwrap());
    assert_eq!(DROPPED.load(Ordering::Relaxed), attached);
    must_be_whole();
}

#[inline(never)]
fn toggled(x: u64) -> u64 {
    point!("toggled");
    x + 1
}

/// How a probe is switched; the first is the fast path, which needs no protection.
const WAYS: [(TextPolicy, bool); 5] = [
    (TextPolicy::Open, false),
    (TextPolicy::Open, true),
    (TextPolicy::Sealed, false),
    (TextPolicy::Sealed, true),
    (TextPolicy::Alias, false),
];

/// The probes that the threads below toggle.
static TOGGLED: AtomicPtr<Attachment<Count>> = AtomicPtr::new(ptr::null_mut());
/// Toggles that have begun, and that have come back.
static TOGGLES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

#[inline(never)]
fn toggle() {
    // SAFETY: the test keeps it until the threads have ended.
    let hits = unsafe { &*TOGGLED.load(Ordering::SeqCst) };
    TOGGLES[0].fetch_add(1, Ordering::SeqCst);
    assert_eq!(hits.pause().refused() + hits.resume().refused(), 0);
    TOGGLES[1].fetch_add(1, Ordering::SeqCst);
}

extern "C-unwind" fn toggle_and_test(_: *mut c_void) -> *mut c_void {
    loop {
        toggle();
        // SAFETY: nothing here has a destructor.
        unsafe { pthread_testcancel() };
    }
}

/// As above, for a thread that has been asked to end before it begins: the first cancellation point
/// that it reaches ends it.
extern "C-unwind" fn wait_toggle_and_test(_: *mut c_void) -> *mut c_void {
    while !GO.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
    toggle_and_test(ptr::null_mut())
}

static GO: AtomicBool = AtomicBool::new(false);

/// Threads that pause and resume are cancelled, under each policy, while another opens and seals
/// the same text. The runtime then forgets the text's rights, and reads them again. No thread ends
/// within an operation.
#[test]
fn threads_that_toggle_are_cancelled() {
    let _turn = turn();
    let mut random = Random::new(5);
    let at = (toggled as fn(u64) -> u64 as *const ()).addr();
    for (text, strict) in WAYS {
        let set = select("life::life_cancel::toggled").unwrap().text_policy(text).strict(strict);
        let hits = set.attach(Count::new()).unwrap();
        TOGGLED.store(ptr::from_ref(&hits).cast_mut(), Ordering::SeqCst);
        let toggles = || TOGGLES.each_ref().map(|count| count.load(Ordering::SeqCst));

        // One that continues after a guard, and is to end at the first chance: it toggles once.
        for _ in 0..20 {
            let before = toggles();
            GO.store(false, Ordering::SeqCst);
            let thread = Thread::start(wait_toggle_and_test);
            drop(OpenText::new(at..at + 1).unwrap());
            thread.ask();
            GO.store(true, Ordering::SeqCst);
            thread.join();
            assert_eq!(toggles(), before.map(|count| count + 1), "{text:?}, strict: {strict}");
        }

        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let stops = Stops(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    OpenText::new(at..at + 1).unwrap().close().unwrap();
                }
            });
            for _ in 0..60 {
                let threads = [Thread::start(toggle_and_test), Thread::start(toggle_and_test)];
                pause(&mut random);
                threads.into_iter().for_each(Thread::cancel);
            }
            drop(stops);
        });
        let [begun, ended] = toggles();
        assert_eq!(begun, ended, "{text:?}, strict: {strict}");

        // The last to leave has resumed it.
        let before = hits.total();
        assert_eq!(toggled(1), 2);
        assert_eq!(hits.total() - before, 1);
        assert_eq!(hits.detach().patched(), 1);
        assert_eq!(unrestored_bytes(), 0);
        must_be_whole();
    }
}
