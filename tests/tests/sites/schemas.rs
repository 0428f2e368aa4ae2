//! Names and types of fields, without a hit: of every type and form, of few and of many fields,
//! where they are optimised, inlined and generic. A process of its own, since nothing in it may
//! ever be hit.

use probe_runtime::field::{FieldInfo, Type};
use probe_runtime::{point, probe, probes};

#[probe]
fn every_type(text: &str, owned: &String, bytes: [u8; 2]) {
    probe!("unsigned", a = 1_u8, b = 1_u16, c = 1_u32, d = 1_u64, e = 1_usize, f = 1_u128);
    probe!("signed", a = 1_i8, b = 1_i16, c = 1_i32, d = 1_i64, e = 1_isize, f = 1_i128);
    probe!(
        "others",
        a = 1.0_f32,
        b = 1.0_f64,
        c = true,
        d = 'x',
        text,
        owned,
        bytes,
        g = b"x",
        h = &&bytes[..]
    );
    probe!("formatted", ?text, b = %text, c = ?bytes, d = owned.len());
    probe!("one", text);
    probe!("two", text, b = bytes.len());
    probe!("one-formatted", ?bytes);
    probe!("two-formatted", %text, b = ?bytes);
    probe!(
        "inferred",
        n = i32::try_from(text.len()).unwrap_or_default(),
        m = bytes.first().copied().unwrap_or_default()
    );
    probe!("none");
    probe!("alike", ab = 1_u8, a = 'x', b = true, abc = 1.0);
}

/// Copies with one type, and with several.
#[inline(never)]
fn generic<T: probe_runtime::field::Field + Copy>(x: T) -> T {
    point!("generic", x, fixed = 1_u8);
    x
}

#[inline(never)]
fn generic_once<T: probe_runtime::field::Field + Copy>(x: T) -> T {
    point!("generic-once", x);
    x
}

#[inline(always)]
fn inlined(n: u32) -> u32 {
    point!("inlined", n, square = u64::from(n) * 2, cube = ?n);
    n
}

#[allow(dead_code)]
fn never_called() {
    point!("never-called", n = 1_u8);
}

fn types(path: &str) -> Vec<(String, Option<Type>)> {
    let probes = probes();
    let found = probes.iter().find(|probe| probe.path() == format!("sites::schemas::{path}"));
    let shown = |field: &FieldInfo| (field.name().to_owned(), field.ty());
    found.unwrap_or_else(|| panic!("no {path}")).fields().iter().map(shown).collect()
}

/// What `types` gives: nothing is known of types but where sites are patched.
#[track_caller]
fn are(path: &str, expected: &[(&str, Type)]) {
    let known = |ty: Type| (!cfg!(any(probe_portable, not(target_arch = "x86_64")))).then_some(ty);
    let expected: Vec<_> = expected.iter().map(|(name, ty)| ((*name).to_owned(), known(*ty))).collect();
    assert_eq!(types(path), expected, "{path}");
}

#[test]
fn names_and_types_are_known_without_a_hit() {
    use Type::{Bool, Bytes, Char, F64, Format, I64, I128, Str, U64, U128};
    let all: u32 = std::hint::black_box(inlined(1) + inlined(2));
    assert_eq!((all, generic(1_u8), generic('x'), generic_once("x")), (3, 1, 'x', "x"));
    every_type("", &String::new(), [0; 2]);

    are("unsigned", &[("a", U64), ("b", U64), ("c", U64), ("d", U64), ("e", U64), ("f", U128)]);
    are("signed", &[("a", I64), ("b", I64), ("c", I64), ("d", I64), ("e", I64), ("f", I128)]);
    let others = [
        ("a", F64),
        ("b", F64),
        ("c", Bool),
        ("d", Char),
        ("text", Str),
        ("owned", Str),
        ("bytes", Bytes),
        ("g", Bytes),
        ("h", Bytes),
    ];
    are("others", &others);
    are("formatted", &[("text", Format), ("b", Format), ("c", Format), ("d", U64)]);
    are("one", &[("text", Str)]);
    are("two", &[("text", Str), ("b", U64)]);
    are("one-formatted", &[("bytes", Format)]);
    are("two-formatted", &[("text", Format), ("b", Format)]);
    are("inferred", &[("n", I64), ("m", U64)]);
    are("none", &[]);
    are("alike", &[("ab", U64), ("a", Char), ("b", Bool), ("abc", F64)]);
    are("inlined", &[("n", U64), ("square", U64), ("cube", Format)]);
    are("generic-once", &[("x", Str)]);
    let fixed = types("generic");
    assert_eq!(fixed[0], ("x".to_owned(), None), "the copies disagree");
    assert_eq!(fixed[1].1, types("one")[0].1.map(|_| U64), "they agree on this one");
    assert_eq!(probe_runtime::losses::unreadable_records(), 0);
}
