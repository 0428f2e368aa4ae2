//! Files that are made here, whole and with changed bytes. `probe-cli` tests whole programs.

use proptest::prelude::*;

use crate::file::{File, PAGE, put};
use crate::{Call, Kind, List, Probe, bytes_behind, latent, linked};

/// Addresses of the code and of its calls.
const BASE: u64 = 0x40_0000;
const CODE: u64 = 0x400;
const DIRECT: u64 = BASE + CODE;
const THROUGH: u64 = BASE + CODE + 16;
const TAIL: u64 = BASE + CODE + 32;
const LAST: u64 = BASE + CODE + 48;

/// Makes an executable with a fixed address. The section behind its program headers can be moved
/// if `is_movable`.
fn made(is_movable: bool) -> Vec<u8> {
    let mut out = vec![0; 0x800];
    let numbers = |all: &[(u64, usize)]| -> Vec<u8> {
        all.iter().flat_map(|(number, len)| number.to_le_bytes()[..*len].to_vec()).collect()
    };
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    header.extend(numbers(&[(2, 2), (62, 2), (1, 4), (DIRECT, 8), (64, 8), (0x600, 8), (0, 4)]));
    header.extend(numbers(&[(64, 2), (56, 2), (3, 2), (64, 2), (5, 2), (4, 2)]));
    put(&mut out, 0, &header);
    let notes = (64 + 3 * 56, 0x20);
    let kind = if is_movable { 4 } else { 0x6000_0000 };
    let segments = [
        (1, 5, 0, BASE, 0x500, 0x500, PAGE),
        (1, 6, 0x500, BASE + 0x2500, 0x20, 0x1000, PAGE),
        (kind, 4, notes.0, BASE + notes.0, notes.1, notes.1, 4),
    ];
    for ((kind, flags, at, addr, len, all, align), place) in segments.into_iter().zip((64..).step_by(56)) {
        let segment = [(kind, 4), (flags, 4), (at, 8), (addr, 8), (addr, 8), (len, 8), (all, 8), (align, 8)];
        put(&mut out, place, &numbers(&segment));
    }
    put(&mut out, CODE, &[0xe8, 1, 0, 0, 0]);
    put(&mut out, CODE + 16, &[0xff, 0x15, 1, 0, 0, 0]);
    put(&mut out, CODE + 32, &[0xe9, 1, 0, 0, 0]);
    put(&mut out, CODE + 48, &[0x3e, 0xff, 0x25, 1, 0, 0, 0]);
    put(&mut out, 0x580, b"\0.note\0.text\0.bss\0.names\0");
    let sections = [
        (0, 0, 0, 0, 0, 0),
        (1, 7, 2, BASE + notes.0, notes.0, notes.1),
        (7, 1, 6, DIRECT, CODE, 0x100),
        (13, 8, 3, BASE + 0x2520, 0x520, 0xfe0),
        (18, 3, 0, 0, 0x580, 25),
    ];
    for ((name, kind, flags, addr, at, len), place) in sections.into_iter().zip((0x600..).step_by(64)) {
        let section =
            [(name, 4), (kind, 4), (flags, 8), (addr, 8), (at, 8), (len, 8), (0, 8), (1, 8), (0, 8)];
        put(&mut out, place, &numbers(&section));
    }
    out.truncate(0x600 + 5 * 64);
    out
}

fn probes() -> Vec<Probe> {
    let probe = |kind, path: String| Probe { kind, path, file: "a.c".to_owned(), line: 7 };
    vec![probe(Kind::Entry, "work".to_owned()), probe(Kind::Exit, "x".repeat(200))]
}

fn calls() -> Vec<Call> {
    let call = |addr, len, is_jump, probe| Call { addr, len, is_jump, probe };
    vec![
        call(DIRECT, 5, false, 0),
        call(THROUGH, 6, false, 1),
        call(TAIL, 5, true, 1),
        call(LAST, 7, true, 1),
    ]
}

/// Returns the bytes at an address.
fn at<const N: usize>(file: &File<'_>, addr: u64) -> [u8; N] {
    let it =
        file.segments.iter().find(|it| it.is_loaded() && (it.addr..it.addr + it.file_len).contains(&addr));
    let place = it.map(|it| it.offset + (addr - it.addr)).expect("an address in the file");
    file.part(place..place + N as u64).try_into().expect("as many bytes")
}

fn section(file: &File<'_>, name: &str) -> crate::file::Section {
    file.sections[file.section(name).unwrap_or_else(|| panic!("{name}"))]
}

#[test]
fn a_file_gets_tables_and_keeps_the_rest() {
    for is_movable in [true, false] {
        let before = made(is_movable);
        let out = linked(&before, &probes(), &calls()).unwrap();
        let file = File::read(&out).unwrap();
        // Without a place of its own behind the headers, there is a page ahead.
        let shift = if is_movable { 0 } else { 0x1000 };
        let code = &out[shift + 0x400..shift + 0x440];
        assert_eq!(code[..5], [0x0f, 0x1f, 0x44, 0, 8]);
        assert_eq!(code[16..22], [0x2e, 0x0f, 0x1f, 0x44, 0, 8]);
        assert_eq!(code[48..55], [0x2e, 0x0f, 0x1f, 0x44, 0, 8, 0xc3]);
        let same = |range: std::ops::Range<usize>| {
            before[range.clone()] == out[shift + range.start..shift + range.end]
        };
        assert!(same(0x405..0x410) && same(0x416..0x420) && same(0x425..0x430) && same(0x437..0x500));
        // Two segments, and the note joins the other notes or has one.
        assert_eq!(file.segments.len(), if is_movable { 5 } else { 6 });
        let lowest = if is_movable { BASE } else { BASE - PAGE };
        assert_eq!((file.segments[0].addr, file.segments[0].offset), (lowest, 0));
        let note = section(&file, ".note.latent_probe");
        assert_eq!(at::<12>(&file, note.addr + 12), *b"LatentProbe\0");
        let [records, definitions, stubs, texts] =
            ["probe_sites", "linkme_PROBE_DEFINITIONS_V1", ".text.latent_probe", ".rodata.latent_probe"]
                .map(|name| section(&file, name));
        assert_eq!((records.len, definitions.len, texts.len), (4 * 16, 2 * 192, 203));
        let follow = |field: u64| field.wrapping_add_signed(i32::from_le_bytes(at(&file, field)).into());
        let sites = [DIRECT, THROUGH + 1, stubs.addr + 32 + 1, LAST + 1];
        for ((site, record), probe) in sites.into_iter().zip((records.addr..).step_by(16)).zip([0, 1, 1, 1]) {
            assert_eq!(at::<4>(&file, record), [1, 16, 2, 0]);
            assert_eq!((follow(record + 4), at(&file, site)), (site, [0x0f, 0x1f, 0x44, 0, 8]));
            let stub = stubs.addr + 16 * probe;
            assert_eq!([8, 12].map(|at| follow(record + at)), [stub; 2]);
            assert_eq!(follow(stub + 4) + 4, definitions.addr + 192 * probe);
        }
        // The jump leads to a site and a return.
        let thunk = stubs.addr + 32;
        assert_eq!(
            (follow(TAIL + 1) + 4, at(&file, TAIL)),
            (thunk, {
                let [b, c, d, e] = at(&file, TAIL + 1);
                [0xe9, b, c, d, e]
            })
        );
        assert_eq!(at::<8>(&file, thunk), [0x90, 0x0f, 0x1f, 0x44, 0, 8, 0xc3, 0xcc]);
        assert_eq!(u64::from_le_bytes(at(&file, definitions.addr + 192 + 40)), texts.addr);
        assert_eq!(at::<7>(&file, definitions.addr + 48), *b"worka.c");
        let error = linked(&out, &probes(), &calls()).unwrap_err();
        assert!(error.to_string().starts_with("has probes already"), "{error}");
    }
}

#[test]
fn a_list_is_of_one_build() {
    let calls = calls();
    let before = made(true);
    let out = latent(&before, &calls).unwrap();
    let changed = before.iter().zip(&out).filter(|(a, b)| a != b).count();
    assert_eq!((out.len(), changed <= 18), (before.len(), true));
    let json = List::new("ab12", &probes(), &calls).to_json().unwrap();
    let list = List::read(json.as_bytes()).unwrap();
    assert_eq!((list.build_id(), list.to_json()), ("ab12", Ok(json)));
    // A jump stays, and the list has it.
    assert_eq!(list.jumps(), Ok((probes(), vec![calls[2]])));
    let whole = list.applied(&out, Some("ab12")).unwrap();
    assert_eq!(section(&File::read(&whole).unwrap(), "probe_sites").len, 3 * 16);
    for (id, expected) in [
        (None, "has the build id none, and the list is of the build ab12"),
        (Some("ab13"), "has the build id ab13, and the list is of the build ab12"),
    ] {
        assert_eq!(list.applied(&out, id).unwrap_err().to_string(), expected);
    }
    let error = list.applied(&before, Some("ab12")).unwrap_err();
    assert_eq!(error.to_string(), "has no site at 0x400400, where its list has one");
}

#[test]
fn other_files_are_refused() {
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = made(true);
        change(&mut bytes);
        linked(&bytes, &probes(), &calls()).unwrap_err().to_string()
    };
    let sites = "sites that are patched exist on x86-64 only";
    assert_eq!(refused(&|it| it[0] = 0), "is no ELF file");
    assert_eq!(refused(&|it| it[4] = 1), format!("has 32 bits: {sites}"));
    assert_eq!(refused(&|it| it[5] = 2), format!("is big-endian: {sites}"));
    assert_eq!(refused(&|it| it[18] = 183), format!("is for AArch64: {sites}"));
    assert_eq!(
        refused(&|it| it.truncate(0x610)),
        "is damaged: its tables of headers are not in the file: it was cut off"
    );
    assert_eq!(refused(&|it| it[16] = 4), "is no executable and no shared object");
    assert_eq!(refused(&|it| it[0x400] = 0x90), "is damaged: it has no call of a hook at 0x400400");
}

#[test]
fn bytes_behind_the_end_stay_there() {
    for is_movable in [false, true] {
        let own = made(is_movable);
        let plain = linked(&own, &probes(), &calls()).unwrap();
        let behind = [7; 1000];
        let longer = [&own[..], &behind].concat();
        assert_eq!((bytes_behind(&own), bytes_behind(&longer)), (0, 1000));
        let out = linked(&longer, &probes(), &calls()).unwrap();
        assert!(out == [plain, behind.to_vec()].concat());
        assert_eq!(latent(&longer, &calls()).unwrap()[own.len()..], behind);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_file_is_refused_or_whole(
        is_movable: bool,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut bytes = made(is_movable);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            // Most of the code is no header.
            let at = if (0x440..0x580).contains(&at) { at % 0x100 } else { at };
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(out) = linked(&bytes, &probes(), &calls()) {
            let file = File::read(&out).unwrap();
            prop_assert!(out.len() < bytes.len() + 0x8000);
            let is_records = |it: &crate::file::Section| file.name(it) == b"probe_sites" && it.len == 64;
            prop_assert!(file.sections.iter().any(is_records));
        }
    }

    #[test]
    fn a_changed_list_is_refused_or_whole(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let calls: Vec<_> = calls().into_iter().filter(|it| it.len != 5 || !it.is_jump).collect();
        let out = latent(&made(true), &calls).unwrap();
        let mut json = List::new("ab12", &probes(), &calls).to_json().unwrap().into_bytes();
        for (at, byte) in changes {
            let at = at.index(json.len());
            json[at] = byte;
        }
        if let Some(cut) = cut {
            json.truncate(cut.index(json.len()));
        }
        if let Ok(list) = List::read(&json)
            && let Ok(applied) = list.applied(&out, Some("ab12"))
        {
            prop_assert!(File::read(&applied).is_ok());
        }
    }

    #[test]
    fn any_calls_are_refused_or_sites(
        calls in proptest::collection::vec((BASE..BASE + 0x600, 0_usize..20, any::<bool>(), 0_usize..4), 0..5),
        far in proptest::option::weighted(0.2, any::<u64>()),
    ) {
        let mut calls: Vec<_> =
            calls.into_iter().map(|(addr, len, is_jump, probe)| Call { addr, len, is_jump, probe }).collect();
        calls.extend(far.map(|addr| Call { addr, len: 5, is_jump: false, probe: 0 }));
        if let Ok(out) = linked(&made(true), &probes(), &calls) {
            prop_assert!(File::read(&out).is_ok());
        }
    }
}
