//! Probes as an interpreter can run them: `cargo miri test -p probe-runtime --test interpreted`.
//! Under Miri, a probe is known once its code has run, so each test runs it before it selects it.
//! The tests pass with every backend.
#![cfg(not(probe_off))]

use std::fmt::Write;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use probe_runtime::registry::ProbeState;
use probe_runtime::{Consumer, Count, Event, probe, probes, select};

/// Records each hit as a line of text.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Consumer for Lines {
    fn hit(&self, event: &Event<'_>) {
        let mut line = event.kind().name().to_owned();
        for (name, value) in event.fields().filter(|(name, _)| *name != "future") {
            write!(line, " {name}={value}").unwrap();
        }
        self.0.lock().unwrap().push(line);
    }
}

/// Neither `Copy` nor a field.
#[derive(Debug)]
#[expect(dead_code, reason = "for `Debug`")]
struct Request<'a> {
    path: &'a str,
    sizes: Vec<u64>,
}

#[probe(args(*), ret)]
fn handle(request: &Request<'_>, text: &str, wide: u128) -> Result<usize, String> {
    probe!("inside", text, bytes = text.as_bytes(), sum = request.sizes.iter().sum::<u64>(), float = 0.5);
    usize::try_from(wide).map_err(|_| "too wide".to_owned())
}

#[test]
fn fields_of_every_kind_arrive() {
    let request = Request { path: "/a", sizes: vec![1, 2] };
    let _ = handle(&request, "", 0);
    let lines = select("**::handle, **::inside").unwrap().attach(Lines::default()).unwrap();
    assert_eq!(handle(&request, "b\u{e9}", 7), Ok(7));
    assert!(handle(&request, "", u128::MAX).is_err());
    assert_eq!(
        lines.take(),
        [
            "entry request=Request { path: \"/a\", sizes: [1, 2] } text=b\u{e9} wide=7",
            "point text=b\u{e9} bytes=b\\xc3\\xa9 sum=3 float=0.5",
            "exit outcome=ok ret=Ok(7)",
            "entry request=Request { path: \"/a\", sizes: [1, 2] } text= wide=340282366920938463463374607431768211455",
            "point text= bytes= sum=3 float=0.5",
            "exit outcome=err ret=Err(\"too wide\")",
        ]
    );
    drop(lines);
    let _ = handle(&request, "", 0);
}

#[probe]
fn busy(by: &AtomicU64) -> u64 {
    by.fetch_add(1, Ordering::Relaxed)
}

/// Hooks are published, read, retired and freed while other threads are in them.
#[test]
fn attachments_come_and_go_under_running_threads() {
    let (rounds, passes) = if cfg!(miri) { (2, 20) } else { (100, 200_000) };
    let calls = AtomicU64::new(0);
    busy(&calls);
    let all = select("**::busy").unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                (0..passes).for_each(|_| {
                    busy(&calls);
                });
            });
        }
        for _ in 0..rounds {
            let (count, lines) = (all.attach(Count::new()).unwrap(), all.attach(Lines::default()).unwrap());
            let before = count.total();
            busy(&calls);
            assert!(count.total() >= before + 2);
            drop(count);
            let told = lines.take();
            assert!(told.len() >= 2 && told.iter().all(|line| line == "entry" || line == "exit"));
        }
    });
    assert_eq!(calls.load(Ordering::Relaxed), 1 + 2 * passes + rounds);
    let count = select("**::busy").unwrap().attach(Count::new()).unwrap();
    busy(&calls);
    assert_eq!(count.total(), 2);
}

/// Pends once.
#[derive(Default)]
struct Once(bool);

impl Future for Once {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[probe(ret)]
async fn wait(number: u64) -> u64 {
    Once::default().await;
    number + 1
}

fn run<F: Future>(future: F) -> F::Output {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

#[test]
fn futures_are_told_from_their_first_poll_to_their_end() {
    run(wait(0));
    {
        // Under Miri, the `drop` probe is known once a pending future was dropped.
        let mut dropped = pin!(wait(0));
        assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let lines = select("**::wait").unwrap().attach(Lines::default()).unwrap();
    assert_eq!(run(wait(1)), 2);
    assert_eq!(lines.take(), ["entry", "suspend", "resume", "exit outcome=return ret=2"]);
    {
        let mut dropped = pin!(wait(0));
        assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(lines.take(), ["entry", "suspend", "drop"]);
}

#[probe(replace)]
fn price(item: &str, number: usize) -> String {
    format!("{item}{number}")
}

#[test]
fn a_function_is_replaced_by_closures() {
    assert_eq!(price("a", 1), "a1");
    let twice = price::install(|original, item, number| original(item, 2 * number)).unwrap();
    assert_eq!(price("a", 1), "a2");
    drop(twice);
    assert_eq!(price("a", 1), "a1");
}

#[probe]
fn noisy() {}

#[derive(Default)]
struct Panics(AtomicU64);

impl Consumer for Panics {
    fn hit(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("on purpose");
    }
}

#[test]
fn a_consumer_that_panics_is_called_no_more() {
    noisy();
    let panics = select("**::noisy").unwrap().attach(Panics::default()).unwrap();
    noisy();
    noisy();
    assert_eq!(panics.0.load(Ordering::Relaxed), 1);
    assert!(panics.failure().unwrap().contains("on purpose"));
    drop(panics);
    let infos: Vec<_> = probes().into_iter().filter(|probe| probe.path().ends_with("::noisy")).collect();
    assert_eq!(infos.len(), 2);
    assert!(infos.iter().all(|probe| probe.state() == ProbeState::Latent));
}
