//! Users who forbid `unsafe` can have probes, of every kind.

#![forbid(unsafe_code)]

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use probe_runtime::probe;

#[probe]
fn work(n: u32, text: &str) -> u32 {
    probe!("work", n, ?text);
    n + 1
}

#[probe(args(*, first = list[0]), ret)]
fn recorded(list: &[u32], text: String) -> Result<String, u32> {
    if list.len() > 1 { Ok(text) } else { Err(list[0]) }
}

#[probe(replace)]
fn replaced(n: u32) -> u32 {
    n + 2
}

struct Stack(Vec<u32>);

#[probe(all, group = "stack")]
impl Stack {
    fn push(&mut self, n: u32) {
        self.0.push(n);
    }

    #[probe(args(n), ret)]
    async fn later(&self, n: usize) -> Option<u32> {
        probe!("task", async { self.0.get(n).copied() }).await
    }

    #[probe(replace)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

#[probe(args(n), ret)]
fn boxed(n: u32) -> Pin<Box<dyn Future<Output = u32>>> {
    Box::pin(async move { n })
}

fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("nothing to wait for"),
    }
}

fn main() {
    probe_runtime::point!("start");
    assert_eq!(work(1, "x"), 2);
    assert_eq!(recorded(&[1], "x".to_owned()), Err(1));
    {
        let _one_more = replaced::install(|original, n| original(n) + 1).unwrap();
        assert_eq!(replaced(1), 4);
    }
    assert_eq!(replaced(1), 3);
    let mut stack = Stack(Vec::new());
    stack.push(7);
    assert_eq!((stack.len(), ready(stack.later(0)), ready(boxed(3))), (1, Some(7), 3));
}
