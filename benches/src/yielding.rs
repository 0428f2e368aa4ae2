//! A future that suspends a given number of times, and its driver; shared by the benches of
//! futures.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// The number of suspensions of each future in a bench; it is polled once more than that.
pub const YIELDS: u32 = 9;

/// Suspends once.
pub struct Yield(bool);

impl Yield {
    /// Returns a future that has not suspended yet.
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

/// Polls through a pointer, as executors do, until the result is ready.
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
            // As wide as the stack slot to which `black_box` writes it. A narrower variable, alone
            // in the frame, would make the `pop` that frees the slot wait for the store.
            let mut sum = 0_u64;
            for step in 0..u64::from(n) {
                $crate::yielding::Yield::new().await;
                sum = std::hint::black_box(sum.wrapping_add(step));
            }
            sum
        }
    };
}
