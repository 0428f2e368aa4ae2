//! A recorder of all hits, for tests of probed futures: one of the whole program.

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{LazyLock, Mutex};
use std::task::{Context, Poll, Waker};

use probe_runtime::{Attachment, Consumer, Event, Kind, select};

thread_local! {
    static SEEN: RefCell<Vec<Hit>> = const { RefCell::new(Vec::new()) };
}

/// A hit's name, and the address of its future.
pub type Hit = (String, Option<usize>);

/// Returns the prefix of the function's name for a kind of hit.
pub fn sign(kind: Kind) -> &'static str {
    match kind {
        Kind::Entry => "+",
        Kind::Exit => "-",
        Kind::Drop => "~",
        Kind::Suspend => "<",
        Kind::Resume => ">",
        _ => "",
    }
}

/// Writes down each hit of the thread that made it.
struct Recorder;

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let name = event.path().splitn(3, "::").last().expect("a crate, a file and a name");
        let sign = sign(event.kind());
        let unwinding = if event.is_unwinding() { "!" } else { "" };
        SEEN.with_borrow_mut(|seen| seen.push((format!("{sign}{name}{unwinding}"), event.future())));
    }
}

static RECORDER: LazyLock<Mutex<Attachment<Recorder>>> = LazyLock::new(|| {
    Mutex::new(select("**").expect("there are probes").attach(Recorder).expect("all of them"))
});

/// Returns the hits that `body` makes on this thread, and its result.
///
/// # Panics
/// If the recorder can't be attached to all of the program's probes.
pub fn hits<T>(body: impl FnOnce() -> T) -> (T, Vec<Hit>) {
    LazyLock::force(&RECORDER);
    SEEN.take();
    let result = body();
    (result, SEEN.take())
}

/// The hits' names, in a line: `+` entry, `-` exit, `~` drop, `<` suspension, `>` resumption, `!`
/// while a panic unwinds.
#[must_use]
pub fn names(hits: &[Hit]) -> String {
    hits.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Polls until the result is there.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
}

/// Asserts a future's result and its hits, written as [words](names), and that all but points carry
/// its address.
///
/// # Panics
/// If not.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "shorter to call")]
pub fn check<F: Future>(future: F, result: F::Output, expected: &str)
where
    F::Output: PartialEq + Debug,
{
    let (found, seen) = hits(|| block_on(future));
    assert_eq!(found, result);
    assert_eq!(names(&seen), expected);
    let addresses: Vec<_> = seen.iter().filter_map(|(_, at)| *at).collect();
    let points = seen.iter().filter(|(name, _)| !name.starts_with(['+', '-', '~', '<', '>'])).count();
    assert_eq!(addresses.len(), seen.len() - points);
    assert!(addresses.iter().all(|at| *at == addresses[0]), "{seen:?}");
}

/// Suspends once.
pub async fn pause() {
    let mut is_second = false;
    poll_fn(|_| if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}
