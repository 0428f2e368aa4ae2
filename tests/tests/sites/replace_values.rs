//! Replaced functions' arguments and results: borrowed for as long as they were, moved and dropped
//! once. Each test has functions of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::{Count, probe, select};

#[probe(replace)]
fn longest<'a>(a: &'a str, b: &'a str) -> &'a str {
    if a.len() > b.len() { a } else { b }
}

#[probe(replace)]
fn head(text: &str, count: usize) -> &str {
    &text[..count]
}

#[probe(replace)]
fn kept<'a, 'b: 'a>(all: &'a mut Vec<&'b str>, one: &'b str) -> &'a str {
    all.push(one);
    all[0]
}

#[probe(replace)]
fn shown(out: &mut std::fmt::Formatter<'_>, f: fn(&str) -> &str, of: &dyn Fn(&u8) -> u8) -> std::fmt::Result {
    write!(out, "{}{}", f(" x").len(), of(&1))
}

struct Shown;

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        shown(f, str::trim, &|x| *x + 1)
    }
}

#[test]
fn arguments_and_results_are_borrowed_as_they_were() {
    let _longest = longest::install(|original, a, b| {
        let own = String::from("own");
        // Of any lifetime, not of the call's alone.
        assert_eq!(original(&own, "x"), "own");
        original(b, a)
    })
    .unwrap();
    assert_eq!(longest("a", "b"), "a");
    let _head = head::install(|original, text, count| original(&text[1..], count)).unwrap();
    assert_eq!(head("abc", 2), "bc");
    let _kept = kept::install(|original, all, one| {
        all.push("first");
        original(all, one)
    })
    .unwrap();
    let second = String::from("second");
    let mut all = Vec::new();
    assert_eq!(kept(&mut all, &second), "first");
    assert_eq!(all, ["first", "second"]);

    assert_eq!(Shown.to_string(), "12");
    let _shown = shown::install(|original, out, f, _| {
        out.write_str("!")?;
        original(out, f, &|_| 7)
    })
    .unwrap();
    assert_eq!(Shown.to_string(), "!17");
}

/// Counts how many there are.
struct Owned(Arc<AtomicU64>);

impl Owned {
    fn new(living: &Arc<AtomicU64>) -> Self {
        living.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(living))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[probe(replace)]
fn moved(Owned(ref living): Owned, mut text: String, (_a, _b): (Owned, Owned)) -> (Owned, String) {
    text.push_str("body");
    (Owned::new(living), text)
}

#[test]
fn what_is_moved_is_dropped_once() {
    let living = Arc::new(AtomicU64::new(0));
    let one = || Owned::new(&living);
    let count = || living.load(Ordering::Relaxed);
    let call = || moved(one(), "a".to_owned(), (one(), one()));
    let check = |text: &str| {
        let result = call();
        assert_eq!((result.1.as_str(), count()), (text, 1));
        drop(result);
        assert_eq!(count(), 0);
    };
    check("abody");
    // Nobody replaces it, but its probe is active.
    let hits = select("sites::replace_values::moved kind=replace").unwrap().attach(Count::new()).unwrap();
    check("abody");
    let through = moved::install(|original, one, text, two| original(one, text + "+", two)).unwrap();
    check("a+body");
    let dropping = moved::install(|_, one, _, two| {
        drop(two);
        (one, "closure".to_owned())
    })
    .unwrap();
    check("closure");
    drop(dropping);
    check("a+body");
    let panicking = moved::install(|original, one, text, two| {
        drop(original(one, text, two));
        panic!("after it")
    })
    .unwrap();
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    assert_eq!(count(), 0);
    drop((through, panicking));
    assert_eq!(hits.total(), 5);
    // The closure itself is dropped with its guard, or with the last call that runs it.
    let held = Arc::new(());
    let inside = Arc::clone(&held);
    let guard = moved::install(move |original, one, text, two| {
        assert_eq!(Arc::strong_count(&inside), 2);
        original(one, text, two)
    })
    .unwrap();
    drop(call());
    assert_eq!(Arc::strong_count(&held), 2);
    drop(guard);
    assert_eq!(Arc::strong_count(&held), 1);
}
