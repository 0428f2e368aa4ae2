//! All guards of a process share one thread, which is there for as long as they are.

use std::env;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::Ordering;
use std::thread;

use libc::{SIGHUP, SIGINT, SIGTERM};
use probe_runtime::{EnvGuard, init_from_env};

use crate::folder::Folder;
use crate::signals::{THREADS, handler_of, threads, until};
use crate::{COUNT, stderr};

const ON_EACH: usize = 100;
const THREADS_WITH_GUARDS: usize = 4;

pub(crate) fn one_thread(guard: EnvGuard) {
    let is_asked = env::var("PROBES_SIGNALS").is_ok_and(|it| it.is_empty());
    let with = THREADS.load(Ordering::Relaxed) + usize::from(is_asked);
    assert_eq!(threads(), with);
    let second = init_from_env().unwrap();
    assert_eq!(threads(), with, "one for all");
    drop(guard);
    assert_eq!(threads(), with);
    drop(second);
    nothing_is_left();
}

pub(crate) fn many_threads(guard: EnvGuard) {
    drop(guard);
    thread::scope(|scope| {
        for _ in 0..THREADS_WITH_GUARDS {
            scope.spawn(|| (0..ON_EACH).for_each(|_| drop(init_from_env().unwrap())));
        }
    });
    nothing_is_left();
}

/// Closes all descriptors but for the standard ones; returns pipes that have got their numbers,
/// with something in each.
pub(crate) fn strangers() -> Vec<(PipeReader, PipeWriter)> {
    let limit = 64;
    for number in 3..limit {
        // SAFETY: closes descriptors without asking their owners, as some programs do.
        unsafe { libc::close(number) };
    }
    let stranger = || {
        let (from, mut to) = pipe().unwrap();
        to.write_all(b"theirs").unwrap();
        (from, to)
    };
    (0..limit / 4).map(|_| stranger()).collect()
}

pub(crate) fn is_as_it_was((mut from, to): (PipeReader, PipeWriter)) {
    drop(to);
    let mut all = String::new();
    from.read_to_string(&mut all).unwrap();
    assert_eq!(all, "theirs");
}

fn nothing_is_left() {
    until(|| threads() == THREADS.load(Ordering::Relaxed));
    assert_eq!([SIGHUP, SIGINT, SIGTERM].map(handler_of), [libc::SIG_DFL; 3]);
}

#[test]
fn there_is_a_thread_where_it_has_something_to_do() {
    for signals in ["", "none"] {
        let folder = Folder::new("threads");
        let output = folder.run_with("signal: threads", COUNT, "-", &[("PROBES_SIGNALS", signals)]);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn guards_come_and_go_on_many_threads() {
    let folder = Folder::new("guards");
    let output = folder.run("signal: guards", COUNT, "-");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stderr(&output).matches("kind").count(), 1 + THREADS_WITH_GUARDS * ON_EACH);
}
