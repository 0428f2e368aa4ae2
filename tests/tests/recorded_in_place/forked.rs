//! A handler that forks at any instruction of a hit. The child finds its ring's head empty, in the
//! middle of the hit, and stores nothing outside of the ring.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use probe_runtime::{Trace, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_tests::whole;
use probe_trace::Trace as Read;

use super::stepped::{install_with, single_stepped};
use super::{HITS, call_both, events, events_of};

/// The handler forks at a step if this is 0, and every few steps from then on; never at first.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);
static EVERY: AtomicU64 = AtomicU64::new(1);
static CHILDREN: AtomicU64 = AtomicU64::new(0);
static IS_CHILD: AtomicBool = AtomicBool::new(false);
static FAILED: AtomicI32 = AtomicI32::new(0);

/// The processor's trap flag.
const TRAP: i64 = 0x100;

extern "C" fn forks(_: libc::c_int, _: *const libc::siginfo_t, context: *mut libc::ucontext_t) {
    let left = LEFT.load(Ordering::Relaxed);
    if left != 0 {
        return LEFT.store(left.saturating_sub(u64::from(left != u64::MAX)), Ordering::Relaxed);
    }
    LEFT.store(EVERY.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    CHILDREN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: no pointers. A bare fork(2): the interrupted code holds no lock that the child takes.
    let child = unsafe { libc::syscall(libc::SYS_fork) };
    if child == 0 {
        IS_CHILD.store(true, Ordering::Relaxed);
        // SAFETY: the interrupted code's registers. The child continues without steps.
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

/// Calls both functions while the handler forks at every few instructions. Each child makes two
/// calls more. Returns the number of children, none of which has failed.
fn call_forking(every: u64, first: u64) -> u64 {
    EVERY.store(every, Ordering::Relaxed);
    CHILDREN.store(0, Ordering::Relaxed);
    single_stepped(|| {
        LEFT.store(first, Ordering::Relaxed);
        call_both(2);
        LEFT.store(u64::MAX, Ordering::Relaxed);
        if IS_CHILD.load(Ordering::Relaxed) {
            (0..2).for_each(call_both);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
    });
    let children = CHILDREN.load(Ordering::Relaxed);
    assert_eq!(FAILED.load(Ordering::Relaxed), 0, "of {children} children");
    children
}

/// Checks the children's files, and removes them: their last events are those of their own calls,
/// and the hit in whose middle they began is there, or not. Returns their number.
fn check_children(folder: &Folder) -> u64 {
    let call = usize::try_from(2 * HITS).unwrap();
    let children: Vec<_> = folder.names().into_iter().filter(|name| name != "rings.probetrace").collect();
    for child in &children {
        let path = folder.join(child);
        let mut trace = Read::open(&[&path]).unwrap();
        let [problem] = trace.problems() else { panic!("{child}: {:?}", trace.problems()) };
        assert!(problem.contains("the process did not finish the trace"), "{problem}");
        let events = events_of(&mut trace);
        let names = events.iter().map(|event| event.definition.path.rsplit("::").next().unwrap());
        let kinds: Vec<_> = names.zip(events.iter().map(|event| event.definition.kind)).collect();
        // All hits of the interrupted call, at most.
        let before = kinds.len().checked_sub(2 * call).filter(|before| *before <= call);
        let own = &kinds[before.unwrap_or_else(|| panic!("{child}: {kinds:?}"))..];
        assert_eq!(own[..call], own[call..], "{child}");
        assert!(own[..2].iter().all(|(name, _)| *name == "bare"), "{child}: {own:?}");
        fs::remove_file(path).unwrap();
    }
    children.len() as u64
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
    let children = call_forking(1, 0);
    assert!(children > 4 * 70);
    assert_eq!(check_children(&folder), children);
    let totals = trace.finish().unwrap();
    assert_eq!((totals.written, totals.lost), (3 * 2 * HITS, 0));
    assert_eq!(events(&path).len() as u64, totals.written);
}

/// Where the way in calls the consumer: a hit that begins a generation, and one that begins a part
/// of the ring. There, a child's stores would be many.
#[test]
fn a_handler_may_fork_while_the_consumer_records() {
    let _turn = turn();
    let folder = Folder::new("recorded-forked-slow");
    let path = folder.join("rings.probetrace");
    install_with(libc::SIGTRAP, forks as *const () as usize, libc::SA_SIGINFO);
    call_both(1);
    // Steps of a call are tens of thousands. Each call of each round begins at another one.
    let (every, rounds) = if whole::is_asked_for() { (61, 10) } else { (421, 1) };
    // An event is a word; that with a number has two more.
    let words = |calls: u64| calls * 6;
    for round in 0..rounds {
        let trace = Trace::recorder().ring_size(4096).total_size(4096).in_file(&path);
        let trace = select("recorded_in_place::*").unwrap().attach(trace).unwrap();
        let mut calls = 2;
        (0..calls).for_each(call_both);
        // Each fills several parts, and more than the ring.
        while words(calls) < 3 * 4096 / 8 {
            trace.pause();
            trace.resume();
            let children = call_forking(every, (calls * 37 + round * 100) % every);
            assert_eq!(check_children(&folder), children, "at call {calls}");
            calls += 1;
            let more = if calls.is_multiple_of(2) { 10 } else { 17 };
            (0..more).for_each(call_both);
            calls += more;
        }
        let totals = trace.finish().unwrap();
        assert_eq!((totals.written, totals.lost), (calls * 2 * HITS, 0));
        let events = events(&path);
        assert!(events.len() > 100, "{}", events.len());
        assert!(events.len() as u64 <= totals.written);
    }
}
