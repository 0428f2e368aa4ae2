//! Threads' first hits, each interrupted by a signal handler's while it takes its slot: what the
//! interrupted one has taken is given back. A process of its own: `syscall`, by which this crate
//! asks for the thread's name then, is the whole program's, and every thread's slot is counted.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::arch::asm;
use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_long;
use probe_runtime::losses::lost_hits;
use probe_runtime::{Count, probe, select};
use probe_tests::slots;

thread_local! {
    static IS_INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

#[probe]
#[inline(never)]
fn work() {
    std::hint::black_box(1);
}

extern "C" fn handler(_signal: libc::c_int) {
    work();
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// In place of the C library's: raises a signal where a thread that asks for it is about to learn
/// its name.
///
/// # Safety
/// As for syscall(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    if number == libc::SYS_prctl && first == c_long::from(libc::PR_GET_NAME) && IS_INTERRUPTED.take() {
        // SAFETY: a handler is installed.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
    let result: c_long;
    // SAFETY: as the caller says.
    unsafe {
        asm!(
            "syscall",
            inout("rax") number => result,
            in("rdi") first, in("rsi") second, in("rdx") third, in("r10") fourth, in("r8") fifth, in("r9") sixth,
            out("rcx") _, out("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        // SAFETY: the thread's own.
        unsafe { *libc::__errno_location() = i32::try_from(-result).unwrap_or_default() };
        return -1;
    }
    result
}

#[test]
fn a_slot_that_a_handler_was_faster_to_take_another_for_is_given_back() {
    const THREADS: usize = 20;
    // SAFETY: the handler does what a handler may.
    unsafe { libc::signal(libc::SIGUSR1, handler as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    let hits = select("first_hits::work kind=entry").unwrap().attach(Count::new()).unwrap();
    let before = slots::count();
    let (has_hit, end) = (Barrier::new(2), Barrier::new(THREADS + 1));
    let made = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                IS_INTERRUPTED.set(true);
                work();
                has_hit.wait();
                end.wait();
            });
            // One after the other.
            has_hit.wait();
        }
        let made = slots::count() - before;
        end.wait();
        made
    });
    assert_eq!(made, THREADS + 1, "one a thread; what the last has given back is free");
    assert_eq!(HANDLED.load(Ordering::Relaxed), THREADS as u64);
    assert_eq!((hits.total(), lost_hits()), (2 * THREADS as u64, 0));
}
