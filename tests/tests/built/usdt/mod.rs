//! USDT probes in the file of a program: their notes are exact in each configuration, their NOP is
//! all that they add to latent code, and tools of others see them.

// The test builds its program for the native backend, so it need not run for the portable one.
#![cfg(not(probe_portable))]

mod tools;

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::LazyLock;

use object::{Object, ObjectSymbol};
use probe_tests::fixture::site_table::SiteTable;
use probe_tests::fixture::stapsdt::{UsdtNote, usdt_notes};
use probe_tests::fixture::{Built, Configuration, Linker, TARGET};
use probe_tests::whole;

use crate::codegen::hot_path::{HotPath, Mix, listing};

static RELEASE: LazyLock<Built> =
    LazyLock::new(|| configuration("release").release_on_plain_runtime().build("usdt"));
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| RELEASE.bytes("usdt"));

/// A debug build by another linker; `None` if it is not here, which is said.
fn by(linker: Linker) -> Option<Configuration> {
    let name = match linker {
        Linker::Lld => "debug",
        Linker::Gnu => "gnu_debug",
        Linker::Gold => "gold",
        Linker::Mold => "mold",
    };
    if !linker.is_there() {
        println!("left out: there is no linker {linker:?}");
    }
    linker.is_there().then(|| configuration(name).linker(linker))
}

fn configuration(name: &'static str) -> Configuration {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "usdt", name)
}

/// The names of all notes, with the sizes of their arguments. Checks that each note is at a NOP of
/// one byte, and not at a site's bytes.
fn names(bytes: &[u8]) -> BTreeMap<String, Vec<String>> {
    let table = SiteTable::parse(bytes);
    let sites = table.sites();
    let mut names = BTreeMap::<_, Vec<_>>::new();
    for UsdtNote { addr, provider, name, arguments } in usdt_notes(bytes) {
        assert_eq!(provider, "usdt");
        assert_eq!(table.bytes_at(addr, 1), Some(&[0x90][..]), "{name} at {addr:#x}");
        assert!(!sites.iter().any(|site| (site.addr..site.addr + 5).contains(&addr)), "{name} at {addr:#x}");
        let shown = arguments.split_whitespace().map(|it| it.split_once("@%").expect("a register").0);
        names.entry(name).or_default().push(shown.collect::<Vec<_>>().join(" "));
    }
    names
}

/// The notes of one machine copy of each probe. Optimised code may have more copies.
const NAMES: [(&str, &str); 27] = [
    ("net__Store__put__entry", ""),
    ("net__Store__put__exit", ""),
    ("net__Store__sum__entry", ""),
    ("net__Store__sum__exit", ""),
    ("net__filled", "8 8 8 8"),
    ("net__given__entry", "4 8 8 -4"),
    ("net__given__exit", ""),
    ("net__leaf__entry", ""),
    ("net__leaf__exit", ""),
    ("net__looped", "8"),
    ("net__middle", "8 -4 8 8 4"),
    ("net__mixed__entry", "2"),
    ("net__mixed__exit", ""),
    ("net__narrow", "-1 -2 4 1"),
    ("net__ready__entry", "8"),
    ("net__ready__exit", "8"),
    ("net__ready__resume", "8"),
    ("net__references", "8 8 8 8"),
    ("net__returned__entry", "8 8"),
    ("net__returned__exit", "8"),
    ("net__twice__drop", "8"),
    ("net__twice__entry", "8 8"),
    ("net__twice__exit", "8 8"),
    ("net__twice__resume", "8"),
    ("net__twice__suspend", "8"),
    ("net__wide", "-8 8"),
    ("of_sdt_h", "8"),
];

/// Each linker, each number of codegen units and each level of optimisation has each name, with its
/// arguments' sizes in every copy. The function without callers has a note only where it is there.
#[test]
fn each_configuration_has_each_name() {
    let gnu = |name| configuration(name).linker(Linker::Gnu);
    let mut configurations = vec![configuration("debug"), gnu("gnu").release_on_plain_runtime()];
    configurations.extend([Linker::Gold, Linker::Mold].into_iter().filter_map(by));
    if whole::has("usdt with each setting of the optimiser") {
        configurations.extend([
            configuration("unit").release().setting("CODEGEN_UNITS", "1"),
            configuration("lto").release().setting("LTO", "fat"),
            configuration("size").release().setting("OPT_LEVEL", "z"),
        ]);
        configurations.extend(by(Linker::Gnu));
    }
    for configuration in configurations {
        let bytes = configuration.build("usdt").bytes("usdt");
        let mut found = names(&bytes);
        // GNU ld and mold keep functions with records (docs/objects.md).
        let table = SiteTable::parse(&bytes);
        let is_there = table.file().symbols().any(|it| it.name().is_ok_and(|name| name == "without_caller"));
        for kind in ["entry", "exit"] {
            let note = found.remove(&format!("net__without_caller__{kind}"));
            assert_eq!(note.is_some(), is_there, "a note without its function, {configuration:?}");
        }
        // An optimiser proves that a future which is ready at once passes neither.
        for kind in ["drop", "suspend"] {
            let note = found.remove(&format!("net__ready__{kind}"));
            assert!(note.is_some() || configuration.is_release(), "no {kind}, {configuration:?}");
        }
        let distinct: Vec<_> =
            found.iter().map(|(name, copies)| (name.as_str(), copies[0].as_str())).collect();
        assert_eq!(distinct, NAMES, "{configuration:?}");
        for (name, copies) in &found {
            assert!(copies.iter().all(|it| *it == copies[0]), "{name}: {copies:?} in {configuration:?}");
        }
        assert_eq!(found["net__mixed__entry"].len(), 2, "copies of the generic function, {configuration:?}");
    }
}

/// Without the runtime's feature, the word is an error.
#[test]
fn without_the_feature_it_is_an_error() {
    let configuration = configuration("without").no_default_features();
    let refused = catch_unwind(|| configuration.check("usdt", TARGET)).expect_err("it compiles");
    let message = refused.downcast::<String>().expect("a message");
    let error = "error: `usdt` needs the feature `usdt` of probe-runtime; add it in Cargo.toml: `features = [\"usdt\"]`";
    assert!(message.contains(error), "{message}");
}

/// Returns the address and size of a function.
fn symbol(table: &SiteTable<'_>, name: &str) -> (u64, u64) {
    let symbol = table.file().symbol_by_name(name).unwrap_or_else(|| panic!("no symbol {name}"));
    (symbol.address(), symbol.size())
}

/// Returns the notes inside of a function.
fn notes_in(function: &str) -> Vec<UsdtNote> {
    let (start, size) = symbol(&SiteTable::parse(&BYTES), function);
    let mut notes = usdt_notes(&BYTES);
    notes.retain(|note| (start..start + size).contains(&note.addr));
    notes.sort_by_key(|note| note.addr);
    notes
}

/// Checks that the latent code of a function is that of its twin, but for one NOP of one byte for
/// each of its USDT probes.
#[track_caller]
fn costs_one_nop_each(function: &str, notes: &[(&str, &str)]) {
    let table = SiteTable::parse(&BYTES);
    let path = |function: &str| {
        let (start, size) = symbol(&table, function);
        HotPath::walk(&table, start, size)
    };
    let (asked, plain) = (path(function), path(&format!("{function}_plain")));
    // The compiler may order them otherwise.
    assert_eq!(
        Mix::of(&asked.all()),
        Mix::of(&plain.all()),
        "{}{}",
        listing(&plain.all()),
        listing(&asked.all())
    );
    assert_eq!((asked.sites.len(), plain.other_nops()), (plain.sites.len(), Vec::new()));
    // Cold blocks may lead to a copy of the exit.
    let mut found = notes_in(function);
    let nops = asked.other_nops();
    found.retain(|note| nops.iter().any(|(addr, _)| *addr == note.addr));
    assert_eq!(nops, found.iter().map(|note| (note.addr, 1)).collect::<Vec<_>>());
    let described: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.arguments.as_str())).collect();
    assert_eq!(described, notes);
}

/// The registers are those that have the values anyway.
#[test]
fn a_leaf_costs_one_nop_for_each() {
    costs_one_nop_each(
        "leaf",
        &[
            ("net__leaf__entry", ""),
            ("net__middle", "8@%rdi -4@%rsi 8@%rdx 8@%rcx 4@%r8"),
            ("net__leaf__exit", ""),
        ],
    );
}

#[test]
fn arguments_cost_one_nop() {
    costs_one_nop_each(
        "given",
        &[("net__given__entry", "4@%rdi 8@%rsi 8@%rdx -4@%rcx"), ("net__given__exit", "")],
    );
}

#[test]
fn a_result_costs_one_nop() {
    costs_one_nop_each(
        "returned",
        &[("net__returned__entry", "8@%rdi 8@%rsi"), ("net__returned__exit", "8@%rax")],
    );
}

/// The value of each round is in a register, and is not loaded once more.
#[test]
fn a_point_in_a_loop_costs_one_nop() {
    costs_one_nop_each("looped", &[("net__looped", "8@%rdx")]);
}

/// The future's address is in a register. A future that is ready at once has no suspension on its
/// way, and no drop.
#[test]
fn a_future_costs_one_nop_for_each() {
    costs_one_nop_each(
        "at_once",
        &[("net__ready__resume", "8@%rbx"), ("net__ready__entry", "8@%rbx"), ("net__ready__exit", "8@%rbx")],
    );
}

/// Two copies of one generic function in one: each has notes of its own.
#[test]
fn each_machine_copy_has_a_note() {
    let notes = notes_in("inlined_twice");
    let names: Vec<_> = notes.iter().map(|it| it.name.as_str()).collect();
    let (entry, exit) = ("net__mixed__entry", "net__mixed__exit");
    assert_eq!(names, [entry, exit, entry, exit]);
}
