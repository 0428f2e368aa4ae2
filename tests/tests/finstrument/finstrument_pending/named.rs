//! Functions that the environment names join its attachments, without an operation of the program.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use probe_runtime::init_from_env;
use probe_runtime::spec::register;
use probe_tests::joined::Joined;
use probe_tests::library::Library;

use super::{library, names};

/// This thread makes no operation once the variable is read.
pub(super) fn promptly() {
    register::<Joined>().unwrap();
    let names = names("promptly");
    let path = library("promptly", 0, &names);
    let guard = init_from_env().unwrap();
    let library = Library::open(&path);
    let first = library.function("promptly000");
    while Joined::hits() == 0 {
        assert_eq!(first(1), 2);
        thread::yield_now();
    }
    drop(guard);
    let hits = Joined::hits();
    assert_eq!((first(1), Joined::hits()), (2, hits));
}

/// Another thread finds functions while the thread starts that lets them join. No operation
/// follows.
pub(super) fn start() {
    register::<Joined>().unwrap();
    let names = names("start");
    let library = Library::open(&library("start", 0, &names));
    let (is_started, called) = (AtomicBool::new(false), AtomicUsize::new(0));
    let guard = thread::scope(|scope| {
        let calling = scope.spawn(|| {
            for name in names.iter().take_while(|_| !is_started.load(Ordering::SeqCst)) {
                library.function(name)(1);
                called.fetch_add(1, Ordering::SeqCst);
            }
        });
        while called.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        let guard = init_from_env().unwrap();
        is_started.store(true, Ordering::SeqCst);
        calling.join().unwrap();
        guard
    });
    let last = library.function(&names[called.load(Ordering::SeqCst) - 1]);
    let before = Joined::hits();
    while Joined::hits() == before {
        last(1);
        thread::yield_now();
    }
    drop(guard);
}
