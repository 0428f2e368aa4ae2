//! Which fields a slow call is said with. A process of its own: nothing else hits its probes.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use probe_runtime::{Slow, probe, select};
use probe_tests::futures::pause;

#[probe(args(*))]
fn noted(text: &str) {}

#[probe(args(*))]
async fn paused(n: u32) {
    pause().await;
}

/// One entry alone begins no call.
#[test]
fn an_entry_that_begins_no_call_leaves_no_fields() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&said);
    let slow =
        Slow::over(Duration::ZERO).to(move |call| lines.lock().unwrap().push(call.fields().to_owned()));
    let slow = select("sites::slow::paused, sites::slow::noted kind=entry").unwrap().attach(slow).unwrap();
    let mut paused = pin!(paused(7));
    let mut poll = || paused.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!poll());
    noted("another's");
    assert!(poll());
    assert_eq!(*said.lock().unwrap(), [""]);
    assert_eq!(slow.slow_calls().left_out().len(), 1);
}
