//! Exact packets of small traces, balance of any, and the judgement of Perfetto's own classes.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    process::Command,
};

use proptest::prelude::*;
use prost::Message;

use super::message::{
    BOOTTIME, INCREMENTAL_STATE_CLEARED, MONOTONIC, NEEDS_INCREMENTAL_STATE, REALTIME, SLICE_BEGIN,
    SLICE_END, Trace, TracePacket,
};
use crate::export::{Format, export};
use crate::fixtures::{Fixture, any_fixture};
use crate::item::FieldValue;
use crate::layout::reading;

fn bytes(fixture: &Fixture) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(Format::Perfetto, None, fixture.results(), &mut bytes).unwrap();
    bytes
}

fn packets(fixture: &Fixture) -> Vec<TracePacket> {
    Trace::decode(&*bytes(fixture)).unwrap().packet
}

#[test]
fn the_first_packet_makes_the_clock() {
    let mut first = Vec::new();
    export(Format::Perfetto, None, Fixture::new().results(), &mut first).unwrap();
    #[rustfmt::skip]
    let expected = [
        0x0a, 20, // One packet.
        // The clock reads zero, and is that of the trace.
        0x32, 8, 0x0a, 4, 0x08, 3, 0x10, 0, 0x10, 3,
        0x50, 1, // The sequence.
        0x68, 1, // All state is new.
        0xda, 3, 3, 0xd0, 3, 3, // Times are of this clock.
    ];
    assert_eq!(first, expected);
}

#[test]
fn the_second_packet_compares_the_clocks() {
    let mut bytes = Vec::new();
    let mut clocks = [0; reading::WORDS];
    for (at, time) in [(reading::MONOTONIC, 5), (reading::REAL, 1_000), (reading::BOOT, 7)] {
        clocks[at] = time;
    }
    export(Format::Perfetto, Some(clocks), Fixture::new().results(), &mut bytes).unwrap();
    let packets = Trace::decode(&*bytes).unwrap().packet;
    let clocks = &packets[1].clock_snapshot.as_ref().unwrap().clocks;
    let clocks: Vec<_> = clocks.iter().map(|it| (it.clock_id, it.timestamp)).collect();
    let ids = [MONOTONIC, REALTIME, BOOTTIME].map(Some);
    assert_eq!((packets.len(), clocks), (2, ids.into_iter().zip([5, 1_000, 7].map(Some)).collect()));
}

#[test]
fn names_are_written_once_until_hits_are_lost() {
    let fixture = Fixture::new()
        .thread(1, "main")
        .hit(1, 10, "entry app::f")
        .hit(1, 11, "exit app::f")
        .hit(1, 12, "entry app::f")
        .hit(1, 13, "exit app::f")
        .gap(1, 14, 15, 3)
        .hit(1, 16, "entry app::f");
    let mut text = String::new();
    for packet in packets(&fixture) {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        if let Some(defaults) = &packet.defaults {
            assert_eq!(defaults.timestamp_clock_id, Some(MONOTONIC));
            assert_eq!(packet.sequence_flags, Some(INCREMENTAL_STATE_CLEARED));
            text.push_str("cleared ");
        } else {
            assert_eq!(packet.sequence_flags, Some(NEEDS_INCREMENTAL_STATE));
        }
        if packet.previous_packet_dropped == Some(1) {
            text.push_str("dropped ");
        }
        if let Some(event) = packet.track_event {
            let (kind, time) = (event.kind.unwrap(), packet.timestamp.unwrap());
            write!(text, "{time} {kind} {:?} {:?} ", event.name_iid, event.category_iids).unwrap();
        }
        if let Some(new) = packet.interned_data {
            for name in new.event_categories.iter().chain(&new.event_names) {
                write!(text, "{}={} ", name.name.as_deref().unwrap(), name.iid.unwrap()).unwrap();
            }
        }
        text.push('\n');
    }
    let expected = "cleared \n\n\n\
        10 1 Some(1) [1] app=1 app::f=1 \n\
        11 2 None [] \n\
        12 1 Some(1) [1] \n\
        13 2 None [] \n\
        cleared dropped 14 3 Some(1) [1] probe=1 3 events lost=1 \n\
        16 1 Some(2) [2] app=2 app::f=2 \n\
        16 2 None [] \n";
    assert_eq!(text, expected);
}

/// A fixture with all that the format has.
fn full() -> Fixture {
    Fixture::new()
        .thread(1, "main")
        .thread(2, "worker")
        .fields(
            1,
            1000,
            "entry app::net::get",
            vec![
                ("port", FieldValue::U64(80)),
                ("delta", FieldValue::I64(-3)),
                ("ratio", FieldValue::F64(0.5)),
                ("is_new", FieldValue::Bool(true)),
                ("host", FieldValue::Str { text: "größe".to_owned(), cut: 0 }),
                ("big", FieldValue::U128(u128::MAX)),
            ],
        )
        .fields(1, 1100, "point app::net::queue", vec![("length", FieldValue::U64(9))])
        .fields(1, 1200, "exit app::net::get", vec![("result", FieldValue::I64(200))])
        .fields(1, 1300, "entry app::task 64", vec![("id", FieldValue::U64(5))])
        .hit(1, 1400, "suspend app::task 64")
        .hit(2, 1500, "resume app::task 64")
        .hit(2, 1600, "exit app::task 64")
        .hit(2, 1700, "entry app::lost")
        .gap(2, 1800, 1900, 42)
        .hit(2, 2000, "exit app::lost")
        .hit(1, 2100, "enter c::f 900")
        .hit(1, 2200, "resume app::task 65")
        .hit(1, 2300, "drop app::task 65")
}

/// Text of `full` by the script beside it.
const FULL: &str = include_str!("../../../tests/judge/full.txt");

#[test]
fn perfetto_reads_what_is_written() {
    let Ok(python) = std::env::var("PROBE_PERFETTO_PYTHON") else {
        eprintln!("skipped: PROBE_PERFETTO_PYTHON names no Python with the package `perfetto`");
        return;
    };
    let file = std::env::temp_dir().join(format!("probe-trace-{}.pftrace", std::process::id()));
    std::fs::write(&file, bytes(&full())).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judge/perfetto_slices.py");
    let output = Command::new(python).arg(script).arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("No module named 'perfetto'") {
        eprintln!("skipped: this Python lacks the package `perfetto`");
        return;
    }
    assert!(output.status.success(), "{errors}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), FULL);
}

/// Ids, each with the number of its table.
type Ids = Vec<(u8, u64)>;

/// Returns the ids that a packet uses and that it introduces.
fn ids(packet: &TracePacket) -> (Ids, Ids) {
    let (mut used, mut new) = (Vec::new(), Vec::new());
    if let Some(event) = &packet.track_event {
        used.extend(event.category_iids.iter().map(|id| (1, *id)));
        used.extend(event.name_iid.map(|id| (2, id)));
        used.extend(event.debug_annotations.iter().map(|annotation| (3, annotation.name_iid.unwrap())));
        used.extend(event.source_location_iid.map(|id| (4, id)));
    }
    if let Some(data) = &packet.interned_data {
        let tables = [(1, &data.event_categories), (2, &data.event_names), (3, &data.debug_annotation_names)];
        for (table, names) in tables {
            new.extend(names.iter().map(|name| (table, name.iid.unwrap())));
        }
        new.extend(data.source_locations.iter().map(|location| (4, location.iid.unwrap())));
    }
    (used, new)
}

proptest! {
    #[test]
    fn begins_and_ends_balance(fixture in any_fixture()) {
        let mut open: HashMap<u64, usize> = HashMap::new();
        for packet in packets(&fixture) {
            if let Some(descriptor) = packet.track_descriptor {
                prop_assert_eq!(open.insert(descriptor.uuid.unwrap(), 0), None);
            }
            let Some(event) = packet.track_event else { continue };
            // Each track has a descriptor before its first event.
            let depth = open.get_mut(&event.track_uuid.unwrap()).unwrap();
            match event.kind.unwrap() {
                SLICE_BEGIN => *depth += 1,
                SLICE_END => {
                    prop_assert!(*depth != 0);
                    *depth -= 1;
                }
                _ => {}
            }
        }
        prop_assert!(open.values().all(|depth| *depth == 0));
    }

    #[test]
    fn ids_are_known_where_they_are_used(fixture in any_fixture()) {
        let mut known = HashSet::new();
        for packet in packets(&fixture) {
            if packet.sequence_flags == Some(INCREMENTAL_STATE_CLEARED) {
                known.clear();
            }
            let (used, new) = ids(&packet);
            for id in new {
                prop_assert!(id.1 != 0 && known.insert(id));
            }
            prop_assert!(used.iter().all(|id| known.contains(id)));
        }
    }
}
