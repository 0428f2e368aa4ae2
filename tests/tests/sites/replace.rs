//! Replaced functions: the closure's arguments, its possible actions, and the state afterwards.
//! Each test has functions of its own.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::control::Replacement;
use probe_runtime::registry::ProbeState;
use probe_runtime::{Consumer, Count, Event, Kind, probe, select};

#[probe(replace)]
#[inline(never)]
fn price(item: &str, count: u64) -> u64 {
    item.len() as u64 * count
}

#[test]
fn a_closure_runs_instead_until_its_guard_is_dropped() {
    assert_eq!(price("pear", 2), 8);
    let locals = Cell::new(0);
    let double = price::install(|original, item, count| {
        // A local that lives from entry to exit.
        let before = count + 1;
        let price = original(item, count) * 2;
        assert_eq!(before, count + 1);
        price
    })
    .unwrap();
    assert_eq!((price("pear", 2), locals.get()), (16, 0));
    assert_eq!((double.report().refused(), double.late_report().refused()), (0, 0));
    let probe = double.probe().unwrap();
    assert_eq!(
        (probe.path(), probe.kind(), probe.state()),
        ("sites::replace::price", Kind::Replace, ProbeState::Active)
    );
    assert_eq!(double.remove().refused(), 0);
    assert_eq!(price("pear", 2), 8);
    assert_eq!(select("sites::replace::price kind=replace").unwrap().probes()[0].state(), ProbeState::Latent);
}

#[probe(replace)]
fn counted(calls: &Cell<u64>) -> u64 {
    calls.set(calls.get() + 1);
    calls.get()
}

#[test]
fn original_runs_as_often_as_it_is_called() {
    for times in 0..=3 {
        let _replaced =
            counted::install(move |original, calls| (0..times).map(|_| original(calls)).sum()).unwrap();
        let calls = Cell::new(0);
        assert_eq!(counted(&calls), (1..=times).sum::<u64>());
        assert_eq!(calls.get(), times);
    }
}

#[probe(replace)]
fn stacked(trace: &str) -> String {
    format!("{trace}.")
}

#[test]
fn the_newest_is_outermost_and_any_may_go_first() {
    let install = |name: char| -> Replacement {
        stacked::install(move |original, trace| original(&format!("{trace}{name}")).to_uppercase() + "<")
            .unwrap()
    };
    let all = || ('a'..='c').map(install).collect::<Vec<_>>();
    assert_eq!(stacked(""), ".");
    for gone in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut guards: Vec<_> = all().into_iter().map(Some).collect();
        let mut left = vec!['a', 'b', 'c'];
        assert_eq!(stacked(""), "CBA.<<<");
        for at in gone {
            guards[at] = None;
            left.retain(|name| *name != char::from(b'a' + u8::try_from(at).unwrap()));
            let names: String = left.iter().rev().collect::<String>().to_uppercase();
            assert_eq!(stacked(""), format!("{names}.{}", "<".repeat(left.len())));
        }
    }
}

#[probe(replace)]
fn fragile(x: u64) -> u64 {
    assert_ne!(x, 13, "the body");
    x
}

#[test]
fn panics_are_the_callers() {
    let said = |x| {
        let payload = catch_unwind(AssertUnwindSafe(|| fragile(x))).unwrap_err();
        payload
            .downcast::<String>()
            .map_or_else(|payload| (*payload.downcast::<&str>().unwrap()).to_owned(), |it| *it)
    };
    let caught = fragile::install(|original, x| {
        assert_ne!(x, 7, "the closure");
        let result = catch_unwind(AssertUnwindSafe(|| original(x)));
        result.unwrap_or_else(|payload| if x == 13 { 0 } else { std::panic::resume_unwind(payload) })
    })
    .unwrap();
    assert!(said(7).contains("the closure"));
    assert_eq!((fragile(13), fragile(1)), (0, 1), "nothing is left behind");
    let outer = fragile::install(|original, x| original(x) + 100).unwrap();
    assert!(said(7).contains("the closure"));
    assert_eq!((fragile(13), fragile(1)), (100, 101));
    drop(caught);
    assert!(said(13).contains("the body"));
    assert_eq!(fragile(1), 101);
    drop(outer);
    assert!(said(13).contains("the body"));
}

#[probe(replace)]
fn factorial(n: u64) -> u64 {
    if n == 0 { 1 } else { n * factorial(n - 1) }
}

#[test]
fn a_recursive_call_is_a_call() {
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&calls);
    let counting = factorial::install(move |original, n| {
        seen.fetch_add(1, Ordering::Relaxed);
        original(n)
    })
    .unwrap();
    assert_eq!((factorial(5), calls.load(Ordering::Relaxed)), (120, 6));
    // From the closure, too; `original` does not come back to it.
    let again = factorial::install(|original, n| if n == 9 { factorial(3) } else { original(n) }).unwrap();
    assert_eq!((factorial(9), calls.load(Ordering::Relaxed)), (6, 6 + 4));
    drop((counting, again));
    assert_eq!(factorial(9), 362_880);
}

#[probe(replace)]
fn once() -> u64 {
    1
}

#[test]
fn a_closure_may_remove_itself() {
    use std::sync::Mutex;
    static GUARD: Mutex<Option<Replacement>> = Mutex::new(None);
    let held = Arc::new(());
    let inside = Arc::clone(&held);
    let guard = once::install(move |original| {
        drop(GUARD.lock().unwrap().take());
        assert_eq!(Arc::strong_count(&inside), 2, "what runs is kept");
        original() + once() * 10 + 100
    })
    .unwrap();
    *GUARD.lock().unwrap() = Some(guard);
    assert_eq!((once(), once()), (111, 1));
    assert_eq!(Arc::strong_count(&held), 1);
}

#[probe(replace)]
fn observed(x: u64) -> u64 {
    probe!("observed-inside");
    x
}

#[test]
fn consumers_see_the_replacement_and_what_runs() {
    let hits = select("sites::replace::observed, sites::replace::observed-inside")
        .unwrap()
        .attach(Count::new())
        .unwrap();
    let kinds = || {
        let counts = hits.counts();
        let of = |kind| counts.hits("sites::replace::observed", kind).unwrap();
        (
            of(Kind::Replace),
            of(Kind::Entry),
            of(Kind::Exit),
            counts.hits("sites::replace::observed-inside", Kind::Point).unwrap(),
        )
    };
    assert_eq!((observed(1), kinds()), (1, (1, 1, 1, 1)));
    let twice = observed::install(|original, x| original(x) + original(x)).unwrap();
    assert_eq!((observed(1), kinds()), (2, (2, 3, 3, 3)));
    let none = observed::install(|_, _| 0).unwrap();
    assert_eq!((observed(1), kinds()), (0, (3, 3, 3, 3)));
    // Held, the function is as it was.
    let hold = select("sites::replace::observed kind=replace").unwrap().hold().unwrap();
    assert_eq!((observed(1), kinds()), (1, (3, 4, 4, 4)));
    drop(hold);
    assert_eq!(observed(1), 0);
    hits.pause();
    assert_eq!((observed(1), kinds()), (0, (4, 4, 4, 4)));
    drop(none);
    assert_eq!(observed(1), 2);
    drop(twice);
    hits.resume();
    assert_eq!((observed(1), kinds()), (1, (5, 5, 5, 5)));
}

#[probe(replace)]
#[track_caller]
fn tracked() -> u32 {
    Location::caller().line()
}

/// Also while the site is active, as long as no closure stands between.
#[test]
fn the_callers_location_is_seen() {
    assert_eq!(tracked(), line!());
    let hits = select("sites::replace::tracked kind=replace").unwrap().attach(Count::new()).unwrap();
    assert_eq!(tracked(), line!());
    assert_eq!(hits.total(), 1);
}

#[probe(replace)]
fn asked() -> u64 {
    1
}

#[probe]
fn asks() -> u64 {
    asked()
}

struct Asker(AtomicU64);

impl Consumer for Asker {
    fn hit(&self, event: &Event<'_>) {
        if event.kind() == Kind::Entry {
            self.0.store(asked(), Ordering::Relaxed);
        }
    }
}

#[test]
fn consumers_run_the_function_itself() {
    let _two = asked::install(|_| 2).unwrap();
    let asker = select("sites::replace::asks").unwrap().attach(Asker(AtomicU64::new(0))).unwrap();
    assert_eq!((asks(), asker.0.load(Ordering::Relaxed)), (2, 1));
}

struct Cart(u64);

impl Cart {
    #[probe(replace)]
    fn total(&self, name: &str) -> u64 {
        self.0 + name.len() as u64
    }

    #[probe(replace)]
    fn add(&mut self, n: u64) -> &mut Self {
        self.0 += n;
        self
    }

    #[probe(replace(method))]
    fn new(n: u64) -> Self {
        Self(n)
    }

    #[probe(replace)]
    fn named<'s>(&self, name: &'s str) -> &'s str {
        if self.0 == 0 { "" } else { name }
    }

    #[probe(replace)]
    #[expect(clippy::boxed_local, reason = "as a test")]
    fn boxed(self: Box<Self>) -> u64 {
        self.0
    }

    #[probe(replace)]
    fn spent(mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

#[test]
fn methods() {
    let _total = Cart::total_install(|original, this, name| original(this, name) * 10).unwrap();
    assert_eq!(Cart(1).total("22"), 30);
    let _add = Cart::add_install(|original, this, n| original(original(this, n), n)).unwrap();
    assert_eq!(Cart(1).add(2).0, 5);
    let _new = Cart::new_install(|original, n| original(n + 1)).unwrap();
    assert_eq!(Cart::new(2).0, 3);
    let _named = Cart::named_install(|original, this, name| original(this, &name[1..])).unwrap();
    assert_eq!((Cart(2).named("abc"), Cart(0).named("abc")), ("bc", ""));
    let _boxed = Cart::boxed_install(|original, this| original(this) + 1).unwrap();
    assert_eq!(Box::new(Cart(2)).boxed(), 3);
    let _spent = Cart::spent_install(|original, this| original(this) + 1).unwrap();
    assert_eq!(Cart(2).spent(), 4);
}

struct Of<T>(T);

impl<T: Copy + Into<u64> + 'static> Of<T> {
    #[probe(replace)]
    fn value(&self) -> u64 {
        self.0.into()
    }

    /// Its signature does not tell of which type it is.
    #[probe(replace(method))]
    fn size(count: usize) -> usize {
        size_of::<T>() * count
    }
}

/// In a generic `impl` whose types are `'static`, each type has closures of its own.
#[test]
fn types_of_a_generic_impl_are_apart() {
    let _small = Of::<u8>::value_install(|original, this| original(this) + 100).unwrap();
    assert_eq!((Of(1_u8).value(), Of(1_u16).value()), (101, 1));
    let _wide = Of::<u16>::value_install(|original, this| original(&Of(this.0 + 1))).unwrap();
    assert_eq!((Of(1_u8).value(), Of(1_u16).value(), Of(1_u32).value()), (101, 2, 1));
    let _small = Of::<u8>::size_install(|original, count| original(count) + 10).unwrap();
    assert_eq!((Of::<u8>::size(2), Of::<u16>::size(2)), (12, 4));
}

#[probe]
fn plain() {}

/// Functions of C are replaced in another way.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]
#[test]
#[expect(unsafe_code, reason = "it is not called")]
fn functions_of_rust_are_none_of_c() {
    plain();
    // SAFETY: it is not called.
    let found = unsafe { probe_runtime::control::CFunction::<extern "C" fn()>::find("**::replace::plain") };
    let expected =
        "`**::replace::plain` can't be replaced: it is a function of Rust, which takes `#[probe(replace)]`";
    assert_eq!(found.unwrap_err().to_string(), expected);
}
