//! Callers and stacks of functions in Rust, with and without fields, in each build.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc;
use std::{ptr, thread};

use probe_runtime::aggregate::{Group, Groups};
use probe_runtime::{Aggregate, Attachment, point, probe, select};
use probe_tests::sandbox;
use probe_tests::turn::turn;

#[probe]
#[inline(never)]
fn plain(n: u64) {
    black_box(n);
}

#[probe(args(*), ret)]
#[inline(never)]
fn with_fields(a: u64, b: &str, c: u64) -> u64 {
    black_box(a + c + b.len() as u64)
}

#[inline(never)]
fn with_point(n: u64) -> u64 {
    let twice = black_box(n * 2);
    point!("callers_point", n, twice);
    black_box(twice)
}

/// A caller that has a frame of its own, with something to do after its calls.
macro_rules! caller {
    ($name:ident) => {
        #[inline(never)]
        fn $name(n: u64) {
            plain(n);
            black_box(with_fields(n, "text", n));
            black_box(with_point(n));
        }
    };
}

caller!(first);
caller!(second);

#[inline(never)]
fn recursive(n: u64) {
    if n == 0 {
        first(n);
    } else {
        recursive(n - 1);
    }
    black_box(n);
}

fn play() {
    (0..3).for_each(first);
    (0..5).for_each(second);
    recursive(4);
}

fn attach(function: &str, text: &str) -> Attachment<Aggregate> {
    select(&format!("**::callers::{function}")).unwrap().attach(Aggregate::new(text).unwrap()).unwrap()
}

/// Returns the last part of each caller's path, and its hits.
fn tally(groups: &Groups) -> Vec<(&str, u64)> {
    let part = |group| Group::keys(group)[0].rsplit("::").next().unwrap();
    let mut tally: Vec<_> = groups.iter().map(|it| (part(it), it.count())).collect();
    tally.sort_unstable();
    tally
}

#[test]
fn callers_of_functions_and_points() {
    let _turn = turn();
    let expected = [("first", 4), ("second", 5)];
    for (function, texts) in [
        ("plain", &["count by(caller)", "latency by(caller)"][..]),
        ("with_fields", &["count by(caller)", "latency by(caller)", "sum(a) by(caller)"]),
    ] {
        for text in texts {
            let callers = attach(function, text);
            play();
            assert_eq!(tally(&callers.groups()), expected, "{function} {text}");
        }
    }
    // The exit alone, which the guard has.
    let alone = attach("plain kind=exit", "count by(caller, stack)");
    play();
    assert_eq!(alone.groups()[0].keys(), ["(absent)"; 2]);
    let callers = attach("callers_point", "count by(caller)");
    play();
    assert_eq!(tally(&callers.groups()), expected);
    let both = attach("with_fields", "count by(caller, b, ret)");
    first(1);
    let groups = both.groups();
    assert_eq!((groups.len(), &groups[0].keys()[1..]), (1, &["text".to_owned(), "6".to_owned()][..]));
}

/// The program's stacks are longer than those that are kept.
#[test]
fn stacks_of_functions() {
    let _turn = turn();
    let stacks = attach("plain", "count by(stack)");
    play();
    let groups = stacks.groups();
    assert_eq!(groups.notes(), [""; 0]);
    let calls = |stack: &str| {
        let is_it = |group: &&Group| {
            let names: Vec<_> =
                group.keys()[0].split(';').map(|it| it.rsplit("::").next().unwrap()).collect();
            names.join(";").contains(stack)
        };
        groups.iter().filter(is_it).map(Group::count).sum::<u64>()
    };
    assert_eq!([calls("first"), calls("second"), calls("recursive;recursive;recursive;first")], [4, 5, 1]);
    let folded = groups.to_folded();
    assert!(folded.lines().all(|line| line.rsplit_once(' ').unwrap().0.ends_with("::plain")), "{folded}");
}

#[test]
fn threads_begin_their_stacks() {
    let _turn = turn();
    let stacks = attach("plain", "count by(stack)");
    let mut threads = Vec::new();
    threads.resize_with(4, || thread::spawn(|| (0..1000).for_each(first)));
    threads.into_iter().for_each(|it| it.join().unwrap());
    let groups = stacks.groups();
    assert_eq!(groups.iter().map(Group::count).sum::<u64>(), 4000);
    assert!(groups.iter().all(|it| !it.keys()[0].contains("(unknown)")), "{groups}");
}

/// A frame of most of a page.
#[inline(never)]
fn large(n: u64) {
    let frame = black_box([n; 400]);
    if n == 0 {
        first(frame[0]);
    } else {
        large(frame[1] - 1);
    }
    black_box(frame);
}

/// Then reads of the stack that may fault are none, and the pages were read at the first hit.
#[test]
fn walks_make_no_system_calls_where_a_thread_blocks_faults() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);

    let _turn = turn();
    let (blocked, is_blocked) = mpsc::channel();
    let (attached, is_attached) = mpsc::channel();
    thread::spawn(move || {
        let signals = 1_u64 << (libc::SIGSEGV - 1);
        let none = ptr::null_mut::<u64>();
        // SAFETY: a mask of 8 bytes, for this thread.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const signals, none, 8) };
        blocked.send(()).unwrap();
        is_attached.recv().unwrap();
        large(5);
        sandbox::allow_only_the_threads_end();
        large(5);
        IS_DONE.store(true, Release);
        sandbox::end_thread();
    });
    is_blocked.recv().unwrap();
    let [callers, stacks] = ["count by(caller)", "count by(stack)"].map(|text| attach("plain", text));
    attached.send(()).unwrap();
    while !IS_DONE.load(Acquire) {
        thread::yield_now();
    }
    assert_eq!(tally(&callers.groups()), [("first", 2)]);
    let groups = stacks.groups();
    let names: Vec<_> =
        groups[0].keys()[0].split(';').rev().map(|it| it.rsplit("::").next().unwrap()).collect();
    assert_eq!((groups.len(), groups[0].count()), (1, 2), "{groups}");
    assert_eq!(names[..7], ["first", "large", "large", "large", "large", "large", "large"]);
}

/// A program may have fields of these names.
#[test]
fn fields_come_first() {
    #[probe(args(caller, stack = 7))]
    fn named(caller: &str) {
        black_box(caller);
    }

    let _turn = turn();
    let groups = attach("named", "count by(caller, stack)");
    named("a field");
    assert_eq!(groups.groups()[0].keys(), ["a field", "7"]);
}

/// Also where the exit alone has one, or another probe.
#[test]
fn fields_of_any_probe_come_first() {
    #[probe(ret(caller = 2 * ret))]
    fn callers_named_late(n: u64) -> u64 {
        black_box(n)
    }

    #[probe(args(stack))]
    fn callers_named_stack(stack: u64) {
        black_box(stack);
    }

    #[probe(args(n))]
    fn callers_named_nothing(n: u64) {
        black_box(n);
    }

    let _turn = turn();
    let groups = attach("**::callers_named_late", "count by(caller)");
    let both = attach("**::callers_named_*", "count by(stack)");
    callers_named_late(3);
    callers_named_stack(5);
    callers_named_nothing(7);
    let keys = |groups: &Attachment<Aggregate>| {
        groups.groups().iter().map(|it| (it.keys().to_vec(), it.count())).collect::<Vec<_>>()
    };
    assert_eq!(keys(&groups), [(vec!["6".to_owned()], 1)]);
    assert_eq!(keys(&both), [(vec!["5".to_owned()], 1)]);
    let left_out =
        "consumers::callers::callers_named_late and 1 others are left out: it has no field `stack`";
    assert_eq!(both.groups().notes(), [left_out]);
}

#[probe(args(first = bytes[0], bytes))]
#[inline(never)]
fn may_panic(bytes: &[u8]) {
    black_box(bytes);
}

#[inline(never)]
fn third(bytes: &[u8]) {
    may_panic(bytes);
    black_box(bytes);
}

/// A function that the probe's own function calls makes the hit.
#[test]
fn callers_where_a_field_panics() {
    let _turn = turn();
    for text in ["count by(caller)", "count by(stack)"] {
        let callers = attach("may_panic kind=entry", text);
        third(&[]);
        third(&[1]);
        assert_eq!(tally(&callers.groups()), [("third", 2)], "{text}: {}", callers.groups());
    }
}

#[test]
fn a_group_is_one_line_of_folded_stacks() {
    #[probe(args(text))]
    fn callers_folded(text: &str) {
        black_box(text);
    }

    let _turn = turn();
    let groups = attach("**::callers_folded", "count by(text)");
    callers_folded("a\nb;c\td");
    assert_eq!(groups.groups().to_folded(), "a:b:c:d;consumers::callers::callers_folded 1\n");
}

#[test]
fn callers_are_keys_alone() {
    for text in ["sum(caller)", "count by(caller == 1)", "count by(len(stack))"] {
        let aggregate = Aggregate::new(text).unwrap();
        let error = select("**::callers::plain").unwrap().attach(aggregate).err().unwrap().to_string();
        assert!(error.contains("is a key of its own: `count by("), "{text}: {error}");
    }
}
