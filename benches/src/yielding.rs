//! A future that suspends so many times, and how it is driven: what the benches of futures have in common.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// How often each future of a bench suspends; it is polled once more than that.
pub const YIELDS: u32 = 9;

/// Suspends once.
pub struct Yield(bool);

impl Yield {
    /// One that has not.
    #[expect(clippy::new_without_default, reason = "there is nothing default about it")]
    pub fn new() -> Self {
        Self(false)
    }
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Polls through a pointer, as executors do, until the result is there.
pub fn drive(future: impl Future<Output = u64>) {
    let mut future = pin!(future);
    let mut future: Pin<&mut dyn Future<Output = u64>> = black_box(future.as_mut());
    let mut context = Context::from_waker(Waker::noop());
    while black_box(future.as_mut()).poll(&mut context).is_pending() {}
}

/// The body of every future that the benches compare.
#[macro_export]
macro_rules! yielding {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        async fn $name(n: u32) -> u64 {
            // As wide as the stack slot that `black_box` writes it to: a narrower one would have the `pop` that gives the slot
            // back wait for the store, if there is nothing else in the frame.
            let mut sum = 0_u64;
            for step in 0..u64::from(n) {
                $crate::yielding::Yield::new().await;
                sum = std::hint::black_box(sum.wrapping_add(step));
            }
            sum
        }
    };
}
