//! Probes of functions that return a future without being `async`, and of those that other macros
//! rewrite: hit as an `async fn` is. A process of its own: its tests share one recorder, which
//! listens to all of this program's probes (`probe_tests::futures`).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use probe_runtime::probe;
use probe_tests::futures::{block_on, check, hits, names, pause};

#[probe]
fn block(n: u32) -> impl Future<Output = u32> + Send {
    let m = n + 1;
    async move {
        pause().await;
        m
    }
}

#[probe]
fn any(n: Option<u32>) -> impl Future<Output = u32> {
    let Some(n) = n else {
        return std::future::ready(0);
    };
    std::future::ready(n)
}

#[probe]
fn polled(mut left: u32) -> impl Future<Output = ()> {
    poll_fn(move |_| {
        left -= 1;
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
}

#[probe]
fn pinned(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    let m = n + 1;
    Box::pin(async move {
        pause().await;
        m
    })
}

fn later(n: u32) -> Pin<Box<dyn Future<Output = u32>>> {
    Box::pin(std::future::ready(n))
}

/// The macro can't inspect the returned value, so it probes the call.
#[probe]
fn opaque() -> Pin<Box<dyn Future<Output = u32>>> {
    later(1)
}

#[test]
fn functions_that_return_a_future() {
    check(block(1), 2, "+block <block >block -block");
    check(any(None), 0, "+any -any");
    check(any(Some(3)), 3, "+any -any");
    check(polled(3), (), "+polled <polled >polled <polled >polled -polled");
    check(pinned(1), 2, "+pinned <pinned >pinned -pinned");
    let (future, seen) = hits(opaque);
    assert_eq!(names(&seen), "+opaque -opaque");
    assert_eq!(seen[0].1, None);
    assert_eq!(block_on(future), 1);
    let ((), seen) = hits(|| {
        drop(polled(2));
        let mut polled = pin!(polled(2));
        assert!(polled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    assert_eq!(names(&seen), "+polled <polled ~polled");
}

struct Shop;

#[async_trait::async_trait]
trait Old {
    async fn old(&self, n: u32) -> u32;
}

#[async_trait::async_trait]
impl Old for Shop {
    #[probe]
    async fn old(&self, n: u32) -> u32 {
        pause().await;
        n + 1
    }
}

#[test]
fn async_trait_methods() {
    let shop: Arc<dyn Old> = Arc::new(Shop);
    check(shop.old(1), 2, "+old <old >old -old");
}

/// Macros that want to see an `async fn`, above and below.
#[tokio::test]
#[probe]
async fn below_another_macro() {
    pause_of_tokio().await;
}

#[probe]
#[tokio::test]
async fn above_another_macro() {
    pause_of_tokio().await;
}

async fn pause_of_tokio() {
    tokio::task::yield_now().await;
}

/// Awaits that macros make are seen like all others.
#[probe]
async fn selects() -> u32 {
    let (left, right) = tokio::join!(pause(), async { 1 });
    let () = left;
    tokio::select! {
        biased;
        () = std::future::pending() => 0,
        () = pause() => right + 1,
    }
}

#[test]
fn awaits_in_macros() {
    check(selects(), 2, "+selects <selects >selects <selects >selects -selects");
}
