//! Captured arguments and results of futures: the entry has the arguments, at the first poll; the
//! exit has the outcome and the result. A process of its own: its recorder listens to all of this
//! program's probes.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{LazyLock, Mutex};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use probe_runtime::{Attachment, Consumer, Event, probe, probes, select};
use probe_tests::futures::sign;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Writes down each hit of the thread that made it, with its fields after the address.
struct Recorder;

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let sign = sign(event.kind());
        let name = event.path().strip_prefix("sites::future_captures::").unwrap();
        let mut fields = event.fields();
        let (first, at) = fields.next().unwrap();
        let address = event.future().map_or_else(|| "(failed)".to_owned(), |at| at.to_string());
        assert_eq!((first, at.to_string()), ("future", address));
        let fields = fields.map(|(name, value)| format!(" {name}={value}"));
        let line = format!("{sign}{name}{}", fields.collect::<String>());
        SEEN.with_borrow_mut(|seen| seen.push(line));
    }
}

static RECORDER: LazyLock<Mutex<Attachment<Recorder>>> =
    LazyLock::new(|| Mutex::new(select("sites::future_captures::**").unwrap().attach(Recorder).unwrap()));

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
}

/// Asserts the hits that `body` makes on this thread; returns its result.
#[track_caller]
fn check<R>(body: impl FnOnce() -> R, expected: &[&str]) -> R {
    LazyLock::force(&RECORDER);
    SEEN.take();
    let result = body();
    assert_eq!(SEEN.take(), expected);
    result
}

async fn pause() {
    let mut is_second = false;
    poll_fn(|_| if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[probe(args(id, rows = rows.len()), ret)]
async fn load(id: u32, rows: Vec<u8>) -> Result<usize, String> {
    pause().await;
    if id == 0 { Err("no id".to_owned()) } else { Ok(rows.len()) }
}

#[test]
fn arguments_and_results() {
    let result = check(
        || block_on(load(7, vec![1, 2])),
        &["+load id=7 rows=2", "<load", ">load", "-load outcome=ok ret=Ok(2)"],
    );
    assert_eq!(result, Ok(2));
    let result = check(
        || block_on(load(0, Vec::new())),
        &["+load id=0 rows=0", "<load", ">load", "-load outcome=err ret=Err(\"no id\")"],
    );
    assert_eq!(result, Err("no id".to_owned()));
}

#[test]
fn cancelled_there_is_no_result() {
    check(
        || {
            let mut future = Box::pin(load(7, vec![1]));
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        },
        &["+load id=7 rows=1", "<load", "~load"],
    );
}

#[test]
fn not_polled_nothing_is_recorded() {
    check(|| drop(load(7, vec![1])), &[]);
}

#[probe(args(*))]
async fn all(&first: &u32, (second, _): (u32, u32), third: &str) -> u32 {
    pause().await;
    first + second + u32::try_from(third.len()).unwrap()
}

#[test]
fn patterns() {
    let expected = ["+all first=1 second=2 third=abc", "<all", ">all", "-all"];
    assert_eq!(check(|| block_on(all(&1, (2, 3), "abc")), &expected), 6);
}

#[probe(ret(len = ret.len()))]
async fn text(n: usize) -> String {
    assert!(n != 0, "asked for");
    "x".repeat(n)
}

#[test]
fn only_the_result() {
    check(|| block_on(text(3)), &["+text", "-text outcome=return len=3"]);
}

#[test]
fn a_panic_has_an_outcome() {
    check(
        || assert!(catch_unwind(AssertUnwindSafe(|| block_on(text(0)))).is_err()),
        &["+text", "-text outcome=panic len=(absent)"],
    );
}

struct Server(u32);

#[probe]
impl Server {
    #[probe(args(base = self.0, id), ret)]
    async fn accept(&self, id: u32) -> Option<u32> {
        pause().await;
        (id > self.0).then_some(id)
    }

    #[probe(args(id), ret)]
    fn started(&self, id: u32) -> impl Future<Output = u32> + use<> {
        let base = self.0;
        async move {
            pause().await;
            base + id
        }
    }

    #[probe(ret)]
    fn returned(id: u32) -> impl Future<Output = u32> {
        std::future::ready(id)
    }
}

#[test]
fn methods_of_a_block() {
    let server = Server(5);
    check(
        || block_on(server.accept(6)),
        &[
            "+Server::accept base=5 id=6",
            "<Server::accept",
            ">Server::accept",
            "-Server::accept outcome=some ret=Some(6)",
        ],
    );
    check(
        || block_on(server.started(6)),
        &[
            "+Server::started id=6",
            "<Server::started",
            ">Server::started",
            "-Server::started outcome=return ret=11",
        ],
    );
    check(|| block_on(Server::returned(6)), &["+Server::returned", "-Server::returned outcome=return ret=6"]);
}

#[async_trait]
trait Handler {
    async fn handle(&self, id: u32) -> Result<u32, ()>;
}

#[async_trait]
impl Handler for Server {
    #[probe(args(id), ret)]
    async fn handle(&self, id: u32) -> Result<u32, ()> {
        pause().await;
        if id > self.0 { Ok(id) } else { Err(()) }
    }
}

#[test]
fn behind_another_macro() {
    let expected = ["+handle id=6", "<handle", ">handle", "-handle outcome=ok ret=Ok(6)"];
    assert_eq!(check(|| block_on(Server(5).handle(6)), &expected), Ok(6));
}

#[probe(args(boxed = values.iter().sum::<u32>()))]
fn boxed(values: Vec<u32>) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move { values.len() })
}

#[test]
fn a_boxed_block() {
    assert_eq!(check(|| block_on(boxed(vec![1, 2])), &["+boxed boxed=3", "-boxed"]), 2);
}

#[probe(args(at = list[5]))]
async fn careless(list: &[u32]) -> usize {
    list.len()
}

#[test]
fn a_panic_in_a_field_is_contained() {
    let before = probe_runtime::losses::failed_captures();
    let expected = ["+careless at=(failed)", "-careless"];
    check(
        || {
            LazyLock::force(&RECORDER);
            assert_eq!(block_on(careless(&[1])), 1);
        },
        &expected,
    );
    assert_eq!(probe_runtime::losses::failed_captures() - before, 1);
}

mod plain {
    pub(super) async fn load(id: u32, rows: Vec<u8>) -> Result<usize, String> {
        super::pause().await;
        if id == 0 { Err("no id".to_owned()) } else { Ok(rows.len()) }
    }
}

#[test]
fn not_a_byte_is_added() {
    assert_eq!(size_of_val(&load(1, Vec::new())), size_of_val(&plain::load(1, Vec::new())));
}

#[test]
fn fields_are_listed() {
    let found = probes().into_iter().filter(|probe| probe.path() == "sites::future_captures::load");
    let mut fields: Vec<_> = found
        .map(|probe| {
            let names: Vec<_> = probe.fields().iter().map(|field| field.name().to_owned()).collect();
            format!("{:?} {}", probe.kind(), names.join(" "))
        })
        .collect();
    fields.sort();
    assert_eq!(
        fields,
        ["Drop future", "Entry future id rows", "Exit future outcome ret", "Resume future", "Suspend future"]
    );
}
