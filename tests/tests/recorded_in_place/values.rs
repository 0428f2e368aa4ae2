//! Fields that the way in records read the same as those that the consumer records when it is
//! called, as it is beside another consumer.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use probe_runtime::consumer::Clock;
use probe_runtime::{Event, Trace, point, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_trace::{FieldValue, TraceEvent};

use super::{bare, call_both, events};

/// One to nine fields of one word, so that the ninth takes another word of types; and others.
#[inline(never)]
fn all_forms(x: u64) {
    let (truth, letter) = (x.is_multiple_of(2), char::from_u32(0x1f600 + (x % 16) as u32).unwrap());
    point!("one", a = x);
    point!("two", a = x, b = -7_i64);
    point!("three", a = truth, b = letter, c = 1.5 * f64::from(u32::try_from(x).unwrap()));
    point!("four", a = 1_u8, b = -2_i8, c = f32::MIN, d = x);
    point!("five", a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4);
    point!(
        "eight",
        a = x,
        b = i64::MIN,
        c = f64::NAN.to_bits(),
        d = true,
        e = 'é',
        f = 6,
        g = 7,
        h = u64::MAX
    );
    point!("nine", a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = x);
    point!("text-last", a = x, b = "text");
    point!("text-first", a = "text", b = x);
    point!("wide", a = u128::MAX, b = x, c = ?x);
}

mod pair {
    use probe_runtime::point;

    #[inline(never)]
    pub(super) fn hit(x: u64) {
        point!("one", a = x);
        point!("eight", a = x, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7);
    }
}

/// The events' paths and fields.
fn told(events: Vec<TraceEvent>) -> Vec<(String, Vec<FieldValue>)> {
    events.into_iter().map(|event| (event.definition.path.clone(), event.fields.clone())).collect()
}

#[test]
fn fields_are_recorded_as_the_consumer_would() {
    const ROUNDS: u64 = 50;
    let _turn = turn();
    let folder = Folder::new("recorded-values");
    let path = folder.join("values.probetrace");
    all_forms(0);
    let traced = |is_alone: bool| {
        let points = || select("recorded_in_place::values::*").unwrap();
        let other = (!is_alone).then(|| points().attach(|_: &Event<'_>| ()).unwrap());
        let trace = points().attach(Trace::recorder()).unwrap();
        (0..ROUNDS).for_each(|x| all_forms(black_box(x)));
        let totals = trace.snapshot(&path).unwrap();
        assert_eq!((totals.written, totals.lost), (10 * ROUNDS, 0));
        drop(other);
        told(events(&path))
    };
    let [alone, beside] = [true, false].map(traced);
    assert_eq!(alone.len() as u64, 10 * ROUNDS);
    assert_eq!(alone, beside);
    let [FieldValue::Bool(false), FieldValue::Char(letter), FieldValue::F64(number)] = alone[12].1[..] else {
        panic!("{:?}", alone[12]);
    };
    assert_eq!((letter, number), ('\u{1f601}', 1.5));
}

#[test]
fn rings_of_the_smallest_size_wrap_around() {
    let _turn = turn();
    let folder = Folder::new("recorded-wraps");
    let path = folder.join("wraps.probetrace");
    pair::hit(0);
    let trace = Trace::recorder().ring_size(4096);
    let trace = select("recorded_in_place::values::pair::*").unwrap().attach(trace).unwrap();
    for calls in 1..2_000_u64 {
        pair::hit(calls);
        if calls % 97 == 0 {
            assert_eq!(trace.snapshot(&path).unwrap().written, 2 * calls);
            let numbers =
                told(events(&path)).into_iter().map(|(path, fields)| match (&fields[0], fields.len()) {
                    (FieldValue::U64(number), 1 | 8) => (*number, path.ends_with("eight")),
                    other => panic!("{other:?}"),
                });
            let numbers: Vec<_> = numbers.collect();
            assert_eq!(numbers.last(), Some(&(calls, true)));
            let following = |two: &[(u64, bool)]| {
                two[1] == if two[0].1 { (two[0].0 + 1, false) } else { (two[0].0, true) }
            };
            assert!(numbers.len() > 16 && numbers.windows(2).all(following), "{numbers:?}");
        }
    }
}

/// A time that does not fit in 32 bits takes the long way, once.
#[test]
fn a_thread_that_rests_for_long_goes_on_at_the_right_time() {
    let _turn = turn();
    let folder = Folder::new("recorded-rest");
    let path = folder.join("rest.probetrace");
    call_both(1);
    let trace = select("recorded_in_place::bare kind=entry").unwrap().attach(Trace::recorder()).unwrap();
    let clock = Clock::new();
    (0..3).for_each(|x| _ = bare(x));
    let (rested, rest) = (clock.now(), 1_u64 << 32);
    while clock.now() - rested < rest {
        thread::sleep(Duration::from_millis(10));
    }
    (0..3).for_each(|x| _ = bare(x));
    assert_eq!(trace.snapshot(&path).unwrap().written, 6);
    let times: Vec<_> = events(&path).iter().map(|event| event.time).collect();
    assert!(times.is_sorted(), "{times:?}");
    let least = clock.scale().nanoseconds(rest) / 2;
    assert!(times[3] - times[2] > least, "{times:?}");
    assert!(times[2] - times[0] < least && times[5] - times[3] < least, "{times:?}");
}
