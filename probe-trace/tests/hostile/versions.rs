//! Files of other versions of the layout, and of machines with another order of bytes.

use std::io::Cursor;

use probe_trace::layout::{self, block, control, event, field, header, off, ring, sub_buffer};
use probe_trace::{FieldValue, Item, Trace, TraceEvent};

use crate::made::{File, bytes, definition, stacks};

fn read(file: &File) -> Result<Trace, String> {
    Trace::read([("it", Cursor::new(file.0.clone()))]).map_err(|error| error.to_string())
}

fn events(trace: &mut Trace) -> Vec<TraceEvent> {
    let event = |item| if let Item::Event(event) = item { Some(event) } else { None };
    trace.items().filter_map(|item| event(item.unwrap())).collect()
}

#[test]
fn other_versions_are_named() {
    for version in [layout::VERSION - 1, layout::VERSION + 1, u64::MAX] {
        let error = read(&File::new().header(header::VERSION, version)).unwrap_err();
        let expected = format!(
            "it has version {version} of the format, and this reader knows version {}; use the `probe-trace` of \
             the program that wrote it",
            layout::VERSION
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn the_other_order_of_bytes_is_named() {
    let mut file = File::new();
    let (words, _) = file.0.as_chunks_mut::<8>();
    words.iter_mut().for_each(|word| word.reverse());
    assert_eq!(
        read(&file).unwrap_err(),
        "it has the bytes of its words in reverse: a copy or a conversion has changed it; traces are \
         little-endian on all machines"
    );
}

/// The first bytes of a file are the same on each machine.
#[test]
fn a_file_begins_with_these_bytes() {
    let file = File::new();
    assert_eq!(file.0[..16], *b"probetrc\x01\0\0\0\0\0\0\0");
    let mut file = File(Vec::new());
    file.sub_buffer(2, 0, &[], &[event::word(3, 1, 0x0405), 0x06]);
    assert_eq!(file.0[..32], *b"probeblk\x03\0\0\0\0\0\0\0\x90\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
    assert_eq!(file.0[32 + sub_buffer::WORDS * 8..], *b"\x05\x04\0\0\x01\x0c\0\0\x06\0\0\0\0\0\0\0");
}

/// A later writer of the same version adds to each part of the file.
#[test]
fn additions_of_a_later_writer_are_skipped() {
    let mut file = File::new();
    // Words behind those of the header.
    file.0[header::WORDS * 8..layout::HEADER_BYTES].fill(0xee);
    file.words(77, 5, &[1, 2, 3]);
    // An unknown kind of probe, and an unknown flag.
    file.definitions(&[definition(0, 200, 0x80, "a::later", &["x", "y", "z"])]);
    file.words(block::READING, 0, &[1 << 30, 20, 1 << 30, 1 << 30, 1 << 30, 99, 99]);
    let types = u64::from_le_bytes([field::U64, 77, field::U64, 0, 0, 0, 0, 0]);
    let unknown = u64::from_le_bytes([field::U64, field::UNKNOWN, field::U64, 0, 0, 0, 0, 0]);
    let records = [
        event::word(0, 4, 10),
        types,
        1,
        2,
        3,
        // A control record of an unknown kind.
        event::word(event::CONTROL, 5, 0),
        99,
        98,
        97,
        96,
        95,
        event::word(event::CONTROL, 2, 0),
        control::GENERATION,
        5,
        event::word(0, 3, 20),
        unknown,
        1,
        3,
    ];
    file.sub_buffer(0, 0, &[(sub_buffer::WORDS - 1, 99)], &records);
    let mut head = vec![0; ring::WORDS + 2];
    head[ring::WRITTEN] = 2;
    file.words(block::RING, 0, &head);
    file.words(block::UNSEEN, 0, &[1, 2, 99]);
    let mut trace = read(&file).unwrap();
    assert_eq!(trace.problems(), &[] as &[String]);
    let totals = trace.totals().unwrap();
    assert_eq!((totals.written, totals.without_ring, totals.nested), (2, 1, 2));
    let [first, second] = &events(&mut trace)[..] else { panic!("two events") };
    assert_eq!((first.definition.kind, &*first.definition.path, first.time), (None, "a::later", 10));
    // The value of the unknown type has an unknown length, so the last one can't be found.
    assert_eq!(first.fields, [FieldValue::U64(1), FieldValue::Unknown, FieldValue::Unknown]);
    assert_eq!(second.fields, [FieldValue::U64(1), FieldValue::Unknown, FieldValue::U64(3)]);
    assert_eq!((first.generation, second.generation, second.time), (0, 5, 20));
}

/// An earlier or interrupted writer left some parts out.
#[test]
fn parts_that_are_missing_are_no_error() {
    let mut file = File::new().header(header::STATE, layout::state::OPEN);
    file.definitions(&[definition(0, 1, 0, "a::f", &[])]);
    file.sub_buffer(0, 0, &[], &[event::word(0, 0, 5), event::word(9, 0, 6)]);
    file.0.extend(bytes(&[block::MAGIC, block::SUB_BUFFER]));
    let mut trace = read(&file).unwrap();
    let shown = trace.problems().join("\n");
    assert!(shown.contains("did not finish") && shown.contains("the last 16 bytes"), "{shown}");
    assert_eq!(trace.totals(), None);
    assert_eq!(events(&mut trace).len(), 1);
    let mut items = trace.items();
    assert_eq!(items.by_ref().count(), 2, "the thread, and the event");
    assert_eq!(items.undefined(), 1);
}

/// Times off the processor: between the hits, and after the last one. Those of the last kind that a
/// thread has written itself since come once.
#[test]
fn times_off_the_processor_come_in_order() {
    let mut file = File::new();
    file.definitions(&[definition(1, 1, 0, "a::f", &[])]);
    let about = off::about(off::READY, [3, 4]);
    let time = |begin, end, about| [begin, end, about, 0, 0, 0];
    let off =
        |time: [u64; off::WORDS]| [&[event::word(event::CONTROL, 7, 0), control::OFF], &time[..]].concat();
    let mut in_read = time(19, 42, 0);
    (in_read[off::CALL], in_read[off::ARGUMENT]) = (u64::from_le_bytes(*b"read\0\0\0\0"), 5);
    let records = [
        vec![event::word(1, 0, 10)],
        off(time(12, 20, about)),
        vec![event::word(event::CONTROL, 2, 0), control::OFF_LOST, 1],
        // The kernel's clock is ahead of the thread's.
        off(in_read),
        // A record of another length is none that this reader knows.
        vec![event::word(event::CONTROL, 4, 0), control::OFF, 19, 42, 0],
        vec![event::word(1, 0, 40)],
    ]
    .concat();
    file.sub_buffer(0, 0, &[], &records);
    // The thread has told the first ones itself, a time and missing ones.
    let (missing, ended) = (off::about(off::LOST, [0; 2]), off::about(off::ENDED, [6, 6]));
    let last = [
        time(12, 20, about),
        time(30, 0, missing),
        time(45, 0, missing),
        time(50, 60, off::about(0, [5, 6])),
        time(70, 0, ended),
    ];
    file.words(block::OFF, 0, &[&[1], last.as_flattened()].concat());
    // Another thread's ring, which has none of its own.
    file.words(block::OFF, 1, &[9, 1, 2, 3]);
    let shown = |item: Item| match item {
        Item::Event(event) => format!("{}", event.time),
        Item::Off(off) => {
            let flags = [off.is_ready, off.has_ended].map(u8::from);
            let call = off.call.map(|call| format!(" {call}")).unwrap_or_default();
            format!("{}..{:?} {flags:?} {:?}{call}", off.begin, off.end, off.processors)
        }
        Item::OffLost(_) => "lost".to_owned(),
        _ => String::new(),
    };
    let items: Vec<_> = read(&file).unwrap().items().map(|item| shown(item.unwrap())).collect();
    let expected = [
        "", "10", "12..Some(20) [1, 0] [3, 4]", "lost", "20..Some(42) [0, 0] [0, 0] read(5)", "42", "lost",
        "50..Some(60) [0, 0] [5, 6]", "70..None [0, 1] [6, 6]",
    ];
    assert_eq!(items, expected);
}

/// Stacks come before or after their hits, and later ones replace others.
#[test]
fn stacks_are_found_by_their_numbers() {
    let mut file = File::new();
    file.definitions(&[definition(0, 1, 0, "a::f", &["x", "stack"])]);
    file.block(block::STACKS, 0, &stacks(&["a::g", "unused", "main"], &[(7, &[0, 2]), (8, &[2]), (9, &[])]));
    let types = u64::from_le_bytes([field::U64, field::STACK, 0, 0, 0, 0, 0, 0]);
    let records: Vec<_> = (7..12).flat_map(|stack| [event::word(0, 3, 10), types, 1, stack]).collect();
    file.sub_buffer(0, 0, &[], &records);
    file.block(block::STACKS, 0, &stacks(&["a::later"], &[(8, &[0]), (10, &[0, 0])]));
    file.reading(1 << 30);
    let mut trace = read(&file).unwrap();
    assert_eq!(trace.problems(), [""; 0]);
    let shown: Vec<_> = events(&mut trace).iter().map(|event| event.fields[1].to_string()).collect();
    assert_eq!(shown, ["main;a::g", "a::later", "", "a::later;a::later", "(unknown)"]);
}

#[test]
fn damaged_stacks_are_named() {
    let whole = stacks(&["a::g"], &[(7, &[0])]);
    let beyond = stacks(&["a::g"], &[(7, &[1])]);
    let short = &whole[..whole.len() - 8];
    let many = bytes(&[u64::MAX, 0]);
    for damaged in [&beyond[..], short, &many, b"short"] {
        let mut file = File::new();
        file.block(block::STACKS, 0, &whole);
        let at = file.0.len() + block::WORDS * 8;
        file.block(block::STACKS, 0, damaged);
        let problems = read(&file).unwrap().problems().to_vec();
        assert!(problems[0].ends_with(&format!("the stacks at byte {at} are damaged")), "{problems:?}");
    }
}
