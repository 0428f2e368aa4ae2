//! An executor on one thread, with futures that are polled often and wait for each other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use probe_benches::yielding::Yield;
use probe_runtime::probe;

use super::made::{compute, next};

/// The queue that a connection's two ends share.
type Queue = Rc<RefCell<VecDeque<u64>>>;
type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Is ready when the queue has a message.
#[probe]
async fn receive(queue: &Queue) -> u64 {
    poll_fn(|_| queue.borrow_mut().pop_front().map_or(Poll::Pending, Poll::Ready)).await
}

/// Is ready when the queue has room.
#[probe]
async fn send(queue: &Queue, message: u64) {
    poll_fn(|_| if queue.borrow().len() < 4 { Poll::Ready(()) } else { Poll::Pending }).await;
    queue.borrow_mut().push_back(message);
}

#[probe]
fn encode(message: u64) -> u64 {
    compute(10 + message % 32)
}

/// Is polled once more than `message % 8`.
#[probe]
async fn handle(message: u64) -> u64 {
    for _ in 0..message % 8 {
        black_box(compute(10));
        Yield::new().await;
    }
    message
}

#[probe]
async fn client(queue: Queue, messages: u64, seed: u64) {
    let mut state = 2 * seed + 1;
    for _ in 0..messages {
        state = next(state);
        black_box(encode(state));
        send(&queue, state).await;
    }
}

#[probe]
async fn server(queue: Queue, messages: u64) {
    for _ in 0..messages {
        let message = receive(&queue).await;
        black_box(handle(message).await);
    }
}

#[probe]
fn poll(task: &mut Task, context: &mut Context<'_>) -> bool {
    task.as_mut().poll(context).is_ready()
}

/// Runs 64 connections with `5 * work` messages each. All futures are polled in rotation until the
/// last one ends.
#[probe]
pub fn run(work: u64) {
    let mut tasks: VecDeque<Task> = VecDeque::new();
    for connection in 0..64 {
        let (queue, messages) = (Queue::default(), 5 * work);
        tasks.push_back(Box::pin(client(Rc::clone(&queue), messages, connection)));
        tasks.push_back(Box::pin(server(queue, messages)));
    }
    let mut context = Context::from_waker(Waker::noop());
    while let Some(mut task) = tasks.pop_front() {
        if !poll(&mut task, &mut context) {
            tasks.push_back(task);
        }
    }
}
