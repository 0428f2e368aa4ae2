//! A handler that forks at any instruction of a hit. The child finds its ring's head empty, in the
//! middle of the hit, and stores nothing outside of the ring.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use probe_runtime::{Trace, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;

use super::stepped::{install_with, single_stepped};
use super::{HITS, call_both, events};

static STEP: AtomicU64 = AtomicU64::new(0);
static IS_CHILD: AtomicBool = AtomicBool::new(false);
static FAILED: AtomicI32 = AtomicI32::new(0);

/// The processor's trap flag.
const TRAP: i64 = 0x100;

extern "C" fn forks(_: libc::c_int, _: *const libc::siginfo_t, context: *mut libc::ucontext_t) {
    STEP.fetch_add(1, Ordering::Relaxed);
    // SAFETY: no pointers. A bare fork(2): the interrupted code holds no lock that the child takes.
    let child = unsafe { libc::syscall(libc::SYS_fork) };
    if child == 0 {
        IS_CHILD.store(true, Ordering::Relaxed);
        // SAFETY: the interrupted code's registers. The child goes on without steps.
        unsafe { (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP };
        return;
    }
    let (child, mut status) = (libc::pid_t::try_from(child).unwrap(), -1);
    // SAFETY: a place for the result.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if status != 0 {
        FAILED.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_handler_may_fork_at_every_instruction() {
    let _turn = turn();
    let folder = Folder::new("recorded-forked");
    let path = folder.join("rings.probetrace");
    install_with(libc::SIGTRAP, forks as *const () as usize, libc::SA_SIGINFO);
    call_both(1);
    let trace = Trace::first().ring_size(64 << 10).total_size(64 << 10).in_file(&path);
    let trace = select("recorded_in_place::*").unwrap().attach(trace).unwrap();
    // The second call begins no generation.
    (0..2).for_each(call_both);
    single_stepped(|| {
        call_both(2);
        if IS_CHILD.load(Ordering::Relaxed) {
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
    });
    assert!(STEP.load(Ordering::Relaxed) > 4 * 70);
    assert_eq!(FAILED.load(Ordering::Relaxed), 0, "of {STEP:?} children");
    let totals = trace.finish().unwrap();
    assert_eq!((totals.written, totals.lost), (3 * 2 * HITS, 0));
    assert_eq!(events(&path).len() as u64, totals.written);
}
