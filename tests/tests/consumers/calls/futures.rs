//! Futures: a call from the first poll to completion, each poll a part of it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;

use probe_runtime::calls::Unpaired;
use probe_runtime::probe;

use super::{NOW, Results, attach, spend, turn};

/// Suspends once; time passes until it is polled again.
async fn pause() {
    let mut is_second = false;
    poll_fn(|_| if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[probe]
async fn outer() {
    spend(1);
    inner().await;
    spend(2);
}

#[probe]
async fn inner() {
    spend(10);
    pause().await;
    leaf();
    pause().await;
    spend(20);
}

#[probe]
fn leaf() {
    spend(500);
}

/// Polls it once.
fn poll(future: Pin<&mut impl Future<Output = ()>>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_futures_polls_are_its_time_on_a_processor() {
    let _turn = turn();
    let exact = attach("consumers::calls::futures::*");
    let mut future = pin!(outer());
    let mut polls = 0;
    while !poll(future.as_mut()) {
        polls += 1;
        spend(10_000);
    }
    assert_eq!(polls, 2);
    let of = |name: &str| exact.of(&format!("consumers::calls::futures::{name}"));
    let outer = of("outer");
    assert_eq!((outer.calls, outer.total, outer.busy, outer.elapsed, outer.own), (1, 20_533, 533, 533, 3));
    let inner = of("inner");
    assert_eq!((inner.calls, inner.total, inner.busy, inner.own), (1, 20_530, 530, 30));
    assert_eq!((of("leaf").total, of("leaf").depth), (500, 3));
    exact.assert_all_paired();
}

#[test]
fn a_future_may_move_between_threads() {
    let _turn = turn();
    let exact = attach("consumers::calls::futures::*");
    // Each thread's clock says how far it is, and the next continues from there.
    let mut future = Box::pin(outer());
    let mut now = NOW.get();
    let mut is_ready = false;
    while !is_ready {
        (future, now, is_ready) = thread::spawn(move || {
            NOW.set(now);
            spend(1_000);
            let is_ready = poll(future.as_mut());
            (future, NOW.get(), is_ready)
        })
        .join()
        .unwrap();
    }
    let inner = exact.of("consumers::calls::futures::inner");
    assert_eq!((inner.calls, inner.total, inner.busy, inner.own), (1, 2_530, 530, 30));
    exact.assert_all_paired();
}

#[test]
fn a_future_that_is_dropped_was_cancelled() {
    let _turn = turn();
    let exact = attach("consumers::calls::futures::*");
    {
        let mut future = pin!(outer());
        assert!(!poll(future.as_mut()));
        let pending = exact.unpaired("consumers::calls::futures::outer");
        assert_eq!(pending, Unpaired { pending: 1, ..Unpaired::default() });
    }
    for name in ["outer", "inner"] {
        let path = format!("consumers::calls::futures::{name}");
        assert_eq!(exact.unpaired(&path), Unpaired { cancelled: 1, ..Unpaired::default() });
        assert_eq!(exact.of(&path).calls, 0);
    }
    assert_eq!(exact.of("consumers::calls::futures::inner").elapsed, 10);
}

#[test]
fn a_future_that_began_before_has_no_entry() {
    let _turn = turn();
    let mut future = pin!(outer());
    assert!(!poll(future.as_mut()));
    let exact = attach("consumers::calls::futures::*");
    while !poll(future.as_mut()) {}
    for name in ["outer", "inner"] {
        let path = format!("consumers::calls::futures::{name}");
        assert_eq!(exact.unpaired(&path), Unpaired { without_entry: 1, ..Unpaired::default() });
    }
    // Its polls were seen whole.
    let inner = exact.of("consumers::calls::futures::inner");
    assert_eq!((inner.calls, inner.elapsed, inner.own), (0, 520, 20));
}
