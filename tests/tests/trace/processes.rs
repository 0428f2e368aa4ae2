//! Signals in the middle of an event, forks, and processes that are killed.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use probe_runtime::{Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::random::Random;
use probe_tests::turn::turn;
use probe_tests::{scenario, whole};
use probe_trace::{Item, Trace as Read};

/// The program's own count, of hits outside of handlers and in them.
static CALLS: AtomicU64 = AtomicU64::new(0);

#[probe(args(x))]
#[inline(never)]
fn numbered(x: u64) -> u64 {
    CALLS.fetch_add(1, Ordering::Relaxed);
    black_box(x)
}

extern "C" fn handler(_signal: libc::c_int) {
    numbered(u64::MAX);
}

#[test]
fn hits_of_signal_handlers_are_written_or_lost() {
    let _turn = turn();
    let folder = Folder::new("trace-signals");
    let path = folder.join("signals.probetrace");
    numbered(0);
    let trace = select("**::processes::numbered").unwrap().attach(Trace::to_file(&path)).unwrap();
    // SAFETY: the handler does what a handler may.
    let result = unsafe { libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t) };
    assert_ne!(result, libc::SIG_ERR);
    let before = CALLS.load(Ordering::Relaxed);
    // SAFETY: of this thread.
    let this = unsafe { libc::pthread_self() };
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..2_000 {
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(this, libc::SIGUSR2) };
                thread::yield_now();
            }
        });
        (0..200_000).for_each(|x| _ = numbered(x));
    });
    let calls = CALLS.load(Ordering::Relaxed) - before;
    let totals = trace.finish().unwrap();
    assert_eq!(totals.written + totals.lost, 2 * calls, "{totals:?}");
    // The thread's own numbers are in order, whatever the handler did between them.
    let own = super::events(&path).into_iter().filter_map(|event| match event.fields[..] {
        [probe_trace::FieldValue::U64(number)] if number != u64::MAX => Some(number),
        _ => None,
    });
    let own: Vec<_> = own.collect();
    assert!(own.windows(2).all(|two| two[0] < two[1]));
}

#[test]
fn a_forked_child_has_a_copy_of_the_recorder() {
    let _turn = turn();
    let folder = Folder::new("trace-fork");
    let (parents, childs) = (folder.join("parent.probetrace"), folder.join("child.probetrace"));
    numbered(0);
    let trace = select("**::processes::numbered kind=entry").unwrap().attach(Trace::recorder()).unwrap();
    numbered(1);
    // SAFETY: the child takes no lock of another thread's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        numbered(2);
        let is_right = trace.snapshot(&childs).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = -1;
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    numbered(3);
    trace.snapshot(&parents).unwrap();
    let numbers = |path: &Path| -> Vec<String> {
        super::events(path).iter().map(|event| event.fields[0].to_string()).collect()
    };
    assert_eq!(
        (numbers(&parents), numbers(&childs)),
        (vec!["1".into(), "3".into()], vec!["1".into(), "2".into()])
    );
}

/// Hits until the process is killed.
pub fn hits_for_ever() {
    let path = std::env::var_os("TRACE_FILE").unwrap();
    numbered(0);
    let trace = Trace::to_file(path).ring_size(4096);
    let _trace = select("**::processes::numbered").unwrap().attach(trace).unwrap();
    for x in 1.. {
        numbered(x);
    }
}

#[test]
fn a_killed_process_leaves_a_readable_file() {
    let _turn = turn();
    let kills = if whole::is_asked_for() { 200 } else { 20 };
    let folder = Folder::new("trace-killed");
    let mut random = Random::new(0x7ace);
    for number in 0..kills {
        let path = folder.join(format!("{number}.probetrace"));
        let mut child =
            scenario::start("hits for ever").env("TRACE_FILE", &path).stdout(Stdio::null()).spawn().unwrap();
        // At some length of the file, which depends on no time.
        let length = 4096 + random.below(400_000);
        while fs::metadata(&path).map_or(0, |it| it.len()) < length {
            assert_eq!(child.try_wait().unwrap(), None, "it hits until it is killed");
            thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut trace = Read::open(&[&path]).unwrap();
        let mut last = 0;
        let mut events = 0;
        for item in trace.items() {
            let Item::Event(event) = item.unwrap() else { continue };
            events += 1;
            if let [probe_trace::FieldValue::U64(number)] = event.fields[..] {
                assert!(number > last, "{number} after {last}");
                last = number;
            }
        }
        assert!(length < 8192 || events > 0, "{length} bytes, and no event");
    }
}
