//! All types of fields come back as they were recorded.

use probe_runtime::{Trace, point, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_trace::{FieldValue, Kind};

struct Formatted;

impl std::fmt::Debug for Formatted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("formatted by its own code")
    }
}

#[inline(never)]
fn record(text: &str) {
    point!(
        "all-types",
        small = u64::MAX,
        negative = -7_i64,
        wide = u128::MAX - 1,
        wide_negative = i128::MIN,
        float = 1.5,
        truth = true,
        letter = 'é',
        text = text,
        bytes = b"a\0b",
        shown = ?Formatted
    );
}

#[inline(never)]
fn record_cut(text: &str) {
    point!("cut", text = text, shown = ?Formatted, number = 7_u8);
}

#[test]
fn every_type_of_field_comes_back() {
    let _turn = turn();
    let folder = Folder::new("trace-values");
    let path = folder.join("values.probetrace");
    record("");
    let trace = select("**::all-types").unwrap().attach(Trace::recorder()).unwrap();
    record("some text");
    trace.snapshot(&path).unwrap();
    let [event] = &super::events(&path)[..] else { panic!("one event") };
    assert_eq!(event.definition.kind, Some(Kind::Point));
    assert!(event.definition.path.ends_with("::all-types"), "{}", event.definition.path);
    let names =
        ["small", "negative", "wide", "wide_negative", "float", "truth", "letter", "text", "bytes", "shown"];
    assert_eq!(event.definition.fields, names);
    assert_eq!(
        event.fields,
        [
            FieldValue::U64(u64::MAX),
            FieldValue::I64(-7),
            FieldValue::U128(u128::MAX - 1),
            FieldValue::I128(i128::MIN),
            FieldValue::F64(1.5),
            FieldValue::Bool(true),
            FieldValue::Char('é'),
            FieldValue::Str { text: "some text".to_owned(), cut: 0 },
            FieldValue::Bytes { bytes: b"a\0b".to_vec(), cut: 0 },
            FieldValue::Formatted { text: "formatted by its own code".to_owned(), cut: 0 },
        ]
    );
}

#[test]
fn texts_are_cut_at_the_limit_and_say_so() {
    let _turn = turn();
    let folder = Folder::new("trace-cut");
    let path = folder.join("cut.probetrace");
    record_cut("");
    let trace = select("**::cut").unwrap().attach(Trace::recorder().text_limit(9)).unwrap();
    record_cut("0123456789abc");
    trace.snapshot(&path).unwrap();
    let [event] = &super::events(&path)[..] else { panic!("one event") };
    assert_eq!(
        event.fields,
        [
            FieldValue::Str { text: "012345678".to_owned(), cut: 4 },
            FieldValue::Formatted { text: "formatted".to_owned(), cut: 16 },
            FieldValue::U64(7),
        ]
    );
}
