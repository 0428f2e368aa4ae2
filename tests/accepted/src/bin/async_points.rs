//! Points, in the pieces of an `async fn`.

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

async fn work(n: u32) -> u32 {
    probe_runtime::point!("before", n);
    let m = ready(n).await;
    probe_runtime::point!("after", n, m);
    m + 1
}

fn main() {
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(pin!(work(1)).poll(&mut context), Poll::Ready(2));
}
