//! Signals between any two instructions of a hit that is recorded, and the number of these.

use std::arch::asm;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{mem, ptr, thread};

use probe_runtime::{Attachment, Trace, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_tests::whole;

use super::{HITS, bare, call_both, events, numbered};

pub(super) static STEPS: AtomicU64 = AtomicU64::new(0);
/// Whether the handler hits probes, too.
static HITS_TOO: AtomicBool = AtomicBool::new(false);

pub(super) fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    install_with(signal, handler as *const () as usize, 0);
}

pub(super) fn install_with(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    // SAFETY: all zeros is a valid action.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART | flags;
    // SAFETY: an action that is alive.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }, 0);
}

extern "C" fn stepped(_signal: libc::c_int) {
    STEPS.fetch_add(1, Ordering::Relaxed);
    if HITS_TOO.load(Ordering::Relaxed) {
        call_both(3);
    }
}

/// Runs with the processor's trap flag, so that each instruction ends with a `SIGTRAP`. Returns the
/// number of instructions.
pub(super) fn single_stepped(run: impl FnOnce()) -> u64 {
    let before = STEPS.load(Ordering::Relaxed);
    // SAFETY: sets a flag whose traps have a handler; the stack pointer ends where it was.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    run();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    STEPS.load(Ordering::Relaxed) - before
}

fn attach() -> Attachment<Trace> {
    call_both(1);
    select("recorded_in_place::*").unwrap().attach(Trace::recorder()).unwrap()
}

#[test]
fn a_hit_takes_few_instructions() {
    let _turn = turn();
    install(libc::SIGTRAP, stepped);
    HITS_TOO.store(false, Ordering::Relaxed);
    let steps = || {
        // The first hit maps the thread's memory, and the second one may begin another generation.
        call_both(1);
        [single_stepped(|| _ = bare(black_box(1))), single_stepped(|| _ = numbered(black_box(1)))]
    };
    let latent = steps();
    let trace = attach();
    let recorded = steps();
    let taken = |at: usize| recorded[at] - latent[at];
    // From a site to the instruction after it. The consumer would take twice as many, and hundreds
    // in a program that is not optimised; there, the cold block of a field has more of them.
    assert!(taken(0) <= 2 * 75, "an entry and an exit without fields: {recorded:?}, latent {latent:?}");
    assert!(taken(1) <= 75 + 160, "a number at the entry: {recorded:?}, latent {latent:?}");
    drop(trace);
}

/// A handler's own hits are written where they come before or after the interrupted hit, and
/// suppressed in between. The interrupted hit is written in any case.
#[test]
fn a_handler_may_interrupt_at_every_instruction() {
    const CALLS: u64 = 100;
    let _turn = turn();
    let folder = Folder::new("recorded-stepped");
    let path = folder.join("stepped.probetrace");
    install(libc::SIGTRAP, stepped);
    call_both(1);
    // None of it is overwritten.
    let trace = Trace::first().ring_size(16 << 20);
    let trace = select("recorded_in_place::*").unwrap().attach(trace).unwrap();
    call_both(1);
    HITS_TOO.store(true, Ordering::Relaxed);
    let steps = single_stepped(|| (0..CALLS).for_each(call_both));
    HITS_TOO.store(false, Ordering::Relaxed);
    let totals = trace.snapshot(&path).unwrap();
    let suppressed = trace.suppressed();
    // Also those of the handler, of which all four hits are written or none.
    assert_eq!(totals.written + totals.lost, 2 * HITS * (1 + CALLS + steps));
    assert_eq!((totals.lost, suppressed % (2 * HITS)), (suppressed, 0));
    // Most of a hit's instructions lie between its two marks.
    let inside = suppressed / (2 * HITS);
    assert!(inside > 4 * CALLS * 30 && inside < steps / 2, "{inside} of {steps}");
    let (mut open, mut events_read) = (Vec::new(), 0);
    for event in events(&path) {
        events_read += 1;
        match event.definition.kind {
            Some(probe_trace::Kind::Entry) => open.push(event.definition.path.clone()),
            _ => assert_eq!(open.pop(), Some(event.definition.path.clone())),
        }
    }
    assert_eq!((open.len(), events_read), (0, totals.written));
}

/// A thread without a slot takes one in the handler that interrupts its first hit, or maps a ring
/// there.
#[test]
fn a_handler_may_interrupt_a_threads_first_hits() {
    let _turn = turn();
    install(libc::SIGTRAP, stepped);
    let trace = attach();
    let before = trace.totals();
    HITS_TOO.store(true, Ordering::Relaxed);
    let steps = thread::spawn(|| single_stepped(|| call_both(1))).join().unwrap();
    HITS_TOO.store(false, Ordering::Relaxed);
    let totals = trace.totals();
    let emitted = totals.written + totals.lost - before.written - before.lost;
    assert_eq!(emitted, 2 * HITS * (1 + steps));
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handled(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    call_both(5);
}

#[test]
fn a_storm_of_signals_leaves_each_hit_written_or_suppressed() {
    // The threads never rest meanwhile, and all that they write is read.
    let signals = if whole::is_asked_for() { 10_000 } else { 1_000 };
    let _turn = turn();
    let folder = Folder::new("recorded-storm");
    let path = folder.join("storm.probetrace");
    install(libc::SIGUSR2, handled);
    call_both(1);
    let trace = Trace::to_file(&path).ring_size(64 << 10);
    let trace = select("recorded_in_place::*").unwrap().attach(trace).unwrap();
    let before = HANDLED.load(Ordering::Relaxed);
    let handled = || HANDLED.load(Ordering::Relaxed) - before;
    let (is_over, threads) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    let calls: u64 = thread::scope(|scope| {
        let work = || {
            let mut calls = 0;
            while !is_over.load(Ordering::Relaxed) {
                (0..100).for_each(call_both);
                calls += 100;
            }
            calls
        };
        let workers = threads.each_ref().map(|thread| {
            scope.spawn(move || {
                // SAFETY: of this thread.
                thread.store(unsafe { libc::pthread_self() }, Ordering::Relaxed);
                work()
            })
        });
        let known = || threads.each_ref().map(|thread| thread.load(Ordering::Relaxed));
        while handled() < signals {
            for worker in known().iter().filter(|thread| **thread != 0) {
                // SAFETY: it runs until it is told to stop.
                unsafe { libc::pthread_kill(*worker, libc::SIGUSR2) };
            }
        }
        is_over.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let totals = trace.finish().unwrap();
    assert_eq!(totals.written + totals.lost, 2 * HITS * (calls + handled()));
    assert_eq!(events(&path).len() as u64, totals.written);
}
