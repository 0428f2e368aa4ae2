//! Probes of futures: which are hit, when, and with which address; and that the function does what it did without them.
//! A process of its own: its tests share one recorder, which listens to all of this program's probes.

use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::future::{Future, poll_fn};
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Waker};

use probe_runtime::{Attachment, Consumer, Event, Kind, point, probe, select};

thread_local! {
    static SEEN: RefCell<Vec<(String, Option<usize>)>> = const { RefCell::new(Vec::new()) };
}

/// Writes down each hit of the thread that made it.
struct Recorder;

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let name = event.path().strip_prefix("futures::").unwrap();
        let sign = match event.kind() {
            Kind::Entry => "+",
            Kind::Exit => "-",
            Kind::Drop => "~",
            Kind::Suspend => "<",
            Kind::Resume => ">",
            _ => "",
        };
        let unwinding = if event.is_unwinding() { "!" } else { "" };
        SEEN.with_borrow_mut(|seen| seen.push((format!("{sign}{name}{unwinding}"), event.future())));
    }
}

static RECORDER: LazyLock<Mutex<Attachment<Recorder>>> =
    LazyLock::new(|| Mutex::new(select("futures::**").unwrap().attach(Recorder).unwrap()));

/// The hits that `body` makes on this thread, and what it returns.
fn hits<T>(body: impl FnOnce() -> T) -> (T, Vec<(String, Option<usize>)>) {
    LazyLock::force(&RECORDER);
    SEEN.take();
    let result = body();
    (result, SEEN.take())
}

fn names(hits: &[(String, Option<usize>)]) -> String {
    hits.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Polls until the result is there.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
}

/// Asserts a future's result and its hits, written as words, and that all but points carry its address.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "shorter to call")]
fn check<F: Future>(future: F, result: F::Output, expected: &str)
where
    F::Output: PartialEq + Debug,
{
    let (found, seen) = hits(|| block_on(future));
    assert_eq!(found, result);
    assert_eq!(names(&seen), expected);
    let addresses: Vec<_> = seen.iter().filter_map(|(_, at)| *at).collect();
    let points = seen.iter().filter(|(name, _)| !name.starts_with(['+', '-', '~', '<', '>'])).count();
    assert_eq!(addresses.len(), seen.len() - points);
    assert!(addresses.iter().all(|at| *at == addresses[0]), "{seen:?}");
}

/// Suspends once.
async fn pause() {
    let mut is_second = false;
    poll_fn(|_| if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[probe]
async fn twice(n: u32) -> u32 {
    pause().await;
    probe!("between", n);
    pause().await;
    n + 1
}

#[test]
fn each_poll_begins_and_ends() {
    check(twice(1), 2, "+twice <twice >twice between <twice >twice -twice");
}

#[probe]
async fn ready() {}

#[test]
fn one_poll() {
    check(ready(), (), "+ready -ready");
}

#[test]
fn not_polled_not_hit() {
    let ((), seen) = hits(|| drop((twice(1), ready())));
    assert_eq!(seen, []);
}

#[test]
fn cancelled() {
    let ((), seen) = hits(|| {
        let mut future = pin!(twice(1));
        for _ in 0..2 {
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    });
    assert_eq!(names(&seen), "+twice <twice >twice between <twice ~twice");
    assert_eq!(seen[0].1, seen[5].1);
    assert!(seen[0].1.is_some());
}

#[probe]
async fn panics(when: u32) {
    assert!(when != 0, "at once");
    pause().await;
    panic!("later");
}

#[test]
fn panicking() {
    for (when, expected) in [(0, "+panics -panics!"), (1, "+panics <panics >panics -panics!")] {
        let (result, seen) = hits(|| catch_unwind(AssertUnwindSafe(|| block_on(panics(when)))));
        assert!(result.is_err());
        assert_eq!(names(&seen), expected);
    }
}

#[probe]
async fn early(text: &str) -> Result<u32, std::num::ParseIntError> {
    if text.is_empty() {
        return Ok(0);
    }
    let n: u32 = text.parse()?;
    pause().await;
    Ok(n)
}

#[test]
fn every_way_out() {
    check(early(""), Ok(0), "+early -early");
    check(early("7"), Ok(7), "+early <early >early -early");
    let (result, seen) = hits(|| block_on(early("x")));
    assert!(result.is_err());
    assert_eq!(names(&seen), "+early -early");
}

/// Everything that a signature may have.
#[probe]
async fn signature<'a, T, const N: u32>(
    first: &'a str,
    (mut left, right): (u32, u32),
    mut sum: T,
    [x, ..]: [T; 3],
    _: u8,
    shown: impl Display,
) -> (&'a str, T, String)
where
    T: AddAssign + From<u32> + Copy,
{
    left += 1;
    sum += T::from(left + right + N);
    pause().await;
    sum += x;
    (first, sum, shown.to_string())
}

#[test]
fn signatures() {
    let expected = ("a", 60_u64, "s".to_owned());
    check(
        signature::<u64, 10>("a", (1, 2), 6_u64, [40; 3], 0, 's'),
        expected,
        "+signature <signature >signature -signature",
    );
}

struct Shop {
    items: Vec<String>,
}

trait Seller {
    async fn sell(&mut self, n: usize) -> &str;

    #[probe]
    async fn by_default(&self) -> usize
    where
        Self: Sync,
    {
        pause().await;
        3
    }
}

impl Seller for Shop {
    #[probe(name = "Shop::sell")]
    async fn sell(&mut self, n: usize) -> &str {
        pause().await;
        self.items.push(n.to_string());
        &self.items[0]
    }
}

impl Shop {
    #[probe]
    async fn find<'a>(&'a self, name: &str) -> Option<&'a String> {
        pause().await;
        self.items.iter().find(|it| *it == name)
    }

    #[probe]
    async fn close(mut self: Box<Self>) -> usize {
        self.items.clear();
        self.items.len()
    }

    #[probe]
    async fn swap(mut self, other: Self) -> Self {
        self.items = other.items;
        self
    }
}

#[test]
fn methods() {
    let mut shop = Shop { items: Vec::new() };
    check(shop.sell(1), "1", "+Shop::sell <Shop::sell >Shop::sell -Shop::sell");
    check(shop.by_default(), 3, "+by_default <by_default >by_default -by_default");
    check(shop.find("1"), Some(&"1".to_owned()), "+find <find >find -find");
    let other = Shop { items: vec!["x".to_owned()] };
    let (shop, seen) = hits(|| block_on(shop.swap(other)));
    assert_eq!((shop.items[0].as_str(), names(&seen).as_str()), ("x", "+swap -swap"));
    check(Box::new(shop).close(), 0, "+close -close");
}

/// A result that each way out has to be coerced to.
#[probe]
async fn boxed(is_early: bool) -> Box<dyn Fn(u32) -> u32> {
    if is_early {
        return Box::new(|x| x + 1);
    }
    pause().await;
    Box::new(|x| x + 2)
}

#[test]
fn coercions() {
    assert_eq!(block_on(boxed(true))(1), 2);
    assert_eq!(block_on(boxed(false))(1), 3);
}

#[probe]
fn block(n: u32) -> impl Future<Output = u32> + Send {
    let m = n + 1;
    async move {
        pause().await;
        m
    }
}

#[probe]
fn any(n: Option<u32>) -> impl Future<Output = u32> {
    let Some(n) = n else {
        return std::future::ready(0);
    };
    std::future::ready(n)
}

#[probe]
fn polled(mut left: u32) -> impl Future<Output = ()> {
    poll_fn(move |_| {
        left -= 1;
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
}

#[probe]
fn pinned(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    let m = n + 1;
    Box::pin(async move {
        pause().await;
        m
    })
}

fn later(n: u32) -> Pin<Box<dyn Future<Output = u32>>> {
    Box::pin(std::future::ready(n))
}

/// What it returns can't be looked into: the call is what is probed.
#[probe]
fn opaque() -> Pin<Box<dyn Future<Output = u32>>> {
    later(1)
}

#[test]
fn functions_that_return_a_future() {
    check(block(1), 2, "+block <block >block -block");
    check(any(None), 0, "+any -any");
    check(any(Some(3)), 3, "+any -any");
    check(polled(3), (), "+polled <polled >polled <polled >polled -polled");
    check(pinned(1), 2, "+pinned <pinned >pinned -pinned");
    let (future, seen) = hits(opaque);
    assert_eq!(names(&seen), "+opaque -opaque");
    assert_eq!(seen[0].1, None);
    assert_eq!(block_on(future), 1);
    let ((), seen) = hits(|| {
        drop(polled(2));
        let mut polled = pin!(polled(2));
        assert!(polled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    assert_eq!(names(&seen), "+polled <polled ~polled");
}

#[probe]
fn wrapped<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future
}

/// One in the other, of one probe: told apart all the same.
#[test]
fn nested_of_one_probe() {
    let ((), seen) = hits(|| block_on(wrapped(wrapped(std::future::ready(())))));
    assert_eq!(names(&seen), "+wrapped +wrapped -wrapped -wrapped");
    let at: Vec<_> = seen.iter().map(|(_, at)| at.unwrap()).collect();
    assert_eq!((at[0], at[1]), (at[3], at[2]));
    assert_ne!(at[0], at[1]);
}

#[test]
fn blocks() {
    let text = String::from("abc");
    let future = point!("block::first", async {
        pause().await;
        text.len()
    });
    check(future, 3, "+block::first <block::first >block::first -block::first");
    check(point!("block::second", async move { text }), "abc".to_owned(), "+block::second -block::second");
}

#[probe]
async fn outer() -> u32 {
    let task = probe!("inner", async {
        pause().await;
        1
    });
    task.await + twice(1).await
}

#[test]
fn nested() {
    let expected = "+outer +inner <inner <outer >outer >inner -inner +twice <twice <outer >outer >twice between <twice <outer \
                    >outer >twice -twice -outer";
    let (result, seen) = hits(|| block_on(outer()));
    assert_eq!(result, 3);
    assert_eq!(names(&seen), expected);
    let of = |name: &str| -> Vec<_> {
        let mut found: Vec<_> =
            seen.iter().filter(|(it, _)| it.ends_with(name)).filter_map(|(_, at)| *at).collect();
        found.dedup();
        found
    };
    assert_eq!((of("outer").len(), of("inner").len(), of("twice").len()), (1, 1, 1));
}

#[async_trait::async_trait]
trait Old {
    async fn old(&self, n: u32) -> u32;
}

#[async_trait::async_trait]
impl Old for Shop {
    #[probe]
    async fn old(&self, n: u32) -> u32 {
        pause().await;
        n + 1
    }
}

#[test]
fn async_trait_methods() {
    let shop: Arc<dyn Old> = Arc::new(Shop { items: Vec::new() });
    check(shop.old(1), 2, "+old <old >old -old");
}

/// Macros that want to see an `async fn`, above and below.
#[tokio::test]
#[probe]
async fn below_another_macro() {
    pause_of_tokio().await;
}

#[probe]
#[tokio::test]
async fn above_another_macro() {
    pause_of_tokio().await;
}

async fn pause_of_tokio() {
    tokio::task::yield_now().await;
}

/// Awaits that macros make are seen like all others.
#[probe]
async fn selects() -> u32 {
    let (left, right) = tokio::join!(pause(), async { 1 });
    let () = left;
    tokio::select! {
        biased;
        () = std::future::pending() => 0,
        () = pause() => right + 1,
    }
}

#[test]
fn awaits_in_macros() {
    check(selects(), 2, "+selects <selects >selects <selects >selects -selects");
}
