//! Probes of futures: which are hit, when, and with which address; and that the function does what
//! it did without them. A process of its own: its tests share one recorder, which listens to all of
//! this program's probes (`probe_tests::futures`).

use std::fmt::Display;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};

use probe_runtime::{point, probe};
use probe_tests::futures::{block_on, check, hits, names, pause};

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
fn wrapped<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future
}

/// One future in another, of one probe: hits are told apart.
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
