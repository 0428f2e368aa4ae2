//! Functions that the environment names join its attachments, without an operation of the program.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use probe_runtime::{
    Attachment, Consumer, Event, Format, ParseError, Rendered, Reporter, Setting, init_from_env, register,
};
use probe_tests::library::Library;

use super::{library, names};

/// Counts hits of probes that have joined.
struct Joined;

static HITS: AtomicU64 = AtomicU64::new(0);

impl Consumer for Joined {
    fn hit(&self, _: &Event<'_>) {
        HITS.fetch_add(1, Ordering::Relaxed);
    }
}

impl Reporter for Joined {
    const NAME: &'static str = "joined";
    const ABOUT: &'static str = "hits";

    fn from_settings(_: &[Setting<'_>]) -> Result<Self, ParseError> {
        Ok(Self)
    }

    fn report(_: &Attachment<Self>, _: Format) -> Rendered {
        "the report".to_owned().into()
    }
}

/// This thread makes no operation once the variable is read.
pub(super) fn promptly() {
    register::<Joined>().unwrap();
    let names = names("promptly");
    let path = library("promptly", 0, &names);
    let guard = init_from_env().unwrap();
    let library = Library::open(&path);
    let first = library.function("promptly000");
    while HITS.load(Ordering::Relaxed) == 0 {
        assert_eq!(first(1), 2);
        thread::yield_now();
    }
    drop(guard);
    let hits = HITS.load(Ordering::Relaxed);
    assert_eq!((first(1), HITS.load(Ordering::Relaxed)), (2, hits));
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
    let before = HITS.load(Ordering::Relaxed);
    while HITS.load(Ordering::Relaxed) == before {
        last(1);
        thread::yield_now();
    }
    drop(guard);
}
