//! A latent site costs one NOP: the machine code of the program in `codegen/` with probes, against that of the same
//! program built with `--cfg probe_off`.
//!
//! Both are built with loops neither unrolled nor vectorised: a site can't be copied by either, so a loop with a
//! point in it stays as it is written. That is a cost of a point in a hot loop which no NOP shows.

// Once is enough: it builds its program for the backend it looks at.
#![cfg(not(probe_portable))]

mod hot_path;

use std::sync::LazyLock;

use hot_path::{HotPath, Mix, listing};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::{Object, ObjectSymbol};
use probe_tests::fixture::Configuration;
use probe_tests::fixture::site_table::{Site, SiteTable};

static PROBED: LazyLock<Vec<u8>> = LazyLock::new(|| program("probed", &[]));
static PLAIN: LazyLock<Vec<u8>> = LazyLock::new(|| program("plain", &["--cfg=probe_off"]));

fn program(name: &'static str, flags: &[&'static str]) -> Vec<u8> {
    let loops_as_written = [
        "-Cno-vectorize-loops",
        "-Cllvm-args=-unroll-runtime=false",
        "-Cllvm-args=-unroll-threshold=0",
        "-Cllvm-args=-unroll-allow-partial=false",
    ];
    let configuration = Configuration::new(env!("CARGO_TARGET_TMPDIR"), "codegen", name).release();
    configuration.flags(&loops_as_written).flags(flags).build("codegen").bytes("codegen")
}

/// Address and size.
fn symbol(table: &SiteTable<'_>, name: &str) -> (u64, u64) {
    let symbol = table.file().symbol_by_name(name).unwrap_or_else(|| panic!("no symbol {name}"));
    (symbol.address(), symbol.size())
}

fn hot_path(table: &SiteTable<'_>, function: &str) -> HotPath {
    let (start, size) = symbol(table, function);
    HotPath::walk(table, start, size)
}

/// The hot path of `function` must be the plain function's, but for `sites` NOPs, their padding, and at most what
/// `beyond` says; loops must be the same without exception.
fn costs(function: &str, sites: usize, beyond: &[(&str, usize)]) {
    let (probed, plain) = (SiteTable::parse(&PROBED), SiteTable::parse(&PLAIN));
    let (probed, plain) = (hot_path(&probed, function), hot_path(&plain, function));
    assert_eq!(plain.sites.len(), 0);
    assert_eq!(probed.sites.len(), sites, "sites on the hot path of {function}");
    for site in &probed.sites {
        assert!(probed.padding_before(*site) <= 4, "padding before {site:#x} in {function}");
    }
    let listings = || {
        format!(
            "{function}, plain:\n{}{function}, probed:\n{}",
            listing(&plain.all()),
            listing(&probed.all())
        )
    };
    let more = |probed: Vec<_>, plain: Vec<_>| Mix::of(&probed).beyond(&Mix::of(&plain));
    assert_eq!(more(probed.in_loops(), plain.in_loops()), [], "more in a loop of {}", listings());
    let found = more(probed.all(), plain.all());
    let is_allowed = |name: &str, count| beyond.iter().any(|allowed| allowed.0 == name && count <= allowed.1);
    let is_right = found.iter().all(|(name, count)| is_allowed(name, *count));
    assert!(is_right, "{found:?} more, {beyond:?} allowed, in {}", listings());
}

/// As [`costs`], with nothing beyond, and all instructions in the same order with the same operands.
fn costs_only_nops(function: &str, sites: usize) {
    costs(function, sites, &[]);
    let (probed, plain) = (SiteTable::parse(&PROBED), SiteTable::parse(&PLAIN));
    let (probed, plain) = (hot_path(&probed, function), hot_path(&plain, function));
    assert_eq!(listing(&probed.all()), listing(&plain.all()), "{function}");
}

#[test]
fn leaf() {
    costs_only_nops("leaf", 2);
}

#[test]
fn setter() {
    costs_only_nops("setter", 2);
}

#[test]
fn nothing() {
    costs_only_nops("nothing", 2);
}

#[test]
fn text_field() {
    costs_only_nops("text_field", 3);
}

#[test]
fn generic_inlined_four_times() {
    costs("inlined_four_times", 8, &[]);
}

/// A site ends a basic block, and the compiler does not see that the argument is still where the call wants it.
#[test]
fn calls() {
    costs("caller", 3, &[("mov", 1)]);
}

#[test]
fn question_mark() {
    costs("question_mark", 3, &[]);
}

/// A tail call with an exit to come is a call.
#[test]
fn tail_call() {
    costs("forwarder", 2, &[("call", 1), ("pop", 1), ("push", 1), ("ret", 1), ("(stack)", 2)]);
}

/// All returns meet at the end, where the exit is, but for its copies.
#[test]
fn early_returns() {
    costs("early", 3, &[("jmp", 2)]);
}

/// Here and below, the jump is the one out of the loop, over the cold block.
#[test]
fn point_with_one_field_in_a_loop() {
    costs("one_field_loop", 1, &[("jmp", 1)]);
}

#[test]
fn point_with_two_fields_in_a_float_loop() {
    costs("float_loop", 1, &[("jmp", 1)]);
}

/// The address of the values' array is computed before the loop, where there is stack for it: below the stack
/// pointer as far as the red zone goes.
#[test]
fn point_with_three_fields_in_a_loop() {
    costs("three_field_loop", 1, &[("jmp", 1), ("lea", 1)]);
}

#[test]
fn point_with_five_fields_in_a_float_loop() {
    costs("five_field_loop", 1, &[("jmp", 1), ("lea", 1), ("sub", 1), ("add", 1), ("(stack)", 2)]);
}

/// A function that may be replaced has one NOP more, and nothing else of what that takes: its own probe's two, and the
/// replacement's.
#[test]
fn replaceable() {
    costs_only_nops("replaceable_leaf", 3);
    costs("replaceable_method", 3, &[]);
    costs("replaceable_owner", 3, &[]);
    costs("replaceable_caller", 3, &[]);
}

/// `SiteTable::sites` checks each record: a NOP, in code, in one aligned word.
#[test]
fn every_site_is_whole() {
    let table = SiteTable::parse(&PROBED);
    let sites = table.sites();
    assert_eq!(table.nops(), sites.len());
    assert_eq!(SiteTable::parse(&PLAIN).nops(), 0);
}

/// What an active site jumps to calls the probe's stub, which is `push rdi; lea rdi, [rip + rel32]; jmp [rdi]`.
#[test]
fn cold_blocks_call_their_stubs() {
    let table = SiteTable::parse(&PROBED);
    for Site { addr, target, stub } in table.sites() {
        let code = table.bytes_at(target, 512).expect("the cold block is in the file");
        let mut instructions = Decoder::with_ip(64, code, target, DecoderOptions::NONE).into_iter();
        let call = instructions.find(|instruction| instruction.flow_control() != FlowControl::Next);
        let call = call.expect("a cold block ends");
        assert_eq!(call.flow_control(), FlowControl::Call, "the cold block of {addr:#x}");
        assert_eq!(call.near_branch_target(), stub, "the cold block of {addr:#x}");
        let bytes = table.bytes_at(stub, 10).expect("the stub is in the file");
        assert_eq!((&bytes[..4], &bytes[8..]), (&[0x57, 0x48, 0x8d, 0x3d][..], &[0xff, 0x27][..]));
        assert!(table.definition_of(stub).is_some());
    }
}
