//! Signals between any two instructions of a block; threads that end; forks.

use std::arch::asm;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::{mem, ptr, thread};

use probe_runtime::{Count, select};
use probe_tests::scenario::in_a_child;

use super::hot;
use super::seen::{Held, active_sites, held};

static HANDLED: AtomicU64 = AtomicU64::new(0);
/// Returns the addresses of the two sites' blocks.
static BLOCKS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// At which bytes of the blocks handlers have run.
static SEEN: AtomicU64 = AtomicU64::new(0);

fn install(
    signal: libc::c_int,
    handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
) {
    // SAFETY: all zeros is a valid action.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    // SAFETY: an action that is alive.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }, 0);
}

/// Hits the same probe, wherever it interrupts.
extern "C" fn stepped(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's, as SA_SIGINFO asks for it.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = usize::try_from(registers[usize::try_from(libc::REG_RIP).unwrap()]).unwrap();
    for block in &BLOCKS {
        let start = block.load(Ordering::Relaxed);
        if (start..start + 32).contains(&at) {
            SEEN.fetch_or(1 << (at - start), Ordering::Relaxed);
            HANDLED.fetch_add(1, Ordering::Relaxed);
            black_box(hot(black_box(3)));
        }
    }
}

fn attach() -> probe_runtime::Attachment<Count> {
    black_box(hot(1));
    let counted = select("patching::counted_in_place::hot").unwrap().attach(Count::new()).unwrap();
    let sites = active_sites();
    for (site, block) in sites.iter().zip(&BLOCKS) {
        let Held::Block(at) = held(*site) else { panic!("no block") };
        block.store(at, Ordering::Relaxed);
    }
    counted
}

/// Runs with the processor's trap flag, so that each instruction ends with a `SIGTRAP`.
fn single_stepped(run: impl FnOnce()) {
    // SAFETY: sets a flag whose traps have a handler; the stack pointer ends where it was.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    run();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

/// The first byte of each instruction of a block, but for its slow way.
const INSTRUCTIONS: [u32; 5] = [0, 9, 12, 14, 21];

pub(super) fn step_by_step() {
    let counted = attach();
    install(libc::SIGTRAP, stepped);
    // This thread's first hit, on the slow way.
    hot(1);
    single_stepped(|| {
        for x in 0..100 {
            black_box(hot(black_box(x)));
        }
    });
    let all = INSTRUCTIONS.iter().map(|at| 1_u64 << at).sum::<u64>();
    assert_eq!(SEEN.load(Ordering::Relaxed), all, "each instruction of a block");
    let handled = HANDLED.load(Ordering::Relaxed);
    assert_eq!(handled, 2 * 100 * INSTRUCTIONS.len() as u64);
    assert_eq!(counted.total(), 2 * (101 + handled));
    // A thread without a slot is interrupted on its slow way; its handler takes one.
    SEEN.store(0, Ordering::Relaxed);
    let others = thread::spawn(|| {
        single_stepped(|| _ = black_box(hot(black_box(1))));
    });
    others.join().unwrap();
    let more = HANDLED.load(Ordering::Relaxed) - handled;
    assert!(more > INSTRUCTIONS.len() as u64);
    assert_eq!(counted.total(), 2 * (102 + handled + more));
    counted.detach();
}

extern "C" fn alarmed(_signal: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    black_box(hot(black_box(3)));
}

fn set_timer(microseconds: libc::suseconds_t) {
    let every = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the description is alive for the call.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) }, 0);
}

pub(super) fn by_a_storm() {
    const SIGNALS: u64 = 2_000;
    let counted = attach();
    install(libc::SIGALRM, alarmed);
    set_timer(50);
    let calls: u64 = thread::scope(|scope| {
        let work = || {
            let mut calls = 0;
            while HANDLED.load(Ordering::Relaxed) < SIGNALS {
                (0..1_000).for_each(|x| _ = black_box(hot(black_box(x))));
                calls += 1_000;
            }
            calls
        };
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    set_timer(0);
    // One more may be pending; this thread takes it, or nobody does.
    // SAFETY: no pointers.
    assert_ne!(unsafe { libc::signal(libc::SIGALRM, libc::SIG_IGN) }, libc::SIG_ERR);
    assert_eq!(counted.total(), 2 * (calls + HANDLED.load(Ordering::Relaxed)));
}

pub(super) fn by_the_end_of_threads() {
    const EACH: u64 = 1_000;
    let counted = attach();
    let mut calls = 0;
    for round in 0..40 {
        let threads: Vec<_> = (0..=round % 4)
            .map(|_| thread::spawn(|| (0..EACH).for_each(|x| _ = black_box(hot(black_box(x))))))
            .collect();
        calls += EACH * threads.len() as u64;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(counted.total(), 2 * calls);
    }
    let status = in_a_child(|| {
        (0..EACH).for_each(|x| _ = black_box(hot(black_box(x))));
        assert_eq!(counted.total(), 2 * (calls + EACH));
        let told = select("patching::counted_in_place::hot").unwrap().attach(super::Told).unwrap();
        assert!(active_sites().iter().all(|site| held(*site) == Held::Cold));
        hot(1);
        drop(told);
        hot(1);
        assert_eq!(counted.total(), 2 * (calls + EACH + 2));
    });
    assert_eq!(status, 0);
    assert!(
        active_sites().iter().all(|site| matches!(held(*site), Held::Block(_))),
        "the parent's are its own"
    );
    assert_eq!(counted.total(), 2 * calls);
}
