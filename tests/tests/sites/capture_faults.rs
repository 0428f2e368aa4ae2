//! Captures that panic: the program continues, each hit is delivered, to everybody, and the panics
//! are counted, exactly. A process of its own: the count is the whole process's, so the tests take
//! turns.

use std::cell::Cell;
use std::fmt::{self, Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use probe_runtime::field::ValueRef;
use probe_runtime::losses::failed_captures;
use probe_runtime::{Consumer, Count, Event, point, probe, select};
use probe_tests::turn::turn;

/// Writes down each hit's fields, as text.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let fields: Vec<_> = event.fields().map(|(name, value)| format!("{name}={value}")).collect();
        let line = format!("{} {}", event.kind().name(), fields.join(" "));
        self.0.lock().unwrap().push(line);
    }
}

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// How many captures fail in `body`.
fn failures(body: impl FnOnce()) -> u64 {
    let before = failed_captures();
    body();
    failed_captures() - before
}

#[probe(args(at, value = values[at]), ret(half = 6 / *ret))]
fn indexed(values: &[u32], at: usize) -> u32 {
    values.get(at).copied().unwrap_or_default()
}

#[test]
fn an_expression_that_panics_loses_the_values_and_not_the_hit() {
    let _turn = turn();
    let set = select("sites::capture_faults::**::indexed").unwrap();
    let (seen, counted) = (set.attach(Recorder::default()).unwrap(), set.attach(Count::new()).unwrap());
    let failed = failures(|| {
        assert_eq!(indexed(&[3], 0), 3);
        assert_eq!(indexed(&[3], 1), 0);
        assert_eq!(indexed(&[0], 0), 0);
    });
    let expected = [
        "entry at=0 value=3",
        "exit outcome=return half=2",
        "entry at=(failed) value=(failed)",
        "exit outcome=(failed) half=(failed)",
        "entry at=0 value=0",
        "exit outcome=(failed) half=(failed)",
    ];
    assert_eq!(seen.take(), expected);
    assert_eq!((failed, counted.total(), seen.failure()), (3, 6, None));
}

fn fails(text: &str) -> usize {
    panic!("{text}")
}

/// Hits of each number of fields, which go different ways.
#[test]
fn every_number_of_fields() {
    let _turn = turn();
    let seen = select("sites::capture_faults::**::failing-*").unwrap().attach(Recorder::default()).unwrap();
    let (a, b, c) = (1_u8, String::from("b"), 'c');
    let failed = failures(|| {
        point!("failing-1", x = fails("1"));
        point!("failing-2", a, x = fails("2"));
        point!("failing-3", a, x = ?fails("3"), ?b);
        point!("failing-6", a, b, c, d = %b, x = fails("6"), y = fails("never called"));
        point!("failing-not", a, b, c, d = %b, x = b.len());
    });
    let expected = [
        "point x=(failed)",
        "point a=(failed) x=(failed)",
        "point a=(failed) x=(failed) b=(failed)",
        "point a=(failed) b=(failed) c=(failed) d=(failed) x=(failed) y=(failed)",
        "point a=1 b=b c=c d=b x=1",
    ];
    assert_eq!(seen.take(), expected);
    assert_eq!(failed, 4);
}

/// Counts the hits of which a field failed.
struct Fails(Mutex<u32>);

impl Consumer for Fails {
    fn hit(&self, event: &Event<'_>) {
        assert!(matches!(event.field("x"), Some(ValueRef::Failed)));
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn the_value_itself_says_so() {
    let _turn = turn();
    let seen = select("sites::capture_faults::**::says-so").unwrap().attach(Fails(Mutex::new(0))).unwrap();
    assert_eq!(failures(|| point!("says-so", x = fails("so"))), 1);
    assert_eq!((*seen.0.lock().unwrap(), seen.failure()), (1, None));
}

#[test]
fn nothing_fails_while_latent() {
    let _turn = turn();
    let failed = failures(|| {
        indexed(&[], 1);
        point!("failing-latent", x = fails("never called"));
    });
    assert_eq!(failed, 0);
}

/// Ends with a panic.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("its end");
    }
}

/// The hit has been made when a temporary of a field ends.
#[test]
fn a_destructor_that_panics_does_not_hit_again() {
    let _turn = turn();
    let seen = select("sites::capture_faults::**::bomb").unwrap().attach(Recorder::default()).unwrap();
    assert_eq!(failures(|| point!("bomb", x = Bomb(7).0)), 1);
    assert_eq!(seen.take(), ["point x=7"]);
}

struct Unprintable;

impl Debug for Unprintable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half, then ")?;
        panic!("it can't be shown");
    }
}

impl Display for Unprintable {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("nor this way");
    }
}

#[probe(args(*, shown = %it), ret)]
fn unprintable(it: &Unprintable) -> Result<Unprintable, u8> {
    let _ = it;
    Ok(Unprintable)
}

#[test]
fn what_panics_when_it_is_shown_is_not_the_consumers_fault() {
    let _turn = turn();
    let set = select("sites::capture_faults::**::unprintable").unwrap();
    let (first, second) =
        (set.attach(Recorder::default()).unwrap(), set.attach(Recorder::default()).unwrap());
    let counted = set.attach(Count::new()).unwrap();
    assert_eq!(failures(|| drop(unprintable(&Unprintable))), 6, "three fields, shown twice");
    let expected =
        ["entry it=half, then (panicked) shown=(panicked)", "exit outcome=ok ret=Ok(half, then (panicked)"];
    assert_eq!(
        (first.take(), second.take()),
        (expected.map(String::from).into(), expected.map(String::from).into())
    );
    assert_eq!((first.failure(), second.failure(), counted.total()), (None, None, 2));
}

/// Panics when a field's text arrives.
struct Full;

impl fmt::Write for Full {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        panic!("no room for {text:?}");
    }
}

impl Consumer for Full {
    fn hit(&self, event: &Event<'_>) {
        for (_, value) in event.fields() {
            let _ = fmt::write(&mut Full, format_args!("{value}"));
        }
    }
}

#[test]
fn a_consumer_that_panics_while_a_field_is_shown_is_to_blame() {
    let _turn = turn();
    let set = select("sites::capture_faults::**::shown").unwrap();
    let (full, seen) = (set.attach(Full).unwrap(), set.attach(Recorder::default()).unwrap());
    let shown = || point!("shown", x = ?Some(3));
    assert_eq!(failures(shown), 0);
    assert_eq!(
        full.failure(),
        Some("panicked at sites::capture_faults::shown (point): no room for \"Some\"")
    );
    shown();
    assert_eq!(seen.take(), ["point x=Some(3)", "point x=Some(3)"]);
}

thread_local!(static UNWOUND: Cell<u32> = const { Cell::new(0) });

/// A point that fails in a destructor, while the program unwinds.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        point!("unwinding", x = fails("in between"));
        UNWOUND.set(UNWOUND.get() + 1);
    }
}

#[test]
fn a_capture_may_panic_while_the_program_unwinds() {
    let _turn = turn();
    let seen = select("sites::capture_faults::**::unwinding").unwrap().attach(Recorder::default()).unwrap();
    let failed = failures(|| {
        let program = || {
            let _guard = Guard;
            panic!("the program's own");
        };
        let payload = catch_unwind(AssertUnwindSafe(program)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"the program's own"));
    });
    assert_eq!((failed, UNWOUND.get(), seen.take()), (1, 1, vec!["point x=(failed)".to_owned()]));
    assert!(!std::thread::panicking());
}

#[inline(never)]
fn sums(values: &[u64], rounds: usize) -> (u64, u64, f64) {
    let (mut a, mut b, mut c) = (0_u64, 1_u64, 0.5_f64);
    for index in 0..rounds {
        a = a.wrapping_add(values[index % values.len()]);
        b = b.wrapping_mul(3) ^ a;
        c += 0.25;
        point!("summed", a, value = values[index], ?b, c);
    }
    (a, b, c)
}

/// Values that the fields borrow, and the function's own, are unchanged.
#[test]
fn the_function_keeps_its_values() {
    let _turn = turn();
    let latent = sums(&[1, 2, 3], 100);
    let counted = select("sites::capture_faults::**::summed").unwrap().attach(Count::new()).unwrap();
    let mut active = latent;
    assert_eq!(failures(|| active = sums(&[1, 2, 3], 100)), 97);
    assert_eq!((active, counted.total()), (latent, 100));
}
