//! Hits after the C library has announced their thread's end: in its own clean-up, which calls
//! `free`, and in the last destructors of keys. The runtime does not learn when such a thread is
//! gone, but its slot is used again. A process of its own: `free` is the whole program's, and every
//! thread's slot is counted.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use probe_runtime::losses::lost_hits;
use probe_runtime::{Count, probe, select};
use probe_tests::slots;

unsafe extern "C" {
    fn __libc_free(at: *mut c_void);
}

#[probe]
#[inline(never)]
fn freed(at: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { __libc_free(at) }
}

/// Replaces the C library's `free`, with a probe.
///
/// # Safety
/// As for free(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(at: *mut c_void) {
    freed(at);
}

#[probe]
#[inline(never)]
fn in_the_last_round() {
    std::hint::black_box(1);
}

static KEY: AtomicU32 = AtomicU32::new(0);
static THREAD: AtomicI32 = AtomicI32::new(0);

/// The C library calls destructors up to four times while they set their keys again. After that, a
/// key that is set is forgotten.
const ROUNDS: usize = 4;

unsafe extern "C" fn at_exit(round: *mut c_void) {
    if round.addr() == ROUNDS {
        in_the_last_round();
    } else {
        set(round.addr() + 1);
    }
}

fn set(round: usize) {
    // SAFETY: the key was created; its value is a number.
    let set =
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), ptr::without_provenance(round)) };
    assert_eq!(set, 0);
}

/// Hits in the last round of destructors, if its argument says so; without, what the C library
/// frees is its first hit.
extern "C" fn run(sets_key: *mut c_void) -> *mut c_void {
    // SAFETY: no arguments.
    THREAD.store(unsafe { libc::gettid() }, Ordering::Relaxed);
    if !sets_key.is_null() {
        set(1);
    }
    ptr::null_mut()
}

/// A thread, from its beginning until the kernel has forgotten it.
fn thread(sets_key: bool) {
    let argument = ptr::without_provenance_mut(sets_key.into());
    // SAFETY: a place for the result, and a function.
    unsafe {
        let mut thread = std::mem::zeroed();
        assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), run, argument), 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
    }
    slots::wait_until_gone(THREAD.load(Ordering::Relaxed));
}

/// This many slots are made before it is looked for slots of the dead, while no more than four
/// threads live.
const FEW: usize = 8;

#[test]
fn slots_of_those_who_hit_after_their_end_are_used_again() {
    const THREADS: u64 = 10_000;
    let mut key = 0;
    // SAFETY: a place for the result, and a function.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(at_exit)) }, 0);
    KEY.store(key, Ordering::Relaxed);
    let freed = select("**::freed kind=entry").unwrap().attach(Count::new()).unwrap();
    let last = select("**::in_the_last_round kind=entry").unwrap().attach(Count::new()).unwrap();
    (0..THREADS).for_each(|number| thread(number % 2 == 0));
    assert_eq!(last.total(), THREADS / 2);
    assert!(freed.total() >= THREADS, "the C library's clean-up calls `free`: {}", freed.total());
    assert_eq!(lost_hits(), 0);
    assert_eq!(slots::count(), FEW);
    // Those of living threads are not taken from them.
    let (go, wait) = (std::sync::Barrier::new(33), std::sync::Barrier::new(33));
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                in_the_last_round();
                go.wait();
                wait.wait();
                in_the_last_round();
            });
        }
        go.wait();
        let made = slots::count();
        assert!((33..=66).contains(&made), "as many as threads, to twice as many: {made}");
        (0..100).for_each(|number| thread(number % 2 == 0));
        assert!(slots::count() <= 66, "{}", slots::count());
        wait.wait();
    });
    assert_eq!(last.total(), THREADS / 2 + 64 + 50);
}
