//! Threads and handlers that block `SIGTRAP`, after traps have been used already: an `int3` that
//! they run into would kill the process, so whatever needs one is refused, and names them. Threads
//! that are only being created are no reason to refuse. Each scenario is a process of its own,
//! since it must survive.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::patch::word::{self, WordOptions};
use probe_runtime::patch::{RefusalReason, Report, TextPolicy};
use probe_runtime::{Attachment, Count, Error, ProbeSet, point, select};
use probe_tests::code::Code;
use probe_tests::pages::RX;
use probe_tests::sandbox::{argument, deny};
use probe_tests::scenario;
use probe_tests::text::Text;

#[inline(never)]
fn work(x: u64) -> u64 {
    point!("work");
    x * 3
}

#[test]
fn a_running_thread_under_alias() {
    scenario::runs_in_a_child("scenario", "running alias");
}

#[test]
fn a_running_thread_under_strict() {
    scenario::runs_in_a_child("scenario", "running strict");
}

#[test]
fn a_waiting_thread() {
    scenario::runs_in_a_child("scenario", "waiting");
}

#[test]
fn a_handlers_mask_under_alias() {
    scenario::runs_in_a_child("scenario", "handler alias");
}

#[test]
fn a_handlers_mask_under_strict() {
    scenario::runs_in_a_child("scenario", "handler strict");
}

#[test]
fn the_caller_itself() {
    scenario::runs_in_a_child("scenario", "caller");
}

#[test]
fn threads_that_are_being_created_are_waited_for() {
    scenario::runs_in_a_child("scenario", "created");
}

#[test]
fn a_word_patch() {
    scenario::runs_in_a_child("scenario", "word");
}

#[test]
fn what_would_be_refused_is_not_recommended() {
    scenario::runs_in_a_child("scenario", "recommended");
}

#[test]
fn where_nobody_says_who_blocks_it() {
    scenario::runs_in_a_child("scenario", "silence");
}

/// The scenarios of the children.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "running alias" => running(&alias()),
        "running strict" => running(&strict()),
        "waiting" => waiting(),
        "handler alias" => handler(&alias()),
        "handler strict" => handler(&strict()),
        "caller" => caller(),
        "created" => created(),
        "word" => word(),
        "recommended" => recommended(),
        "silence" => silence(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

fn alias() -> ProbeSet {
    select("patching::trap_blocked::*").unwrap().text_policy(TextPolicy::Alias)
}

fn strict() -> ProbeSet {
    select("patching::trap_blocked::*").unwrap().strict(true)
}

/// Blocks all signals of this thread, or none, as C programs do.
fn block(how: libc::c_int) {
    let mut all = MaybeUninit::uninit();
    // SAFETY: a place for a set, which is filled before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        assert_eq!(libc::pthread_sigmask(how, all.as_ptr(), ptr::null_mut()), 0);
    }
}

/// Attaches; the first batch finds nobody.
fn attach(set: &ProbeSet) -> Attachment<Count> {
    let hits = set.clone().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().is_complete()), (1, true), "{:?}", hits.report());
    hits
}

#[track_caller]
fn assert_refused(report: &Report, problem: &str) {
    assert_eq!((report.patched(), report.refused()), (0, 1), "{report}");
    let reason = report.refusals()[0].reason();
    assert_eq!(*reason, RefusalReason::NoTrap { problem: problem.to_owned() });
}

fn blocked_by(thread: u32, name: &str) -> String {
    format!(
        "thread {thread} ({name:?}) blocks SIGTRAP, so that a trap there would kill the process; let it unblock \
         the signal"
    )
}

fn id() -> u32 {
    // SAFETY: no arguments, no effect.
    u32::try_from(unsafe { libc::gettid() }).unwrap()
}

static THREAD: AtomicU32 = AtomicU32::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

/// A worker blocks all signals from its beginning, as those of C servers do, and executes the site
/// all the time.
fn running(set: &ProbeSet) {
    let text = Text::of_this_process();
    let hits = attach(set);
    let worker = thread::Builder::new().name("worker".to_owned()).spawn(|| {
        block(libc::SIG_BLOCK);
        THREAD.store(id(), Ordering::SeqCst);
        while !STOP.load(Ordering::Relaxed) {
            assert_eq!(work(2), 6);
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        block(libc::SIG_UNBLOCK);
        THREAD.store(0, Ordering::SeqCst);
        until(|| !STOP.load(Ordering::Relaxed));
    });
    until(|| CALLS.load(Ordering::Relaxed) != 0);
    let problem = blocked_by(THREAD.load(Ordering::SeqCst), "worker");
    for _ in 0..3 {
        assert_refused(&hits.pause(), &problem);
        // The site is active still, so there is nothing to switch.
        assert_eq!(hits.resume().unchanged(), 1);
    }
    // Operations that need no trap work.
    let sealed = select("patching::trap_blocked::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((sealed.report().unchanged(), sealed.report().refused()), (1, 0));
    drop(sealed);
    STOP.store(true, Ordering::Relaxed);
    until(|| THREAD.load(Ordering::SeqCst) == 0);
    // It has unblocked them.
    assert_eq!((hits.pause().patched(), text.differences()), (1, vec![]));
    assert_eq!(hits.resume().patched(), 1);
    assert_eq!(hits.detach().patched(), 1);
    STOP.store(false, Ordering::Relaxed);
    worker.unwrap().join().unwrap();
    assert_eq!(text.differences(), []);
}

/// A thread waits for signals that it has blocked, as `sigwait` asks for.
fn waiting() {
    let hits = attach(&strict());
    let waiter = thread::Builder::new().name("signals".to_owned()).spawn(|| {
        block(libc::SIG_BLOCK);
        THREAD.store(id(), Ordering::SeqCst);
        while !STOP.load(Ordering::Relaxed) {
            thread::park();
        }
    });
    until(|| THREAD.load(Ordering::SeqCst) != 0);
    assert_refused(&hits.pause(), &blocked_by(THREAD.load(Ordering::SeqCst), "signals"));
    STOP.store(true, Ordering::Relaxed);
    let waiter = waiter.unwrap();
    waiter.thread().unpark();
    waiter.join().unwrap();
    assert_eq!(hits.detach().patched(), 1);
}

extern "C" fn on_profile(_signal: libc::c_int) {
    for x in 0..100 {
        work(x);
    }
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// A handler that blocks all signals while it runs, and executes the site.
fn handler(set: &ProbeSet) {
    let hits = attach(set);
    let install = |handler: libc::sighandler_t, is_full: bool| {
        // SAFETY: a whole action.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_RESTART;
            if is_full {
                libc::sigfillset(&raw mut action.sa_mask);
            }
            assert_eq!(libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()), 0);
        }
    };
    install(on_profile as *const () as libc::sighandler_t, true);
    let often = libc::timeval { tv_sec: 0, tv_usec: 500 };
    let timer = libc::itimerval { it_interval: often, it_value: often };
    // SAFETY: a whole timer.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()) }, 0);
    let problem = "the handler of SIGPROF blocks SIGTRAP while it runs, so that a trap there would kill the process; \
                   install it with a `sa_mask` without SIGTRAP";
    while CALLS.load(Ordering::Relaxed) < 3 {
        assert_refused(&hits.pause(), problem);
        work(1);
    }
    // Without the mask, it continues.
    install(on_profile as *const () as libc::sighandler_t, false);
    // One that had begun before may be running still, on another thread: that one is waited for.
    for _ in 0..200 {
        assert_eq!((hits.pause().patched(), hits.resume().patched()), (1, 1));
    }
    install(libc::SIG_IGN, false);
    assert_eq!(hits.detach().patched(), 1);
}

fn caller() {
    let hits = attach(&alias());
    block(libc::SIG_BLOCK);
    let since = Instant::now();
    let name = thread::current().name().unwrap_or_default().chars().take(15).collect::<String>();
    assert_refused(&hits.pause(), &blocked_by(id(), &name));
    // Nobody waits for himself.
    assert!(since.elapsed() < Duration::from_secs(5));
    block(libc::SIG_UNBLOCK);
    assert_eq!(hits.detach().patched(), 1);
}

/// More threads than processors are created all the time, and each blocks all signals for a moment
/// then.
fn created() {
    let hits = attach(&strict());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    thread::scope(|inner| {
                        for _ in 0..4 {
                            inner.spawn(|| assert_eq!(work(1), 3));
                        }
                    });
                    CALLS.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until(|| CALLS.load(Ordering::Relaxed) != 0);
        for round in 0..100 {
            let reports = (hits.pause(), hits.resume());
            assert_eq!((reports.0.patched(), reports.1.patched()), (1, 1), "{round}: {reports:?}");
        }
        STOP.store(true, Ordering::Relaxed);
    });
    assert!(hits.total() > 0);
    assert_eq!(hits.detach().patched(), 1);
}

const ONE: [u8; 5] = [0xb8, 1, 0, 0, 0];
const TWO: [u8; 5] = [0xb8, 2, 0, 0, 0];

/// `mov eax, imm32; ret` across two words.
fn straddler(code: &mut Code) -> usize {
    code.place(62, &[&ONE[..], &[0xc3]].concat())
}

fn word() {
    let mut code = Code::new();
    let addr = straddler(&mut code);
    // SAFETY: one `mov` for another.
    let patch = |value: [u8; 5]| unsafe { word::patch(addr, value.into()) };
    patch(TWO).unwrap();
    block(libc::SIG_BLOCK);
    // The runtime trusts its last check for some milliseconds.
    let refused = loop {
        if let Err(error) = patch(ONE).and_then(|()| patch(TWO)) {
            break error.to_string();
        }
    };
    assert!(refused.starts_with(&format!("SIGTRAP: thread {} (", id())), "{refused}");
    assert!([ONE, TWO].map(Vec::from).contains(&code.bytes(addr, 5)));
    block(libc::SIG_UNBLOCK);
    patch(ONE).and_then(|()| patch(TWO)).unwrap();
}

/// Where `mprotect` is refused, `Alias` is named as long as nobody blocks the signal.
fn recommended() {
    deny(libc::SYS_mprotect, argument(2), RX.unsigned_abs(), RX.unsigned_abs());
    let alternative = || {
        let error = select("patching::trap_blocked::*").unwrap().attach(Count::new()).unwrap_err();
        let Error::Refused(report) = &error else { panic!("{error}") };
        assert_eq!(report.alternative().is_some(), error.to_string().contains("TextPolicy::Alias"));
        report.alternative()
    };
    assert_eq!(alternative(), Some(TextPolicy::Alias));
    block(libc::SIG_BLOCK);
    assert_eq!(alternative(), None);
    block(libc::SIG_UNBLOCK);
    assert_eq!(alternative(), Some(TextPolicy::Alias));
    assert_eq!(attach(&alias()).detach().patched(), 1);
}

fn silence() {
    let mut code = Code::new();
    let addr = straddler(&mut code);
    // As without `/proc`.
    deny(libc::SYS_openat, argument(2), 0, 0);
    // SAFETY: one `mov` for another.
    let error =
        unsafe { WordOptions::new().text_policy(TextPolicy::Open).patch(addr, TWO.into()) }.unwrap_err();
    let said =
        "SIGTRAP: which threads block SIGTRAP can't be read from /proc/self/task: Operation not permitted";
    assert!(error.to_string().starts_with(said), "{error}");
    assert_eq!(code.bytes(addr, 5), ONE);
}
