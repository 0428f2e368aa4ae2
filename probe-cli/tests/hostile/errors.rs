//! Each way in which a file can't be read has an error of its own.

use crate::judge::{Seen, read};
use crate::made::{Made, note};

#[test]
fn a_good_file_is_read() {
    let made = Made::with_probes(3);
    assert_eq!(read(made.bytes()), Ok(Seen { files: 1, probes: 3, sites: 3, findings: 0 }));
    assert_eq!(read(Made::new().bytes()), Ok(Seen { files: 1, ..Seen::default() }));
}

#[track_caller]
fn error(file: Vec<u8>, expected: &str) {
    assert_eq!(read(file).unwrap_err(), expected);
}

/// Changes a good file.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut file = Made::with_probes(2).bytes();
    change(&mut file);
    file
}

#[test]
fn other_formats_are_named() {
    let foreign = |what: &str| format!("it is {what}; give an executable or a shared object (ELF)");
    error(Vec::new(), &foreign("empty"));
    error(b"MZ".to_vec(), &foreign("no ELF file"));
    error(b"PK\x03\x04 and some more bytes".to_vec(), &foreign("no ELF file"));
    error(b"#!/bin/sh\nexec true\n".to_vec(), &foreign("a script"));
    error(b"!<arch>\n and a member".to_vec(), &foreign("an archive of object files, before linking"));
    error(b"probetrc\x01\0\0\0\0\0\0\0".to_vec(), &foreign("a trace, which `probectl report` reads"));
    error(changed(|file| file[16] = 1), &foreign("an object file, before linking"));
    error(changed(|file| file[16] = 4), &foreign("a core dump"));
}

#[test]
fn other_machines_are_named() {
    error(changed(|file| file[4] = 1), "it has 32 bits: sites that are patched exist on 64-bit x86 only");
    error(changed(|file| file[5] = 2), "it is big-endian: sites that are patched exist on x86-64 only");
    for (machine, name) in [(183, "AArch64"), (243, "RISC-V"), (8, "machine 8")] {
        let expected = format!(
            "it is for {name}: only x86-64 has sites that a file shows; run it there with PROBES=list"
        );
        error(changed(|file| file[18] = machine), &expected);
    }
    error(changed(|file| file[16] = 9), "it has the unknown type 9");
}

#[test]
fn headers_that_lie_are_named() {
    let damaged = |what: &str| format!("it is damaged: {what}; copy or build the file again");
    error(changed(|file| file.truncate(40)), &damaged("it ends within its header"));
    error(changed(|file| file[56] = 0), &damaged("it has no program headers"));
    error(changed(|file| file[54] = 32), &damaged("it has no program headers"));
    let length = Made::with_probes(2).bytes().len();
    error(
        changed(|file| file[32..40].fill(0xff)),
        &damaged(&format!("program header 0 of 3 lies behind its end at {length}")),
    );
    error(
        changed(|file| file.truncate(300)),
        &damaged(&format!(
            "segment 0 has {length} bytes from 0 on, and the file ends at 300: it was cut off"
        )),
    );
    // The note's segment becomes a second one that is loaded.
    error(changed(|file| file[64 + 56] = 1), &damaged("its segments at 0x0 and 0x400 overlap"));
}

/// Sets an offset of the note's descriptor.
fn with_note(number: usize, offset: i64) -> Vec<u8> {
    let made = Made::with_probes(2);
    let at = usize::try_from(made.places().note).unwrap() + 24 + 8 * number;
    let mut file = made.bytes();
    file[at..at + 8].copy_from_slice(&offset.to_le_bytes());
    file
}

#[test]
fn tables_elsewhere_are_named() {
    for (number, offset, expected) in [
        (0, i64::MAX, "0x8000000000000417 to 0x260, backwards"),
        (1, i64::MIN, "0x240 to 0x8000000000000420, more than any program has"),
        (1, 1 << 20, "0x240 to 0x100420, which is not in the file"),
        (3, -0x428, "0x280 to 0x8, backwards"),
    ] {
        let problem = read(with_note(number, offset)).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }
}

/// Returns the first finding of a file.
fn finding(file: Vec<u8>) -> String {
    let image = probe_cli::elf::Image::read("it", Box::new(file)).unwrap();
    let object = probe_cli::probe_tables::ObjectProbes::of(&image).unwrap();
    let audit = probe_cli::audit::audit(&image, &object).unwrap();
    audit.findings.shown[0].problem.clone()
}

#[test]
fn damaged_records_and_definitions_are_findings() {
    let places = Made::with_probes(2).places();
    let at = |place: u64, offset: usize| usize::try_from(place).unwrap() + offset;
    let set = |place: u64, offset: usize, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        changed(|file| file[at(place, offset)..][..bytes.len()].copy_from_slice(&bytes))
    };
    let record = |offset: usize, bytes: &[u8]| finding(set(places.records, offset, bytes));
    assert_eq!(record(0, &[9]), "the record at 0x240 has the unknown version 9");
    assert_eq!(record(2, &[9]), "the record at 0x240 has the unknown form 9");
    assert_eq!(
        record(1, &[3]),
        "the record at 0x240 has the impossible size 3: the 32 bytes from there on are not read"
    );
    assert_eq!(record(1, &[12]), "the record at 0x240 has 12 bytes, too few for its form");
    assert_eq!(
        record(4, &[0xff; 4]),
        "foreign bytes 00 ff ff ff ff: the runtime would leave this site alone"
    );
    assert_eq!(
        record(4, &[0, 0, 0, 0x7f]),
        "the record at 0x240 names a site at 0x7f000244, outside of code"
    );
    assert_eq!(record(8, &[0, 0, 0, 0x7f]), "the site at 0x201 leads to 0x7f000248, outside of code");
    assert_eq!(
        record(12, &[0; 4]),
        "the stub at 0x24c of the site at 0x201 is none: 00 00 00 00 01 10 01 00 cd ff"
    );
    assert_eq!(
        record(12, &[0, 0, 0, 0x7f]),
        "the stub of the site at 0x201 would be at 0x7f00024c, outside of the file"
    );
    // The rest of each is 3: the record's form says CALL, and its definition's convention JMP.
    assert_eq!(record(2, &[2]), "its record says CALL, and its definition's convention 0 needs JMP");
    let definition = |offset: usize, bytes: &[u8]| finding(set(places.definitions, offset, bytes));
    assert_eq!(definition(16, &[2]), "the definition at 0x280 has version 2 and 192 bytes");
    assert_eq!(
        definition(20, &[77]),
        "the definition at 0x280 has kind 77 and convention 0, which are not known"
    );
    assert_eq!(
        definition(32, &[0xff; 2]),
        "the definition at 0x280 has no text: 65539 bytes that are not in the file"
    );
    assert_eq!(
        definition(40, &[0xff; 8]),
        "the definition at 0x280 has no text: 9 bytes that are not in the file"
    );
    let stub = finding(set(places.text, 20, &[0; 4]));
    assert_eq!(stub, "the record at 0x240 leads to 0x218, which is no definition of its table");
    assert_eq!(
        finding(set(places.text, 1, &[0x90; 5])),
        "foreign bytes 90 90 90 90 90: the runtime would leave this site alone"
    );
}

#[test]
fn sites_in_one_word_are_a_finding() {
    let mut made = Made::with_probes(2);
    // The second record names the first one's site.
    let places = made.places();
    let field = crate::made::relative(places.records + 20, places.text + 1);
    made.records[20..24].copy_from_slice(&field);
    assert_eq!(
        finding(made.bytes()),
        "it shares an aligned word with the site at 0x201: switching one races with the other"
    );
}

#[test]
fn later_versions_are_a_finding() {
    let mut made = Made::new();
    made.notes = note(2, &[0; 64]);
    let expected = "a note has version 2, which this probectl does not know: its probes are not listed";
    assert_eq!(finding(made.bytes()), expected);
}
