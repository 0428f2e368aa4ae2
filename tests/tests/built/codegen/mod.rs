//! A latent site costs one NOP: compares the machine code of the program in `codegen/` with that of
//! the same program with the feature `off`, or with `--cfg probe_off` in the whole.
//!
//! Neither build unrolls or vectorises loops: both would copy a site, which is impossible, so the
//! compiler leaves a loop with a point as written. This cost of a point in a hot loop is beyond the
//! NOP, and not part of the comparison.
//!
//! In a slice the runtime is not optimised, but for its code that the program inlines. Two
//! functions get other instructions then, and are left to the whole.

// The test builds its program for the native backend, so it need not run for the portable one.
#![cfg(not(probe_portable))]

pub(crate) mod hot_path;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hot_path::{HotPath, Mix, listing};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::{Object, ObjectSymbol, SymbolKind};
use probe_tests::fixture::Configuration;
use probe_tests::fixture::site_table::{NOP, Site, SiteTable};
use probe_tests::whole;

static PROBED: LazyLock<Vec<u8>> =
    LazyLock::new(|| program(configuration("probed").release_on_plain_runtime()));
/// Without probes, nothing of the runtime is inlined. Other tests have a runtime with the feature
/// `off`, too, so a slice compiles it once.
static PLAIN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let plain = configuration("plain").release_on_plain_runtime();
    let is_whole = whole::is_asked_for();
    program(if is_whole { plain.flags(&["--cfg=probe_off"]) } else { plain.features(&["off"]) })
});

fn configuration(name: &'static str) -> Configuration {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "codegen", name)
}

fn program(configuration: Configuration) -> Vec<u8> {
    let loops_as_written = [
        "-Cno-vectorize-loops",
        "-Cllvm-args=-unroll-runtime=false",
        "-Cllvm-args=-unroll-threshold=0",
        "-Cllvm-args=-unroll-allow-partial=false",
        // The walk along the code does not read jump tables.
        "-Cllvm-args=-min-jump-table-entries=1000",
        "-Ccodegen-units=1",
    ];
    configuration.flags_of_program(&loops_as_written).build("codegen").bytes("codegen")
}

/// Returns a symbol's address and size.
fn symbol(table: &SiteTable<'_>, name: &str) -> (u64, u64) {
    let symbol = table.file().symbol_by_name(name).unwrap_or_else(|| panic!("no symbol {name}"));
    (symbol.address(), symbol.size())
}

/// Returns the one function whose mangled name has all these parts.
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

/// Checks that the hot path of `function` equals the plain function's, except for `sites` NOPs,
/// their padding, and at most the instructions in `beyond`. Loops must be equal.
fn costs(function: &str, sites: usize, beyond: &[(&str, usize)]) {
    costs_in_loops(function, sites, &[], beyond);
}

/// As [`costs`], but loops may also have the instructions in `in_loops`.
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

/// As [`costs`], without further instructions, and with the same order and operands.
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
    // The one ahead of the entry, the entry, and the exit with its prefixes.
    for function in ["nothing", "leaf", "setter"] {
        assert_eq!(hot_path(&SiteTable::parse(&PROBED), function).nops(), 3, "{function}");
    }
}

#[test]
fn text_field() {
    costs_only_nops("text_field", 3);
}

#[test]
fn generic_inlined_four_times() {
    costs("inlined_four_times", 8, &[]);
}

/// A site ends a basic block: the compiler misses that the argument already is in its register.
#[test]
fn calls() {
    costs("caller", 3, &[("mov", 1)]);
}

#[test]
fn question_mark() {
    costs("question_mark", 3, &[]);
}

/// The exit follows the tail call, so the compiler emits a plain call.
#[test]
fn tail_call() {
    costs("forwarder", 2, &[("call", 1), ("pop", 1), ("push", 1), ("ret", 1), ("(stack)", 2)]);
}

/// All returns lead to the one exit at the end, except for its copies.
#[test]
fn early_returns() {
    costs("early", 3, &[("jmp", 2)]);
}

/// Here and below, the jump leaves the loop, over the cold block.
#[test]
fn point_with_one_field_in_a_loop() {
    costs("one_field_loop", 1, &[("jmp", 1)]);
}

#[test]
fn point_with_two_fields_in_a_float_loop() {
    costs("float_loop", 1, &[("jmp", 1)]);
}

/// The function computes the address of the values' array before the loop. The array lies in the
/// red zone.
#[test]
fn point_with_three_fields_in_a_loop() {
    costs("three_field_loop", 1, &[("jmp", 1), ("lea", 1)]);
}

#[test]
fn point_with_five_fields_in_a_float_loop() {
    costs("five_field_loop", 1, &[("jmp", 1), ("lea", 1), ("sub", 1), ("add", 1), ("(stack)", 2)]);
}

/// The wrapper's poll and the future's are one function. It also tests whether this poll is the
/// first, and whether it returns a result.
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

/// The argument's expression may panic, and the program catches the panic: the leaf function gets a
/// frame.
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

/// The function packs the result before the exit, not at its end.
#[test]
fn packed_result() {
    if !whole::has("packed_result") {
        return;
    }
    costs("packed_result", 2, &[("add", 2), ("setb", 1), ("xor", 1)]);
}

/// Registers keep five words for the exit.
#[test]
fn large_result() {
    costs("large_result", 2, &[("mov", 1), ("pop", 3), ("push", 3), ("(stack)", 6)]);
}

/// The function writes the result to the caller's memory after the exit.
#[test]
fn early_result() {
    costs("early_result", 2, &[("mov", 7), ("movzx", 3), ("(stack)", 9)]);
}

#[test]
fn lent_result() {
    costs_only_nops("lent_result", 2);
}

/// The exit separates the result from the comparison that uses it, so the function materialises the
/// result.
#[test]
fn captures_in_a_loop() {
    if !whole::has("captures_in_a_loop") {
        return;
    }
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

/// The loop is equal. Before it, the function computes addresses that only a panic needs.
#[test]
fn contained_point_in_a_loop() {
    let frame = [("push", 6), ("pop", 6), ("add", 1), ("sub", 1), ("(stack)", 14)];
    let ahead = [("mov", 4), ("(load)", 4), ("lea", 1), ("jmp", 1), ("xor", 1)];
    costs("contained_loop", 1, &[&frame[..], &ahead[..]].concat());
}

/// The function computes the copy's address before the loop.
#[test]
fn formatted_point_in_a_loop() {
    costs("formatted_loop", 1, &[("jmp", 1), ("lea", 1), ("xor", 1)]);
}

/// A replaceable function has one further NOP and no other instructions: two NOPs for its own
/// probe, one for the replacement.
#[test]
fn replaceable() {
    costs_only_nops("replaceable_leaf", 3);
    costs("replaceable_method", 3, &[]);
    // The frame has a slot in which the cold blocks keep the float.
    costs("replaceable_owner", 3, &[("add", 1), ("sub", 1), ("(stack)", 2)]);
    // The function has two exits.
    costs("replaceable_caller", 4, &[("jmp", 1)]);
}

/// `SiteTable::sites` checks each record: it points at a NOP in code, within one aligned word.
#[test]
fn every_site_is_whole() {
    let table = SiteTable::parse(&PROBED);
    let sites = table.sites();
    assert_eq!(table.nops(), sites.len());
    assert_eq!(SiteTable::parse(&PLAIN).nops(), 0);
}

/// Optimisation for size leaves functions unaligned and guards' drops out of line. Here, too,
/// `SiteTable::sites` checks each site.
#[test]
fn no_function_begins_with_a_site() {
    for name in ["s", "z"] {
        let flag: &'static str = format!("-Copt-level={name}").leak();
        let configuration = configuration(format!("for_{name}").leak()).flags_of_program(&[flag]);
        let sites = SiteTable::parse(&program(configuration)).sites().len();
        assert!(sites >= 50, "{sites} sites at {flag}");
    }
}

/// An active site jumps to a cold block, which calls the probe's stub:
/// `push rdi; lea rdi, [rip + rel32]; jmp [rdi]`.
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

/// Returns whether a path leads from `start` to a call of `stub` without passing a site.
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
