//! Signals whose handlers hit probes, also in the middle of an event.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::probe;
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_trace::Trace as Read;

use super::{HITS, Keep, call, check};

/// Calls of the handler.
static HANDLED: AtomicU64 = AtomicU64::new(0);

#[probe]
#[inline(never)]
fn handled(number: u64) -> u64 {
    black_box(number)
}

extern "C" fn handler(_signal: libc::c_int) {
    handled(HANDLED.fetch_add(1, Ordering::Relaxed));
}

#[test]
fn hits_of_handlers_are_written_or_lost_or_suppressed() {
    const CALLS: u64 = 50_000;
    let _turn = turn();
    let folder = Folder::new("trace-handlers");
    let path = folder.join("handlers.probetrace");
    // SAFETY: the handler does what a handler may.
    let before = unsafe { libc::signal(libc::SIGURG, handler as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
    handled(0);
    for keep in Keep::ALL {
        let trace = keep.attach(&path, 64 << 10, 32);
        HANDLED.store(0, Ordering::Relaxed);
        // SAFETY: of this thread.
        let this = unsafe { libc::pthread_self() };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let killer = scope.spawn(|| {
                let mut sent = 0_u64;
                while !is_over.load(Ordering::Relaxed) || sent < 1000 {
                    // SAFETY: the thread waits for this one.
                    unsafe { libc::pthread_kill(this, libc::SIGURG) };
                    sent += 1;
                    thread::yield_now();
                }
            });
            call(CALLS);
            is_over.store(true, Ordering::Relaxed);
            killer.join().unwrap();
        });
        let emitted = CALLS * HITS + 2 * HANDLED.load(Ordering::Relaxed);
        let suppressed = trace.suppressed();
        let totals = keep.finish(trace, &path);
        assert_eq!(totals.written + totals.lost, emitted, "{keep:?}: {totals:?}");
        let file = Read::open(&[&path]).unwrap();
        let of_file = file.totals().unwrap();
        assert_eq!((of_file.nested, of_file.written), (suppressed, totals.written), "{keep:?}");
        assert_eq!(of_file.emitted(), emitted);
        // A handler's call lies inside of those that it interrupts.
        let found = check(&path, keep);
        assert!(keep == Keep::Latest || found.events == totals.written, "{found:?}");
    }
    // SAFETY: as above; the next pending one is ignored.
    unsafe { libc::signal(libc::SIGURG, before) };
}
