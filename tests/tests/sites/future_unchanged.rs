//! A probe does not change a future's size, its traits, or the drop of its arguments.

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::{Future, poll_fn, ready};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use probe_runtime::{Count, Kind, point, probe, select};

thread_local! {
    static DROPPED: RefCell<String> = const { RefCell::new(String::new()) };
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = poll(future.as_mut()) {
            return result;
        }
    }
}

/// Suspends once.
async fn pause() {
    let mut is_second = false;
    poll_fn(|_| if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Tells of its drop.
struct Dropped(&'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push_str(self.0));
    }
}

macro_rules! drops {
    ($($probe:meta)?) => {
        $(#[$probe])?
        #[expect(unused_variables, reason = "they are dropped nevertheless")]
        async fn drops(a: Dropped, (b, _): (Dropped, Dropped), _: Dropped, e: Dropped) {
            let local = Dropped("l");
            pause().await;
            drop(e);
        }

        /// Not an `async` block: its arguments are dropped when it returns.
        $(#[$probe])?
        #[expect(unused_variables, reason = "they are dropped nevertheless")]
        pub(super) fn calls(a: Dropped, b: Dropped, (c, d): (Dropped, Dropped)) -> impl Future<Output = ()> {
            let _ = (a.0.len(), &b, &c);
            let local = Dropped("l");
            ready(())
        }

        /// Where it ends early, one argument has been dropped already.
        $(#[$probe])?
        pub(super) fn gives_up(a: Dropped, b: (Dropped, Dropped)) -> impl Future<Output = usize> {
            if b.1.0 == "e" {
                drop(a);
                return ready(0);
            }
            ready(a.0.len())
        }
    };
}

mod plain {
    use super::*;
    drops!();
    pub(super) async fn all() {
        drops(Dropped("a"), (Dropped("b"), Dropped("c")), Dropped("d"), Dropped("e")).await;
    }
}

mod probed {
    use super::*;
    drops!(probe);
    pub(super) async fn all() {
        drops(Dropped("a"), (Dropped("b"), Dropped("c")), Dropped("d"), Dropped("e")).await;
    }
}

#[test]
fn arguments_are_dropped_as_before() {
    block_on(plain::all());
    let expected = DROPPED.take();
    assert_eq!(expected.len(), 6);
    block_on(probed::all());
    assert_eq!(DROPPED.take(), expected);
    for future in [Box::pin(plain::all()) as Pin<Box<dyn Future<Output = ()>>>, Box::pin(probed::all())] {
        let mut future = future;
        assert!(poll(future.as_mut()).is_pending());
        drop(future);
        DROPPED.with_borrow_mut(|dropped| dropped.push(' '));
    }
    let dropped = DROPPED.take();
    let cancelled: Vec<_> = dropped.split_whitespace().collect();
    assert_eq!(cancelled[0], cancelled[1]);
}

#[test]
fn arguments_of_calls_are_dropped_as_before() {
    drop(plain::calls(Dropped("a"), Dropped("b"), (Dropped("c"), Dropped("d"))));
    let expected = DROPPED.take();
    assert_eq!(expected, "ldcba");
    drop(probed::calls(Dropped("a"), Dropped("b"), (Dropped("c"), Dropped("d"))));
    assert_eq!(DROPPED.take(), expected);
    for last in ["e", "f"] {
        drop(plain::gives_up(Dropped("a"), (Dropped("b"), Dropped(last))));
        let expected = DROPPED.take();
        drop(probed::gives_up(Dropped("a"), (Dropped("b"), Dropped(last))));
        assert_eq!(DROPPED.take(), expected);
    }
}

/// The same future, with and without probes.
macro_rules! sized {
    ($($probe:meta)?) => {
        $(#[$probe])?
        async fn tiny() {}

        $(#[$probe])?
        async fn arguments(text: String, _: [u64; 4]) -> usize {
            pause().await;
            text.len()
        }

        $(#[$probe])?
        async fn buffers(text: &str, n: u8) -> usize {
            let mut buffer = [n; 1000];
            pause().await;
            buffer[0] = 1;
            arguments(text.to_owned(), [0; 4]).await + buffer.len()
        }

        $(#[$probe])?
        async fn generic<T: Clone + Debug>(it: T) -> (T, T) {
            pause().await;
            (it.clone(), it)
        }

        $(#[$probe])?
        fn block(n: u16) -> impl Future<Output = u16> {
            async move {
                pause().await;
                n
            }
        }

        pub(super) fn sizes() -> Vec<(usize, usize)> {
            fn size<F>(future: F) -> (usize, usize) {
                (size_of_val(&future), align_of_val(&future))
            }
            let arguments = size(arguments(String::new(), [0; 4]));
            vec![size(tiny()), arguments, size(buffers("", 0)), size(generic(1_u128)), size(generic(())), size(block(1))]
        }
    };
}

mod plain_sizes {
    use super::*;
    sized!();
}

mod probed_sizes {
    use super::*;
    sized!(probe);
}

#[test]
fn nothing_is_added_to_the_size() {
    assert_eq!(plain_sizes::sizes(), probed_sizes::sizes());
}

#[probe]
fn cloned() -> impl Future<Output = u32> + Clone + Unpin {
    ready(3)
}

#[probe]
async fn sent() {
    pause().await;
}

#[probe]
async fn sent_when_ready() -> u32 {
    ready(1).await
}

#[test]
fn traits() {
    fn is_send(_: &(impl Send + Sync)) {}
    fn is_unwind_safe(_: &(impl UnwindSafe + RefUnwindSafe)) {}
    is_send(&sent());
    is_send(&cloned());
    is_send(&point!("sent::block", async { pause().await }));
    is_unwind_safe(&sent_when_ready());
    is_unwind_safe(&cloned());
}

/// Suspends at its first poll.
#[probe]
fn paused() -> impl Future<Output = u32> + Clone + Unpin {
    #[derive(Clone)]
    struct Paused(u32);

    impl Future for Paused {
        type Output = u32;

        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
            self.0 += 1;
            if self.0 == 1 { Poll::Pending } else { Poll::Ready(self.0) }
        }
    }

    Paused(0)
}

/// Asserts how many entries, exits, drops, suspensions and resumptions a future's probes count
/// while `body` runs.
#[track_caller]
fn counted(name: &str, body: impl FnOnce(), expected: [u64; 5]) {
    let attachment = select(name).unwrap().attach(Count::new()).unwrap();
    body();
    let counts = attachment.counts();
    let hits = [Kind::Entry, Kind::Exit, Kind::Drop, Kind::Suspend, Kind::Resume]
        .map(|kind| counts.hits(name, kind).unwrap());
    assert_eq!(hits, expected);
}

#[test]
fn clones_are_futures_of_their_own() {
    let body = || {
        let first = cloned();
        let second = first.clone();
        assert_eq!((block_on(first), block_on(second.clone()), block_on(second)), (3, 3, 3));
    };
    counted("sites::future_unchanged::cloned", body, [3, 3, 0, 0, 0]);
}

#[test]
fn clones_of_begun_and_ended_futures_are_entered() {
    let name = "sites::future_unchanged::paused";
    let mut first = paused();
    let begin = || assert!(poll(Pin::new(&mut first)).is_pending());
    counted(name, begin, [1, 0, 0, 1, 0]);
    counted(name, || drop(first.clone()), [0; 5]);
    let mut second = first.clone();
    counted(name, || assert_eq!(poll(Pin::new(&mut second)), Poll::Ready(2)), [1, 1, 0, 0, 0]);
    counted(name, || assert_eq!(poll(Pin::new(&mut second.clone())), Poll::Ready(3)), [1, 1, 0, 0, 0]);
    counted(name, || drop((first, second)), [0, 0, 1, 0, 0]);
}
