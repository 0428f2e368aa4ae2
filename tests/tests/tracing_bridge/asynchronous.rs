//! Futures: one span each, entered for each poll, on whatever threads, until the end or the drop.

use std::future::pending;
use std::task::{Context, Poll, Waker};

use probe_runtime::tracing::tracing_core::dispatcher::with_default;
use probe_runtime::{Attachment, Tracing, probe, select};
use probe_tests::turn::turn;
use tokio::runtime::Builder;
use tokio::task::yield_now;

use super::recorder::Recorder;
use super::threads::Checked;

#[probe(args(n), ret)]
async fn work(n: u32) -> Result<u32, String> {
    for _ in 0..n {
        yield_now().await;
        step();
    }
    Ok(n)
}

#[probe]
#[inline(never)]
fn step() {}

#[probe]
async fn stuck() {
    pending::<()>().await;
}

fn attach() -> Attachment<Tracing> {
    Builder::new_current_thread().build().unwrap().block_on(async { work(1).await.unwrap() });
    poll_stuck(&mut Box::pin(stuck()));
    select("tracing_bridge::asynchronous::*, !**::attach").unwrap().attach(Tracing::new()).unwrap()
}

fn poll_stuck(future: &mut std::pin::Pin<Box<impl Future<Output = ()>>>) {
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
}

#[test]
fn a_future_is_one_span_entered_for_each_poll() {
    let _turn = turn();
    let shown = attach();
    let (recorder, subscriber) = Recorder::new(|_| true);
    let runtime = Builder::new_current_thread().build().unwrap();
    with_default(&subscriber, || runtime.block_on(async { work(1).await.unwrap() }));
    assert_eq!(
        recorder.lines(),
        [
            "new 1 INFO tracing_bridge::asynchronous work n=1",
            "enter 1",
            "exit 1",
            "enter 1",
            "new 2 INFO tracing_bridge::asynchronous step",
            "enter 2",
            "exit 2",
            "close 2",
            "record 1 outcome=ok ret=Ok(1)",
            "exit 1",
            "close 1",
        ]
    );
    assert_eq!(shown.totals().unpaired, 0);
}

#[test]
fn a_future_that_is_dropped_closes_its_span() {
    let _turn = turn();
    let shown = attach();
    let (recorder, subscriber) = Recorder::new(|_| true);
    with_default(&subscriber, || {
        let mut future = Box::pin(stuck());
        poll_stuck(&mut future);
        poll_stuck(&mut future);
        drop(future);
        // This one is there when the consumer is dropped.
        let mut future = Box::pin(stuck());
        poll_stuck(&mut future);
        drop(shown);
    });
    let name = "INFO tracing_bridge::asynchronous stuck";
    assert_eq!(
        recorder.lines(),
        [
            &format!("new 1 {name}"),
            "enter 1",
            "exit 1",
            "enter 1",
            "exit 1",
            "close 1",
            &format!("new 2 {name}"),
            "enter 2",
            "exit 2",
            "close 2"
        ]
    );
}

#[test]
fn futures_on_many_threads_nest_right() {
    const TASKS: u32 = 64;
    const STEPS: u32 = 20;
    let _turn = turn();
    let shown = attach();
    let checked = Checked::default();
    let subscriber = checked.subscriber();
    let of_threads = subscriber.clone();
    // The guard stays as long as the thread.
    let begin =
        move || std::mem::forget(probe_runtime::tracing::tracing_core::dispatcher::set_default(&of_threads));
    let runtime = Builder::new_multi_thread().worker_threads(4).on_thread_start(begin).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(work(STEPS))).collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Ok(STEPS));
        }
    });
    drop(runtime);
    let spans = u64::from(TASKS * (1 + STEPS));
    assert_eq!(checked.counts(), [spans, 0, spans]);
    assert_eq!((shown.totals().spans, shown.totals().unpaired), (spans, 0));
}
