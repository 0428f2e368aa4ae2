//! `#[probe]` and `probe!` on every kind of function and every way out of one: how often each probe
//! is hit, in which order, and whether the function still behaves as without probes.
//! A process of its own: its tests share one recorder, which listens to all of this program's
//! probes.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex};

use probe_runtime::{Attachment, Consumer, Event, Kind, probe, select};

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Writes down each hit of the thread that made it.
struct Recorder;

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let name = event.path().strip_prefix("sites::macros::").unwrap();
        let sign = match event.kind() {
            Kind::Entry => "+",
            Kind::Exit => "-",
            _ => "",
        };
        let unwinding = if event.is_unwinding() { "!" } else { "" };
        SEEN.with_borrow_mut(|seen| seen.push(format!("{sign}{name}{unwinding}")));
    }
}

static RECORDER: LazyLock<Mutex<Attachment<Recorder>>> =
    LazyLock::new(|| Mutex::new(select("sites::macros::**").unwrap().attach(Recorder).unwrap()));

/// What `body` returns, and the hits that it makes on this thread.
fn hits<T>(body: impl FnOnce() -> T) -> (T, Vec<String>) {
    LazyLock::force(&RECORDER);
    SEEN.take();
    let result = body();
    (result, SEEN.take())
}

/// Asserts the result and the hits, written as words.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "shorter to call")]
fn check<T: PartialEq + std::fmt::Debug>(body: impl FnOnce() -> T, result: T, expected: &str) {
    let (found, seen) = hits(body);
    assert_eq!(found, result);
    assert_eq!(seen.join(" "), expected);
}

#[probe]
fn free(x: u32) -> u32 {
    probe!("middle");
    x + 1
}

#[test]
fn free_function() {
    check(|| free(1), 2, "+free middle -free");
    check(|| free(1) + free(2), 5, "+free middle -free +free middle -free");
}

#[derive(Clone)]
struct Thing(u32);

impl Thing {
    #[probe]
    fn new(x: u32) -> Self {
        Self(x)
    }

    #[probe]
    fn by_ref(&self) -> u32 {
        self.0
    }

    #[probe]
    fn by_mut(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }

    #[probe]
    fn by_value(self) -> u32 {
        self.0
    }

    #[probe]
    fn by_mut_value(mut self) -> u32 {
        self.0 += 1;
        self.0
    }

    #[probe]
    #[expect(clippy::boxed_local, reason = "the kind of self is what is tested")]
    fn by_box(self: Box<Self>) -> u32 {
        self.0
    }

    #[probe]
    fn by_pin(self: std::pin::Pin<&mut Self>) -> u32 {
        self.0
    }

    #[probe]
    fn by_rc(self: &std::rc::Rc<Self>) -> u32 {
        self.0
    }

    #[probe]
    fn borrowed(&mut self) -> &mut u32 {
        probe!("lending", value = self.0);
        &mut self.0
    }
}

#[test]
fn methods_of_every_self() {
    check(|| Thing::new(3).0, 3, "+new -new");
    check(|| Thing(3).by_ref(), 3, "+by_ref -by_ref");
    check(|| Thing(3).by_mut(), 4, "+by_mut -by_mut");
    check(|| Thing(3).by_value(), 3, "+by_value -by_value");
    check(|| Thing(3).by_mut_value(), 4, "+by_mut_value -by_mut_value");
    check(|| Box::new(Thing(3)).by_box(), 3, "+by_box -by_box");
    check(|| std::pin::Pin::new(&mut Thing(3)).by_pin(), 3, "+by_pin -by_pin");
    check(|| std::rc::Rc::new(Thing(3)).by_rc(), 3, "+by_rc -by_rc");
}

#[test]
fn borrowed_returns() {
    let mut thing = Thing(3);
    check(|| *thing.borrowed() += 1, (), "+borrowed lending -borrowed");
    assert_eq!(thing.0, 4);
    let text = String::from("a b");
    check(|| first_word(&text), "a", "+first_word -first_word");
}

#[probe]
fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or(text)
}

trait Shape {
    fn area(&self) -> u32;

    #[probe]
    fn doubled(&self) -> u32 {
        self.area() * 2
    }
}

impl Shape for Thing {
    #[probe]
    fn area(&self) -> u32 {
        self.0
    }
}

impl Shape for u32 {
    #[probe(name = "u32::area")]
    fn area(&self) -> u32 {
        *self
    }
}

#[test]
fn trait_methods_given_and_default() {
    check(|| Thing(3).doubled(), 6, "+doubled +area -area -doubled");
    check(|| 4_u32.doubled(), 8, "+doubled +u32::area -u32::area -doubled");
    let shapes: [&dyn Shape; 2] = [&Thing(1), &2_u32];
    let sum = || shapes.iter().map(|shape| shape.area()).sum();
    check(sum, 3_u32, "+area -area +u32::area -u32::area");
}

#[probe]
fn generic<T: Into<u64>, const N: usize>(values: [T; N]) -> u64 {
    probe!("counting", n = N);
    values.into_iter().map(Into::into).sum()
}

#[probe]
fn squares(n: u32) -> impl Iterator<Item = u32> {
    (0..n).map(|x| x * x)
}

#[probe]
fn apply(f: impl Fn(u32) -> u32) -> u32 {
    f(2)
}

#[test]
fn generic_functions_are_one_probe() {
    check(|| generic([1_u8, 2]), 3, "+generic counting -generic");
    check(|| generic([1_u32, 2, 3]), 6, "+generic counting -generic");
    let set = select("sites::macros::counting").unwrap();
    assert_eq!(set.len(), 1);
    #[cfg(not(probe_portable))]
    assert_eq!(set.probes()[0].sites(), 2, "two instances");
}

#[test]
fn impl_trait_in_both_places() {
    check(|| squares(3).sum::<u32>(), 5, "+squares -squares");
    check(|| apply(free), 3, "+apply +free middle -free -apply");
}

#[probe]
unsafe fn unsafe_one(x: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { *x }
}

#[probe]
extern "C" fn c_abi(a: u8, b: f64) -> f64 {
    f64::from(a) + b
}

#[test]
fn unsafe_and_foreign_abi() {
    let x = 5;
    // SAFETY: the address of a live variable.
    check(|| unsafe { unsafe_one(&raw const x) }, 5, "+unsafe_one -unsafe_one");
    check(|| c_abi(1, 0.5).to_bits(), 1.5_f64.to_bits(), "+c_abi -c_abi");
    let pointer: extern "C" fn(u8, f64) -> f64 = c_abi;
    check(|| pointer(2, 0.5).to_bits(), 2.5_f64.to_bits(), "+c_abi -c_abi");
}

#[probe]
fn early(x: i32) -> &'static str {
    if x < 0 {
        return "negative";
    }
    probe!("not-negative");
    if x == 0 { "zero" } else { "positive" }
}

#[probe]
fn question(text: &str) -> Result<i32, std::num::ParseIntError> {
    let value = text.parse::<i32>()?;
    probe!("parsed");
    Ok(value)
}

#[probe]
fn looping(n: u32) -> u32 {
    let mut at = 0;
    let found = 'outer: loop {
        for _ in 0..2 {
            at += 1;
            if at > n {
                break 'outer at;
            }
            if at % 2 == 0 {
                continue;
            }
            probe!("odd");
        }
    };
    probe!("found");
    found
}

#[test]
fn every_way_out() {
    check(|| early(-1), "negative", "+early -early");
    check(|| early(0), "zero", "+early not-negative -early");
    check(|| early(1), "positive", "+early not-negative -early");
    check(|| question("7").unwrap(), 7, "+question parsed -question");
    check(|| question("x").is_err(), true, "+question -question");
    check(|| looping(3), 4, "+looping odd odd found -looping");
}

#[probe]
fn never() -> ! {
    panic!("as planned");
}

#[probe]
fn panics(x: u32) -> u32 {
    assert!(x != 0, "as planned");
    free(x)
}

#[probe]
fn recursive(n: u32) -> u32 {
    if n == 0 { 0 } else { n + recursive(n - 1) }
}

/// Whether `body` panicked.
fn unwinds<T>(body: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(body)).is_err()
}

#[test]
fn a_panic_is_an_exit_too() {
    check(|| unwinds(|| never()), true, "+never -never!");
    check(|| unwinds(|| panics(0)), true, "+panics -panics!");
    check(|| unwinds(|| panics(1)), false, "+panics +free middle -free -panics");
}

#[probe]
fn nested(depth: u32) {
    if depth == 0 {
        never();
    }
    nested(depth - 1);
}

#[test]
fn recursion_and_unwinding_through_it() {
    check(|| recursive(2), 3, "+recursive +recursive +recursive -recursive -recursive -recursive");
    check(|| unwinds(|| nested(1)), true, "+nested +nested +never -never! -nested! -nested!");
}

struct OnDrop;

impl Drop for OnDrop {
    #[probe]
    fn drop(&mut self) {}
}

#[probe]
fn drops_last() {
    let _value = OnDrop;
}

#[test]
fn destructors_run_before_the_exit() {
    check(drops_last, (), "+drops_last +drop -drop -drops_last");
}

#[probe]
fn inside_out(items: &[u32]) -> u32 {
    let each = |x: &u32| {
        probe!("in-closure");
        *x
    };
    #[probe]
    fn item(x: u32) -> u32 {
        probe!("in-item");
        x
    }
    items.iter().map(each).map(item).sum()
}

#[test]
fn closures_and_nested_functions() {
    let expected = "+inside_out in-closure +item in-item -item in-closure +item in-item -item -inside_out";
    check(|| inside_out(&[1, 2]), 3, expected);
}

/// Clippy has views on what these two methods of a type that is `Copy` and `Ord` may look like; a
/// probe changes none of them.
#[derive(PartialEq, Eq, Debug)]
struct Number(u32);

impl Copy for Number {}

#[expect(clippy::expl_impl_clone_on_copy, reason = "what is tested")]
impl Clone for Number {
    #[probe(name = "Number::clone")]
    fn clone(&self) -> Self {
        *self
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Number {
    #[probe(name = "Number::partial_cmp")]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[test]
fn canonical_methods() {
    #[expect(clippy::clone_on_copy, reason = "what is tested")]
    let clone = || Number(1).clone();
    check(clone, Number(1), "+Number::clone -Number::clone");
    check(|| Number(1) < Number(2), true, "+Number::partial_cmp -Number::partial_cmp");
}
