//! `SIGTRAP` and other events while an instruction is being replaced: other handlers, breakpoints
//! of others, signals, fork. Each scenario is a child process, since its changes to signals can't
//! be undone.
#![cfg(not(probe_portable))]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, mem, ptr};

use probe_runtime::patch::word::{self, WordOptions, start_patch};
use probe_runtime::patch::{PatchError, TextPolicy};
use probe_tests::code::Code;
use probe_tests::processes;

const CHILD: &str = "PROBE_TEST_SCENARIO";
const ONE: [u8; 5] = [0xb8, 1, 0, 0, 0];
const TWO: [u8; 5] = [0xb8, 2, 0, 0, 0];

type Function = extern "C" fn() -> u32;

/// `mov eax, imm32; ret` across two cache lines.
fn straddler(code: &mut Code) -> (usize, Function) {
    let addr = code.place(62, &[&ONE[..], &[0xc3]].concat());
    // SAFETY: the code that was just written there.
    (addr, unsafe { mem::transmute::<usize, Function>(addr) })
}

/// `int3; ret`: a breakpoint of somebody else.
fn breakpoint(code: &mut Code) -> (usize, extern "C" fn()) {
    let addr = code.place(0, &[0xcc, 0xc3]);
    // SAFETY: the code that was just written there.
    (addr, unsafe { mem::transmute::<usize, extern "C" fn()>(addr) })
}

fn patch(addr: usize, value: [u8; 5]) -> Result<(), PatchError> {
    // SAFETY: one `mov` for another.
    unsafe { word::patch(addr, value.into()) }
}

fn handle(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: a whole action.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, ptr::null_mut()), 0);
    }
}

/// Seconds after which a child is taken to hang.
const LIMIT: libc::c_uint = 120;

/// Runs a scenario in a child; returns how it ended.
fn child(test: &str) -> Option<ExitStatus> {
    if env::var_os(CHILD).is_some() {
        // A child that continues for ever ends by this signal.
        // SAFETY: no pointers.
        unsafe { libc::alarm(LIMIT) };
        return None;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", &processes::test(test), "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .output()
        .unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Some(output.status)
}

static TRAPS: AtomicU64 = AtomicU64::new(0);
static TRAPPED_AT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn informed(_signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's own.
    unsafe {
        assert_eq!((*info).si_code, 0x80);
        let next = (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize];
        TRAPPED_AT.store(usize::try_from(next).unwrap() - 1, Ordering::SeqCst);
    }
    TRAPS.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn plain(signal: libc::c_int) {
    assert_eq!(signal, libc::SIGTRAP);
    TRAPS.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn who_had_the_signal_before_gets_what_is_not_ours() {
    if let Some(status) = child("who_had_the_signal_before_gets_what_is_not_ours") {
        return assert!(status.success(), "{status}");
    }
    handle(libc::SIGTRAP, informed as *const () as libc::sighandler_t, libc::SA_SIGINFO);
    let mut code = Code::new();
    let (at, stop) = breakpoint(&mut code);
    let (addr, call) = straddler(&mut code);
    patch(addr, TWO).unwrap();
    stop();
    assert_eq!((TRAPS.load(Ordering::SeqCst), TRAPPED_AT.load(Ordering::SeqCst)), (1, at));
    // SAFETY: one `mov` for another.
    let under_way = unsafe { start_patch(addr, ONE.into()) }.unwrap();
    assert_eq!(call(), 1);
    assert_eq!(TRAPS.load(Ordering::SeqCst), 1, "that one was ours");
    under_way.wait().unwrap();
    // A breakpoint on an instruction that was ours once.
    code.write(addr, 0xcc);
    // The handler continues behind the breakpoint: the rest of the bytes is `add [rax], eax; add
    // [rax], al`…
    assert!(matches!(patch(addr, TWO), Err(PatchError::Foreign { .. })));
    code.write(addr, 0xb8);
    assert_eq!(call(), 1);
}

#[test]
fn a_handler_without_information_is_called_too_and_once_if_it_asks_so() {
    if let Some(status) = child("a_handler_without_information_is_called_too_and_once_if_it_asks_so") {
        assert_eq!(status.signal(), Some(libc::SIGTRAP), "{status}");
        return;
    }
    handle(libc::SIGTRAP, plain as *const () as libc::sighandler_t, libc::SA_RESETHAND);
    let mut code = Code::new();
    let (addr, call) = straddler(&mut code);
    patch(addr, TWO).unwrap();
    assert_eq!(call(), 2);
    let (_, stop) = breakpoint(&mut code);
    stop();
    assert_eq!(TRAPS.load(Ordering::SeqCst), 1);
    stop();
    unreachable!("the second one has the default action");
}

#[test]
fn nobody_else_means_the_default_action() {
    if let Some(status) = child("nobody_else_means_the_default_action") {
        assert_eq!(status.signal(), Some(libc::SIGTRAP), "{status}");
        return;
    }
    let mut code = Code::new();
    let (addr, _) = straddler(&mut code);
    patch(addr, TWO).unwrap();
    let (_, stop) = breakpoint(&mut code);
    stop();
    unreachable!();
}

#[test]
fn what_is_ignored_stays_ignored_unless_the_processor_raises_it() {
    if let Some(status) = child("what_is_ignored_stays_ignored_unless_the_processor_raises_it") {
        assert_eq!(status.signal(), Some(libc::SIGTRAP), "{status}");
        return;
    }
    handle(libc::SIGTRAP, libc::SIG_IGN, 0);
    let mut code = Code::new();
    let (addr, call) = straddler(&mut code);
    patch(addr, TWO).unwrap();
    // SAFETY: raising a signal that is handled.
    assert_eq!(unsafe { libc::raise(libc::SIGTRAP) }, 0);
    assert_eq!(call(), 2);
    let (_, stop) = breakpoint(&mut code);
    stop();
    unreachable!();
}

#[test]
fn a_handler_on_top_of_ours_is_noticed() {
    if let Some(status) = child("a_handler_on_top_of_ours_is_noticed") {
        return assert!(status.success(), "{status}");
    }
    let mut code = Code::new();
    let (addr, call) = straddler(&mut code);
    patch(addr, TWO).unwrap();
    handle(libc::SIGTRAP, plain as *const () as libc::sighandler_t, 0);
    // The runtime trusts its last check for some milliseconds, in which patches continue.
    let mut last = TWO;
    let error = loop {
        let next = if last == TWO { ONE } else { TWO };
        match patch(addr, next) {
            Ok(()) => last = next,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, PatchError::Signal { .. }), "{error}");
    assert!(error.to_string().starts_with("SIGTRAP: another handler was installed over"), "{error}");
    assert_eq!(code.bytes(addr, 5), last);
    // Operations that need no trap work.
    let aligned = code.place(0, &ONE);
    patch(aligned, TWO).unwrap();
    assert_eq!(call(), u32::from(last[1]));
}

static CALLED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static FUNCTION: AtomicUsize = AtomicUsize::new(0);

extern "C" fn call_it(_signal: libc::c_int) {
    // SAFETY: a function of this test.
    let call = unsafe { mem::transmute::<usize, Function>(FUNCTION.load(Ordering::SeqCst)) };
    CALLED[usize::try_from(call()).unwrap().min(2)].fetch_add(1, Ordering::SeqCst);
}

/// A signal handler executes the instruction that the thread it interrupts is replacing.
#[test]
fn a_patcher_that_is_interrupted_by_an_executor_goes_on() {
    if let Some(status) = child("a_patcher_that_is_interrupted_by_an_executor_goes_on") {
        return assert!(status.success(), "{status}");
    }
    let mut code = Code::new();
    let (addr, call) = straddler(&mut code);
    FUNCTION.store(call as usize, Ordering::SeqCst);
    patch(addr, TWO).unwrap();
    handle(libc::SIGALRM, call_it as *const () as libc::sighandler_t, libc::SA_RESTART);
    let often = libc::timeval { tv_sec: 0, tv_usec: 50 };
    let timer = libc::itimerval { it_interval: often, it_value: often };
    // SAFETY: a whole timer.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) }, 0);
    let until = Instant::now() + Duration::from_secs(1);
    let mut patches = 0_u64;
    while Instant::now() < until || CALLED[1].load(Ordering::SeqCst) == 0 || word::traps() == 0 {
        for value in [ONE, TWO] {
            patch(addr, value).unwrap();
            patches += 1;
        }
    }
    // SAFETY: no signal after this.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_IGN) };
    let called: Vec<_> = CALLED.iter().map(|called| called.load(Ordering::SeqCst)).collect();
    println!("{patches} patches, {called:?} calls, {} traps", word::traps());
    assert_eq!(called[0], 0);
    assert!(called[1] > 0 && called[2] > 0, "{called:?}");
    assert_eq!(code.bytes(addr, 5), TWO);
    // The last signal may have reached the harness's thread, which executes it yet.
    mem::forget(code);
}

/// A program closes all descriptors, and gets their numbers again for files of its own: patches
/// under way, which the kernel was writing for, continue by a descriptor of their own, and nobody's
/// file is written to.
#[test]
fn a_closed_descriptor_is_not_missed() {
    if let Some(status) = child("a_closed_descriptor_is_not_missed") {
        return assert!(status.success(), "{status}");
    }
    let mut code = Code::new();
    let (addr, call) = straddler(&mut code);
    for is_reused in [false, true] {
        let value = if is_reused { ONE } else { TWO };
        // SAFETY: one `mov` for another.
        let patch =
            unsafe { WordOptions::new().text_policy(TextPolicy::Alias).start(addr, value.into()) }.unwrap();
        // SAFETY: nobody needs those above the standard ones.
        assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }, 0);
        let files: Vec<_> =
            (0..8).filter(|_| is_reused).map(|_| std::fs::File::create("/dev/null").unwrap()).collect();
        assert_eq!(call(), u32::from(value[1]));
        patch.wait().unwrap();
        assert_eq!(code.bytes(addr, 5), value);
        // The patch has closed its descriptor's number, which may be one of these.
        files.into_iter().for_each(mem::forget);
    }
}

#[test]
fn the_child_of_a_fork_finds_every_instruction_whole() {
    if let Some(status) = child("the_child_of_a_fork_finds_every_instruction_whole") {
        return assert!(status.success(), "{status}");
    }
    let mut code = Code::new();
    for text in [TextPolicy::Sealed, TextPolicy::Alias] {
        fork_under_way(&mut code, text);
    }
}

fn fork_under_way(code: &mut Code, text: TextPolicy) {
    let functions: Vec<_> = (0..3).map(|_| straddler(code)).collect();
    let start = |at: usize| {
        // SAFETY: one `mov` for another.
        unsafe { WordOptions::new().text_policy(text).start(functions[at].0, TWO.into()) }.unwrap()
    };
    // Each as far as it can be: locked, and with the rest written.
    let (mut locked, mut written) = (start(0), start(1));
    assert!(!written.finish());
    assert_eq!(code.bytes(functions[0].0, 5), [0xcc, 1, 0, 0, 0]);
    assert_eq!(code.bytes(functions[1].0, 5), [0xcc, 2, 0, 0, 0]);
    // SAFETY: the child does what a child may, then leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_whole = functions[..2].iter().all(|(addr, _)| code.bytes(*addr, 5) == TWO);
        let is_same = code.bytes(functions[2].0, 5) == ONE && functions[2].1() == 1;
        let is_over = locked.finish() && written.finish();
        let again = patch(functions[0].0, ONE).is_ok() && functions[0].1() == 1;
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!(is_whole && is_same && is_over && again))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    // The parent's are where they were.
    assert_eq!(code.bytes(functions[0].0, 5), [0xcc, 1, 0, 0, 0]);
    assert!(!locked.finish() && locked.finish());
    assert!(written.finish());
    assert_eq!(functions.iter().map(|(_, call)| call()).collect::<Vec<_>>(), [2, 2, 1]);
}
