//! Processes that end, or become another program, in the middle of toggles and hits: by `exit` on
//! any thread, by a return from `main`, `_exit`, abort and exec. They end, and with the right
//! status; whatever runs while they do (`atexit` functions, static and thread-local destructors)
//! may hit, attach and detach.
//! Each round is a process of its own.
#![cfg(target_os = "linux")]

use std::cell::RefCell;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::{Attachment, Consumer, Count, Event, probe, select};
use probe_tests::random::Random;
use probe_tests::scenario::{self, said};

#[probe]
#[inline(never)]
fn work(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

#[probe]
#[inline(never)]
fn at_the_end(x: u64) -> u64 {
    std::hint::black_box(x) * 3
}

const ROUNDS: u64 = 12;

fn rounds(ending: &str, check: impl Fn(&Output)) {
    for seed in 0..ROUNDS {
        let output = scenario::play(&format!("{ending} {seed}"), &[]);
        println!("{ending} {seed}: {}", output.status);
        check(&output);
    }
}

/// The functions that run at an orderly end have run, each to its own end.
fn ended_in_order(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    for what in ["atexit", "destructor"] {
        assert!(said(output).contains(&format!("{what} is done")), "no {what}: {}", said(output));
    }
}

#[test]
fn exit_on_the_main_thread() {
    rounds("exit", |output| ended_in_order(output, 7));
}

#[test]
fn exit_on_another_thread() {
    rounds("exit-elsewhere", |output| ended_in_order(output, 8));
}

#[test]
fn return_from_main() {
    rounds("return", |output| ended_in_order(output, 0));
}

#[test]
fn exit_without_destructors() {
    rounds("_exit", |output| assert_eq!(output.status.code(), Some(9), "{}", said(output)));
}

#[test]
fn abort() {
    rounds("abort", |output| assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", said(output)));
}

#[test]
fn exec() {
    rounds("exec", |output| assert_eq!(output.status.code(), Some(10), "{}", said(output)));
}

#[test]
fn exec_on_another_thread() {
    rounds("exec-elsewhere", |output| assert_eq!(output.status.code(), Some(10), "{}", said(output)));
}

/// Other programs are started, too, by `posix_spawn` or by a fork and an exec, and end as they
/// should.
#[test]
fn spawn() {
    rounds("spawn", |output| ended_in_order(output, 0));
}

#[derive(Default)]
struct Yields;

impl Consumer for Yields {
    fn hit(&self, _event: &Event<'_>) {
        thread::yield_now();
    }
}

/// Attaches, hits and detaches, and is exact about it.
fn count_at_the_end(what: &str) {
    let hits = select("life::life_exit::at_the_end").unwrap().attach(Count::new()).unwrap();
    assert_eq!(at_the_end(2), 6);
    // Destructors of threads may count, too.
    assert!(hits.total() >= 2);
    assert_eq!((hits.pause().refused(), hits.resume().refused()), (0, 0));
    assert_eq!(hits.detach().refused(), 0);
    // `println` may be gone already.
    let text = format!("{what} is done\n");
    // SAFETY: the bytes of a string.
    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
}

extern "C" fn at_exit() {
    count_at_the_end("atexit");
}

/// Of the process: it has this in its file.
extern "C" fn destructor() {
    if ARMED.load(Ordering::Relaxed) {
        count_at_the_end("destructor");
    }
}

static ARMED: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

/// Of a thread: detaches when the thread ends.
struct AtThreadEnd(Option<Attachment<Count>>);

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        at_the_end(1);
        if let Some(attachment) = self.0.take() {
            assert_eq!(attachment.detach().refused(), 0);
        }
    }
}

thread_local! {
    static AT_THREAD_END: RefCell<Option<AtThreadEnd>> = const { RefCell::new(None) };
}

fn detach_at_thread_end() {
    let attachment = select("**").unwrap().attach(Count::new()).unwrap();
    AT_THREAD_END.set(Some(AtThreadEnd(Some(attachment))));
}

/// Threads that never end by themselves.
fn start_threads(seed: u64) {
    for _ in 0..2 {
        thread::spawn(|| {
            detach_at_thread_end();
            loop {
                work(1);
            }
        });
    }
    for at in 0..2 {
        thread::spawn(move || {
            let mut random = Random::new(seed * 2 + at);
            loop {
                toggle(&mut random);
            }
        });
    }
}

fn toggle(random: &mut Random) {
    let text = [TextPolicy::Sealed, TextPolicy::Open][usize::from(random.below(2) == 0)];
    let visibility = [Visibility::Synchronous, Visibility::Eventual][usize::from(random.below(2) == 0)];
    let set = select("life::life_exit::work").unwrap().text_policy(text).visibility(visibility);
    if random.below(2) == 0 {
        let hits = set.attach(Yields).unwrap();
        assert_eq!(hits.detach().refused(), 0);
    } else {
        let hits = set.attach(Count::new()).unwrap();
        for _ in 0..random.below(20) {
            assert_eq!(hits.pause().refused() + hits.resume().refused(), 0);
        }
    }
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    let (ending, seed) = asked.split_once(' ').unwrap();
    let seed = seed.parse().unwrap();
    ARMED.store(true, Ordering::Relaxed);
    // SAFETY: a function.
    assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
    detach_at_thread_end();
    start_threads(seed);
    thread::sleep(Duration::from_micros(Random::new(seed).below(20_000)));
    match ending {
        "exit" => process::exit(7),
        "exit-elsewhere" => elsewhere(|| process::exit(8)),
        "return" => {}
        // SAFETY: ends this process at once.
        "_exit" => unsafe { libc::_exit(9) },
        "abort" => process::abort(),
        "exec" => become_another(),
        "exec-elsewhere" => elsewhere(become_another),
        "spawn" => {
            for code in 0..20 {
                let status = Command::new("/bin/sh").args(["-c", &format!("exit {code}")]).status().unwrap();
                assert_eq!(status.code(), Some(code));
            }
        }
        other => panic!("no scenario {other}"),
    }
}

fn elsewhere(end: impl FnOnce() + Send + 'static) {
    let ended = thread::spawn(end).join();
    unreachable!("{ended:?}");
}

fn become_another() {
    let error = Command::new("/bin/sh").args(["-c", "exit 10"]).exec();
    panic!("{error}");
}
