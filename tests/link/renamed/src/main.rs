//! The runtime under another name, in a crate of an earlier edition.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

#[lp::probe(crate = lp)]
#[inline(never)]
fn attribute(x: u64) -> u64 {
    probe!("inside", x);
    x + 1
}

#[inline(never)]
fn point(x: u64) -> u64 {
    lp::point!("outside", x, debug = ?x);
    x + 2
}

struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    /// It holds lifetimes that its signature does not name, as an `async fn` does in every edition.
    #[lp::probe(crate = lp)]
    async fn find(&self, text: &str) -> Option<&&'a str> {
        self.0.iter().find(|word| **word == text)
    }
}

/// In this edition, its body may call unsafe functions, although it is no unsafe block.
#[lp::probe(crate = lp)]
async unsafe fn read(at: *const u64) -> u64 {
    at.read()
}

/// In this edition, the lock's guard is dropped after the body's variables, but before `number`.
#[lp::probe(crate = lp)]
async fn lock(number: Mutex<u64>) -> u64 {
    *number.lock().unwrap()
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!(),
    }
}

fn main() {
    transcript::run(|| {
        assert_eq!(attribute(black_box(1)), 2);
        let text = String::from("b");
        assert_eq!(ready(Words(vec!["a", "b"]).find(&text)), Some(&"b"));
        let number = 7;
        // SAFETY: a number that lives for longer.
        assert_eq!(ready(unsafe { read(&number) }), 7);
        assert_eq!(ready(lock(Mutex::new(3))), 3);
        assert_eq!(point(black_box(1)) + point(black_box(2)), 7);
    });
}
