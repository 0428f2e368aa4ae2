//! `async` functions: nothing to warn of, whatever the signature.

#![deny(warnings, unused_qualifications, missing_docs, single_use_lifetimes, unreachable_pub, unused_results)]
#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use probe_runtime::probe;

/// Documented.
#[probe]
pub async fn public(mut n: u32, _: &str) -> Result<u32, std::num::ParseIntError> {
    probe!("inside", n);
    n += ready(1).await;
    let more: u32 = "3".parse()?;
    Ok(n + more)
}

#[probe]
async fn generic<T: Debug + Send>(values: &[T], (left, _right): (u8, u8)) -> Option<&T>
where
    T: Sync,
{
    ready(values.get(usize::from(left))).await
}

#[probe]
#[must_use]
async fn never() -> ! {
    std::process::exit(0)
}

#[probe]
#[rustfmt::skip]
async fn one_line() -> impl Debug { 1 }

#[probe]
fn returns() -> impl Future<Output = u32> + Send {
    async { 7 }
}

/// No wrapper is all of this: the call is probed.
#[probe]
fn promises() -> impl Future<Output = u32> + Debug + Clone {
    ready(8)
}

/// Sends.
#[expect(async_fn_in_trait, reason = "so would this trait warn without probes")]
pub trait Sender {
    /// By default.
    #[probe]
    async fn send(&mut self, _n: u32) -> bool {
        true
    }

    /// Has no default.
    async fn close(self);
}

struct S(u32);

impl Sender for S {
    #[probe]
    async fn send(&mut self, n: u32) -> bool {
        self.0 = n;
        false
    }

    #[probe]
    async fn close(self) {}
}

impl S {
    #[probe(name = "S::get")]
    async fn get(&self) -> &u32 {
        let task = probe!("task", async { &self.0 });
        task.await
    }
}

fn now<T>(future: impl Future<Output = T> + Send) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!(),
    }
}

fn main() {
    assert_eq!(now(public(1, "")), Ok(5));
    assert_eq!(now(generic(&["a", "b"], (1, 2))), Some(&"b"));
    assert_eq!(format!("{:?}", now(one_line())), "1");
    assert_eq!(now(returns()), 7);
    assert!(format!("{:?}", promises().clone()).contains('8'));
    assert_eq!(now(promises()), 8);
    let mut s = S(1);
    assert!(!now(s.send(2)));
    assert_eq!(*now(s.get()), 2);
    now(s.close());
    now(never())
}
