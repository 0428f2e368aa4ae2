//! A latent site costs one NOP: the machine code of the program in `codegen/` with probes, against that of the same
//! program built with `--cfg probe_off`.
//!
//! Both are built with loops neither unrolled nor vectorised: a site can't be copied by either, so a loop with a
//! point in it stays as it is written. That is a cost of a point in a hot loop which no NOP shows.

// Once is enough: it builds its program for the backend it looks at.
#![cfg(not(probe_portable))]

mod hot_path;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hot_path::{HotPath, Mix, listing};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::{Object, ObjectSymbol, SymbolKind};
use probe_tests::fixture::Configuration;
use probe_tests::fixture::site_table::{NOP, Site, SiteTable};

static PROBED: LazyLock<Vec<u8>> = LazyLock::new(|| program("probed", &[]));
static PLAIN: LazyLock<Vec<u8>> = LazyLock::new(|| program("plain", &["--cfg=probe_off"]));

fn program(name: &'static str, flags: &[&'static str]) -> Vec<u8> {
    let loops_as_written = [
        "-Cno-vectorize-loops",
        "-Cllvm-args=-unroll-runtime=false",
        "-Cllvm-args=-unroll-threshold=0",
        "-Cllvm-args=-unroll-allow-partial=false",
        // The walk along the code does not read tables.
        "-Cllvm-args=-min-jump-table-entries=1000",
    ];
    let configuration = Configuration::new(env!("CARGO_TARGET_TMPDIR"), "codegen", name).release();
    configuration.flags(&loops_as_written).flags(flags).build("codegen").bytes("codegen")
}

/// Address and size.
fn symbol(table: &SiteTable<'_>, name: &str) -> (u64, u64) {
    let symbol = table.file().symbol_by_name(name).unwrap_or_else(|| panic!("no symbol {name}"));
    (symbol.address(), symbol.size())
}

/// The one function whose mangled name has all these parts.
fn named<'a>(table: &'a SiteTable<'_>, parts: &[&str]) -> &'a str {
    let names =
        || table.file().symbols().filter(|it| it.kind() == SymbolKind::Text).filter_map(|it| it.name().ok());
    let found: Vec<_> = names().filter(|name| parts.iter().all(|part| name.contains(part))).collect();
    assert_eq!(found.len(), 1, "{parts:?}: {found:?}");
    found[0]
}

fn hot_path(table: &SiteTable<'_>, function: &str) -> HotPath {
    let (start, size) = symbol(table, function);
    HotPath::walk(table, start, size)
}

/// The hot path of `function` must be the plain function's, but for `sites` NOPs, their padding, and at most what
/// `beyond` says; loops must be the same without exception.
fn costs(function: &str, sites: usize, beyond: &[(&str, usize)]) {
    costs_in_loops(function, sites, &[], beyond);
}

/// As [`costs`], with as much more in loops as `in_loops` says.
fn costs_in_loops(function: &str, sites: usize, in_loops: &[(&str, usize)], beyond: &[(&str, usize)]) {
    let (probed, plain) = (SiteTable::parse(&PROBED), SiteTable::parse(&PLAIN));
    compare(function, &hot_path(&probed, function), &hot_path(&plain, function), sites, [in_loops, beyond]);
}

fn compare(
    function: &str,
    probed: &HotPath,
    plain: &HotPath,
    sites: usize,
    [in_loops, beyond]: [&[(&str, usize)]; 2],
) {
    assert_eq!(plain.sites.len(), 0);
    assert_eq!(probed.sites.len(), sites, "sites on the hot path of {function}");
    for site in &probed.sites {
        assert!((1..=5).contains(&probed.padding_before(*site)), "padding before {site:#x} in {function}");
    }
    let listings = || {
        format!(
            "{function}, plain:\n{}{function}, probed:\n{}",
            listing(&plain.all()),
            listing(&probed.all())
        )
    };
    let more = |probed: Vec<_>, plain: Vec<_>| Mix::of(&probed).beyond(&Mix::of(&plain));
    for (found, allowed, place) in [
        (more(probed.in_loops(), plain.in_loops()), in_loops, "loops of "),
        (more(probed.all(), plain.all()), beyond, ""),
    ] {
        let is_allowed = |name: &str, count| allowed.iter().any(|it| it.0 == name && count <= it.1);
        let is_right = found.iter().all(|(name, count)| is_allowed(name, *count));
        assert!(is_right, "{found:?} more, {allowed:?} allowed, in {place}{}", listings());
    }
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

/// A future's poll: the probes' own and the future's are one function. Beyond the sites it asks whether this poll is the first, and
/// whether it ends with a result.
#[test]
fn poll() {
    let (probed, plain) = (SiteTable::parse(&PROBED), SiteTable::parse(&PLAIN));
    let [probed_poll, plain_poll] =
        [named(&probed, &["Probed", "Future", "poll"]), named(&plain, &["codegen5steps"])];
    let beyond = [("cmp", 2), ("jcc", 3), ("jmp", 2), ("movzx", 1), ("test", 1), ("ud2", 1)];
    compare("poll", &hot_path(&probed, probed_poll), &hot_path(&plain, plain_poll), 4, [&[], &beyond]);
    let own = probed.file().symbols().filter_map(|it| it.name().ok()).filter(|name| {
        name.contains("codegen5steps")
            && !name.contains("__probe_stub")
            && !name.contains("__PROBE_DEFINITION")
    });
    assert_eq!(own.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn arguments() {
    costs_only_nops("arguments", 2);
}

#[test]
fn all_arguments() {
    costs("all_arguments", 2, &[]);
}

/// The expression calls what panics, and the program goes on after it: a leaf function gets a frame.
#[test]
fn contained_argument() {
    costs("contained_argument", 2, &[("push", 3), ("pop", 3), ("(stack)", 6)]);
}

#[test]
fn scalar_result() {
    costs_only_nops("scalar_result", 2);
}

#[test]
fn pair_result() {
    costs("pair_result", 2, &[]);
}

/// The result is put together before the exit, not in the way out.
#[test]
fn packed_result() {
    costs("packed_result", 2, &[("add", 2), ("setb", 1), ("xor", 1)]);
}

/// Five words are kept for the exit, in registers.
#[test]
fn large_result() {
    costs("large_result", 2, &[("mov", 1), ("pop", 3), ("push", 3), ("(stack)", 6)]);
}

/// A result in the caller's memory is written there after the exit, not where it is made.
#[test]
fn early_result() {
    costs("early_result", 2, &[("mov", 7), ("movzx", 3), ("(stack)", 9)]);
}

#[test]
fn lent_result() {
    costs_only_nops("lent_result", 2);
}

/// The exit stands between what makes the result and who looks at it, so the result is made as it is returned.
#[test]
fn captures_in_a_loop() {
    let in_loops = [("cmp", 1), ("inc", 1), ("mov", 1), ("setne", 1), ("xor", 1)];
    let beyond = [
        ("cmp", 1),
        ("inc", 1),
        ("mov", 1),
        ("setne", 1),
        ("xor", 1),
        ("jmp", 1),
        ("push", 2),
        ("pop", 2),
        ("(stack)", 4),
    ];
    costs_in_loops("captures_in_a_loop", 2, &in_loops, &beyond);
}

/// The loop is the same; ahead of it, addresses are computed that only a panic needs.
#[test]
fn contained_point_in_a_loop() {
    let frame = [("push", 6), ("pop", 6), ("add", 1), ("sub", 1), ("(stack)", 14)];
    let ahead = [("mov", 4), ("(load)", 4), ("lea", 1), ("jmp", 1), ("xor", 1)];
    costs("contained_loop", 1, &[&frame[..], &ahead[..]].concat());
}

/// The address of the copy is computed before the loop.
#[test]
fn formatted_point_in_a_loop() {
    costs("formatted_loop", 1, &[("jmp", 1), ("lea", 1), ("xor", 1)]);
}

/// A function that may be replaced has one NOP more, and nothing else of what that takes: its own probe's two, and the
/// replacement's.
#[test]
fn replaceable() {
    costs_only_nops("replaceable_leaf", 3);
    costs("replaceable_method", 3, &[]);
    // The frame has a slot for the float, which the cold blocks keep there.
    costs("replaceable_owner", 3, &[("add", 1), ("sub", 1), ("(stack)", 2)]);
    // Two ways out.
    costs("replaceable_caller", 4, &[("jmp", 1)]);
}

/// `SiteTable::sites` checks each record: a NOP, in code, in one aligned word.
#[test]
fn every_site_is_whole() {
    let table = SiteTable::parse(&PROBED);
    let sites = table.sites();
    assert_eq!(table.nops(), sites.len());
    assert_eq!(SiteTable::parse(&PLAIN).nops(), 0);
}

/// Compiled for size, functions are not aligned, and guards' drops stand by themselves. `SiteTable::sites` checks each site here, too.
#[test]
fn no_function_begins_with_a_site() {
    for name in ["s", "z"] {
        let flag: &'static str = format!("-Copt-level={name}").leak();
        let sites = SiteTable::parse(&program(format!("for_{name}").leak(), &[flag])).sites().len();
        assert!(sites >= 50, "{sites} sites at {flag}");
    }
}

/// What an active site jumps to calls the probe's stub, which is `push rdi; lea rdi, [rip + rel32]; jmp [rdi]`.
#[test]
fn cold_blocks_call_their_stubs() {
    let table = SiteTable::parse(&PROBED);
    for Site { addr, target, stub } in table.sites() {
        assert!(leads_to_call(&table, target, stub), "the cold block of {addr:#x} does not call {stub:#x}");
        let bytes = table.bytes_at(stub, 10).expect("the stub is in the file");
        assert_eq!((&bytes[..4], &bytes[8..]), (&[0x57, 0x48, 0x8d, 0x3d][..], &[0xff, 0x27][..]));
        assert!(table.definition_of(stub).is_some());
    }
}

/// Whether a way leads from `start` to a call of `stub`, before any site is passed.
fn leads_to_call(table: &SiteTable<'_>, start: u64, stub: u64) -> bool {
    let (mut seen, mut to_do) = (BTreeSet::new(), vec![start]);
    while let Some(at) = to_do.pop() {
        if !seen.insert(at) {
            continue;
        }
        let code = table.bytes_at(at, 16).expect("code is in the file");
        let instruction = Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode();
        let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
        match instruction.flow_control() {
            FlowControl::Call if target == stub => return true,
            _ if code.starts_with(&NOP) => {}
            FlowControl::ConditionalBranch => to_do.extend([target, next]),
            FlowControl::UnconditionalBranch => to_do.push(target),
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => to_do.push(next),
            _ => {}
        }
    }
    false
}
