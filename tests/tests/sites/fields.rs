//! Fields: every type arrives with its exact value, in every number, and is evaluated while a probe
//! is active and never otherwise.
//! A process of its own: its recorder listens to all of this program's probes.
#![expect(clippy::many_single_char_names, reason = "the fields have no other meaning")]

use std::cell::{Cell, RefCell};
use std::sync::{LazyLock, Mutex};

use probe_runtime::field::ValueRef;
use probe_runtime::{Attachment, Consumer, Count, Event, point, probe, select};

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static EVALUATED: Cell<u32> = const { Cell::new(0) };
}

/// Writes down each hit of the thread that made it, with the types and bits of its fields.
struct Recorder;

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        let fields: Vec<_> = event.fields().map(|(name, value)| format!("{name}={}", shown(value))).collect();
        SEEN.with_borrow_mut(|seen| seen.push(fields.join(" ")));
    }
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::U64(v) => format!("u64:{v}"),
        ValueRef::I64(v) => format!("i64:{v}"),
        ValueRef::U128(v) => format!("u128:{v}"),
        ValueRef::I128(v) => format!("i128:{v}"),
        ValueRef::F64(v) => format!("f64:{:#x}", v.to_bits()),
        ValueRef::Bool(v) => format!("bool:{v}"),
        ValueRef::Char(v) => format!("char:{v}"),
        ValueRef::Str(v) => format!("str:{v:?}"),
        ValueRef::Bytes(v) => format!("bytes:{v:?}"),
        ValueRef::Format(v) => format!("format:{v}"),
        _ => "unknown".to_owned(),
    }
}

static RECORDER: LazyLock<Mutex<Attachment<Recorder>>> = LazyLock::new(|| {
    Mutex::new(
        select("sites::fields::**, !sites::fields::latent-*, !sites::fields::once")
            .unwrap()
            .attach(Recorder)
            .unwrap(),
    )
});

/// Asserts the fields of each hit that `body` makes on this thread.
#[track_caller]
fn check(body: impl FnOnce(), expected: &[&str]) {
    LazyLock::force(&RECORDER);
    SEEN.take();
    body();
    assert_eq!(SEEN.take(), expected);
}

#[test]
fn unsigned_integers() {
    let (a, b, c, d, e, f) = (u8::MAX, u16::MAX, u32::MAX, u64::MAX, usize::MAX, u128::MAX - 1);
    check(
        || point!("unsigned", a, b, c, d, e, f),
        &[&format!("a=u64:255 b=u64:65535 c=u64:4294967295 d=u64:{d} e=u64:{d} f=u128:{f}")],
    );
    check(|| point!("wide", v = 1_u128 << 64), &["v=u128:18446744073709551616"]);
}

#[test]
fn signed_integers() {
    let (a, b, c, d, e, f) = (i8::MIN, i16::MIN, i32::MIN, i64::MIN, isize::MIN, i128::MIN);
    check(
        || point!("signed", a, b, c, d, e, f),
        &[&format!("a=i64:-128 b=i64:-32768 c=i64:-2147483648 d=i64:{d} e=i64:{d} f=i128:{f}")],
    );
    check(|| point!("one-wide", v = -1_i128), &["v=i128:-1"]);
}

#[test]
fn floats_keep_their_bits() {
    check(|| point!("f64", v = -0.0_f64), &["v=f64:0x8000000000000000"]);
    check(|| point!("nan", v = f64::from_bits(0x7ff8_0000_dead_beef)), &["v=f64:0x7ff80000deadbeef"]);
    check(|| point!("f32", v = 0.1_f32), &[&format!("v=f64:{:#x}", f64::from(0.1_f32).to_bits())]);
    check(
        || point!("both", a = f32::MIN_POSITIVE, b = f64::MAX),
        &[&format!("a=f64:{:#x} b=f64:{:#x}", f64::from(f32::MIN_POSITIVE).to_bits(), f64::MAX.to_bits())],
    );
}

#[test]
fn truth_and_characters() {
    check(|| point!("true", v = true), &["v=bool:true"]);
    check(|| point!("char", v = '\u{10ffff}', w = false), &["v=char:\u{10ffff} w=bool:false"]);
}

#[test]
fn text_and_bytes() {
    let owned = String::from("own\0ed");
    let bytes = vec![0_u8, 255];
    check(|| point!("str", v = "é"), &["v=str:\"é\""]);
    check(|| point!("empty", v = ""), &["v=str:\"\""]);
    check(|| point!("string", v = owned, w = &owned), &["v=str:\"own\\0ed\" w=str:\"own\\0ed\""]);
    check(
        || point!("bytes", v = b"ab", w = bytes, x = &bytes[..1]),
        &["v=bytes:[97, 98] w=bytes:[0, 255] x=bytes:[0]"],
    );
    assert_eq!((owned.len(), bytes.len()), (6, 2), "borrowed, not moved");
}

#[test]
fn whatever_formats_itself() {
    let tree = Some(vec![("a", 1), ("b", 2)]);
    let error = "x".parse::<u8>().unwrap_err();
    check(
        || point!("debug", v = ?tree, ?error),
        &["v=format:Some([(\"a\", 1), (\"b\", 2)]) error=format:ParseIntError { kind: InvalidDigit }"],
    );
    check(|| point!("display", v = %error), &["v=format:invalid digit found in string"]);
    let long = "x".repeat(5000);
    check(|| point!("long", v = ?long), &[&format!("v=format:{long:?}")]);
    assert!(tree.is_some());
}

#[test]
fn references_are_looked_through() {
    let number = 7_u16;
    let mut text = "text";
    let (twice, changing) = (&&number, &mut text);
    check(|| point!("references", v = twice, w = changing), &["v=u64:7 w=str:\"text\""]);
}

#[test]
fn one_to_eight_fields() {
    let (a, b, c, d) = (1_u8, -2_i64, "three", 4.0_f64);
    check(|| point!("one", a), &["a=u64:1"]);
    check(|| point!("two", a, b), &["a=u64:1 b=i64:-2"]);
    check(|| point!("three", a, b, c), &["a=u64:1 b=i64:-2 c=str:\"three\""]);
    let eight = "a=u64:1 b=i64:-2 c=str:\"three\" d=f64:0x4010000000000000 e=char:5 f=bool:true g=u128:7 h=format:[8]";
    check(|| point!("eight", a, b, c, d, e = '5', f = true, g = 7_u128, h = ?[8]), &[eight]);
}

/// A value that tells when it is made and when it ends.
struct Temporary(String);

impl Temporary {
    fn new(text: &str) -> Self {
        EVALUATED.set(EVALUATED.get() + 1);
        Self(text.to_owned())
    }

    fn text(&self) -> &str {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A read after its end would be detected.
        self.0.replace_range(.., &"#".repeat(self.0.len()));
    }
}

#[test]
fn temporaries_live_until_the_hit_returns() {
    check(|| point!("temporary-1", v = Temporary::new("one").text()), &["v=str:\"one\""]);
    check(
        || point!("temporary-2", v = Temporary::new("two").text(), w = String::from("w") + "x"),
        &["v=str:\"two\" w=str:\"wx\""],
    );
    check(
        || {
            point!(
                "temporary-3",
                v = Temporary::new("three").text(),
                w = %Temporary::new("4").text(),
                x = vec![5_u8, 6]
            );
        },
        &["v=str:\"three\" w=format:4 x=bytes:[5, 6]"],
    );
    assert_eq!(EVALUATED.take(), 4);
}

fn count_up() -> u32 {
    EVALUATED.set(EVALUATED.get() + 1);
    EVALUATED.get()
}

#[probe(name = "latent-function")]
fn lazy(times: u32) {
    for _ in 0..times {
        probe!("latent-one", a = count_up());
        probe!("latent-two", a = count_up(), b = count_up());
        probe!("latent-three", a = count_up(), b = count_up(), c = ?count_up());
    }
}

#[test]
fn evaluated_only_while_active() {
    lazy(10);
    assert_eq!(EVALUATED.take(), 0);
    for (selector, evaluations) in
        [("latent-one", 1), ("latent-two", 2), ("latent-three", 3), ("latent-*", 6)]
    {
        let hits =
            select(&format!("sites::fields::{selector} kind=point")).unwrap().attach(Count::new()).unwrap();
        lazy(10);
        assert_eq!(EVALUATED.take(), 10 * evaluations, "{selector}");
        let probes = if selector == "latent-*" { 3 } else { 1 };
        assert_eq!(hits.total(), 10 * probes, "{selector}");
    }
    lazy(10);
    assert_eq!(EVALUATED.take(), 0);
}

#[test]
fn evaluated_once_for_all_consumers_and_in_order() {
    fn once(times: u32) {
        for _ in 0..times {
            point!("once", a = count_up(), b = count_up(), c = ?count_up());
        }
    }
    let set = select("sites::fields::once").unwrap();
    let counts: Vec<_> = (0..3).map(|_| set.attach(Count::new()).unwrap()).collect();
    let recorder = set.attach(Recorder).unwrap();
    SEEN.take();
    once(2);
    assert_eq!(SEEN.take(), ["a=u64:1 b=u64:2 c=format:3", "a=u64:4 b=u64:5 c=format:6"]);
    assert_eq!(counts.iter().map(Attachment::total).collect::<Vec<_>>(), [2, 2, 2]);
    drop(recorder);
    once(2);
    assert_eq!((EVALUATED.take(), SEEN.take().len()), (12, 0));
}
