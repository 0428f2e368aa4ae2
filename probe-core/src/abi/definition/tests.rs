use super::*;

static SHORT: Definition = Definition::new(
    Kind::Point,
    "app::parsedsrc/a.rsbytes\nok\ngroup=net\n",
    "app::parsed",
    "src/a.rs",
    "group=net\n",
    7,
    9,
);

#[test]
fn parts_are_cut_from_the_text() {
    assert!(SHORT.is_readable());
    assert_eq!(SHORT.identity(), ("app::parsed", "src/a.rs", 7, 9, Kind::Point));
    assert_eq!(SHORT.fields().collect::<Vec<_>>(), ["bytes", "ok"]);
    assert_eq!(SHORT.field_count(), 2);
    assert_eq!(SHORT.notes().collect::<Vec<_>>(), [("group", "net")]);
    assert_eq!((SHORT.note("group"), SHORT.skipped()), (Some("net"), None));
    assert!(SHORT.long.is_null());
}

#[test]
fn long_text_stays_outside() {
    macro_rules! path {
        () => {
            "a_path_that_is_as_long_as_a_path_can_be_when_modules_are_nested_deeply::and::named::verbosely"
        };
    }
    macro_rules! file {
        () => {
            "/registry/src/index/some-crate-with-a-long-name-1.2.3/src/a_module/another_module/file.rs"
        };
    }
    static LONG: Definition =
        Definition::new(Kind::Exit, concat!(path!(), file!(), "field\n"), path!(), file!(), "", 1, 1);
    assert!(LONG.is_readable());
    assert!(!LONG.long.is_null());
    assert_eq!((LONG.path(), LONG.file()), (path!(), file!()));
    assert_eq!(LONG.fields().collect::<Vec<_>>(), ["field"]);
}

#[test]
fn a_path_ends_before_bytes_that_are_not_utf_8() {
    for (path, expected) in [
        (&b"app::caf\xe9::poll"[..], "app::caf"),
        (b"app::caf\xc3\xa9::poll", "app::café::poll"),
        (b"\xe9pp", ""),
        (b"app::pol\xe9", "app::pol"),
        (b"app", "app"),
        (b"", ""),
    ] {
        let mut it = Definition::new(Kind::Point, "", "", "", "", 1, 1);
        it.text[..path.len()].copy_from_slice(path);
        it.path_len = u16::try_from(path.len()).unwrap();
        assert_eq!(it.path(), expected);
        #[cfg(feature = "std")]
        for start in ["", "a", "app::caf", "app::café", "app::café::poll", "app::pol", "é", "app::x"] {
            assert_eq!(it.path_begins_with(start), expected.starts_with(start), "{expected}, {start}");
        }
    }
}

#[test]
fn types_of_a_note() {
    static TYPED: Definition = Definition::new(
        Kind::Point,
        "a::bx.ca\nb\nc\ntypes=1,11,99\n",
        "a::b",
        "x.c",
        "types=1,11,99\n",
        1,
        1,
    );
    assert_eq!([0, 1, 2, 3].map(|at| TYPED.field_type(at)), [Some(Type::U64), Some(Type::CStr), None, None]);
    assert_eq!(SHORT.field_type(0), None);
}

#[test]
fn without_fields() {
    static NONE: Definition = Definition::new(Kind::Entry, "a::bx.rs", "a::b", "x.rs", "", 1, 1);
    assert_eq!((NONE.fields().count(), NONE.field_count()), (0, 0));
}
