//! Places and assembles the output of the compilers of this machine: the bytes before every return
//! are a site.

use super::*;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Register};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::path::{Path, PathBuf};
use std::process::Command;

const SITE_BYTES: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];
const C: &str = include_str!("../samples/sample.c");
const CXX: &str = include_str!("../samples/sample.cpp");

/// Returns whether a compiler is installed.
fn is_here(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Creates a folder for one call.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("probe-build-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}

fn run(compiler: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(compiler).args(arguments).current_dir(folder).output().expect("it runs");
    assert!(output.status.success(), "{compiler} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles, places and assembles.
fn object(compiler: &str, source: &str, flags: &[&str], sites: Sites, folder: &Path) -> (Placed, Vec<u8>) {
    let gnu = compiler.starts_with('g');
    let file = if compiler.ends_with("++") { "a.cpp" } else { "a.c" };
    std::fs::write(folder.join(file), source).expect("written");
    let mut arguments = vec!["-w", "-S", "-g1", file, "-o", "a.s"];
    arguments.extend(gnu.then_some("-dp"));
    if sites == Sites::InstrumentFunctions {
        arguments.extend(["-finstrument-functions", "-fno-optimize-sibling-calls"]);
    }
    arguments.extend(flags);
    run(compiler, &arguments, folder);
    let text = std::fs::read_to_string(folder.join("a.s")).expect("the assembly");
    let family = if gnu { Family::Gnu } else { Family::Clang };
    let keep_debug = flags.contains(&"-g");
    let placed = place(&text, &Request { keep_debug, ..request(sites, family) })
        .unwrap_or_else(|error| panic!("{compiler} {flags:?}: {error}"));
    std::fs::write(folder.join("b.s"), &placed.text).expect("written");
    run(compiler, &["-c", "b.s", "-o", "b.o"], folder);
    let mut object = std::fs::read(folder.join("b.o")).expect("the object");
    crate::section_names::cut(&mut object).expect("an object");
    (placed, object)
}

/// Checks that every function is placed, that there is a record for each site and a site before
/// each return, and that no reference to a hook remains.
fn check(compiler: &str, source: &str, flags: &[&str], sites: Sites) {
    let folder = folder(&format!("{compiler}-{sites:?}-{}", flags.concat()));
    let (placed, bytes) = object(compiler, source, flags, sites, &folder);
    let said = format!("{compiler} {flags:?} {sites:?}");
    let mut expected = 0;
    for (function, outcome) in &placed.functions {
        match outcome {
            Outcome::Placed { entries, exits, unknown_hooks: 0, .. } => expected += entries + exits,
            Outcome::Excluded(Exclusion::NoHooks) => {}
            _ => panic!("{said}: {}: {outcome}", function.symbol),
        }
    }
    let object = object::File::parse(&*bytes).expect("an object");
    let records: u64 =
        object.sections().filter(|it| it.name() == Ok("probe_sites")).map(|it| it.size()).sum();
    assert_eq!(records, 16 * expected as u64, "{said}");
    assert!(object.symbols().all(|it| !it.name().unwrap_or_default().contains("__cyg_profile")), "{said}");
    let has_debug = object.sections().any(|it| it.name().unwrap_or_default().starts_with(".debug_"));
    assert_eq!(has_debug, flags.contains(&"-g"), "{said}");
    no_site_begins_a_symbol(&object, &said);
    if sites == Sites::EntryReturn {
        for section in object.sections().filter(|it| it.kind() == SectionKind::Text) {
            if !section.name().unwrap_or_default().contains("__probe_stub_") {
                returns_have_sites(section.data().expect("bytes"), &said);
            }
        }
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

/// Checks that a tracer on a symbol finds an instruction other than a site there.
fn no_site_begins_a_symbol(object: &object::File<'_>, said: &str) {
    for symbol in object.symbols().filter(|it| it.kind() == SymbolKind::Text && it.is_definition()) {
        let section = object.section_by_index(symbol.section_index().expect("defined")).expect("there");
        let first = section.data_range(symbol.address(), 5).expect("bytes");
        assert_ne!(first, Some(&SITE_BYTES[..]), "{said}: a site at {}", symbol.name().unwrap_or_default());
    }
}

fn returns_have_sites(code: &[u8], said: &str) {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut last = None;
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let at = usize::try_from(instruction.ip()).expect("small");
        if instruction.flow_control() == FlowControl::Return {
            assert_eq!(last, Some(at - 5), "{said}: a return at {at:#x} without a site");
        }
        if code[at..].starts_with(&SITE_BYTES) && instruction.code() == Code::Nop_rm32 {
            assert_eq!(instruction.memory_base(), Register::RAX);
            assert!(at % 8 <= 3, "{said}: a site at {at:#x} straddles");
            last = Some(at);
        }
    }
}

const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];
const VARIANTS: [&[&str]; 9] = [
    &[],
    &["-fPIC"],
    &["-fPIC", "-fno-plt"],
    &["-fcf-protection"],
    &["-g"],
    &["-ffunction-sections"],
    &["-fsanitize=undefined"],
    &["-fsanitize=address"],
    &["-fno-asynchronous-unwind-tables", "-fno-exceptions"],
];

/// Whether each level is tried with each variant by each compiler. The integration tests read the
/// same variable.
fn is_whole() -> bool {
    std::env::var("PROBE_TEST_WHOLE").is_ok_and(|value| value == "1")
}

/// Returns the variants for a source. Without exceptions, that in C++ is not valid; without a PLT,
/// it takes too long. In a slice, it has those that add code to functions.
fn variants(source: &str, is_whole: bool) -> Vec<&'static [&'static str]> {
    let is_tried = |variant: &&[&str]| match variant {
        _ if source == C => true,
        [] | ["-fcf-protection" | "-fsanitize=undefined" | "-fsanitize=address"] => true,
        _ => is_whole && !variant.contains(&"-fno-exceptions") && !variant.contains(&"-fno-plt"),
    };
    VARIANTS.into_iter().filter(is_tried).collect()
}

/// Returns the flags for one of two compilers. In a slice, each level goes with other variants, and
/// each variant with one level. Both compilers have each level, and one of them each variant.
fn flags(compiler: usize, source: &str, levels: &[&'static str], is_whole: bool) -> Vec<Vec<&'static str>> {
    let mut flags = Vec::new();
    for (at, variant) in variants(source, is_whole).into_iter().enumerate() {
        for (level_at, level) in levels.iter().enumerate() {
            // Half of the variants with their own level, and each level without further flags.
            let is_turn = variant.is_empty() || at % 2 == compiler && at % levels.len() == level_at;
            if is_whole || is_turn {
                flags.push([&[*level], variant].concat());
            }
        }
    }
    flags
}

fn check_all(compilers: [&str; 2], source: &str, levels: &[&'static str], sites: Sites) {
    for (at, compiler) in compilers.into_iter().enumerate().filter(|(_, compiler)| is_here(compiler)) {
        for flags in flags(at, source, levels, is_whole()) {
            check(compiler, source, &flags, sites);
        }
    }
}

#[test]
fn a_slice_has_each_level_and_variant() {
    for (source, levels) in [(C, &LEVELS[..]), (CXX, &["-O2"])] {
        let [gnu, clang] = [0, 1].map(|compiler| flags(compiler, source, levels, false));
        for of_one in [&gnu, &clang] {
            assert!(levels.iter().all(|level| of_one.contains(&vec![*level])));
        }
        let all = [gnu, clang].concat();
        let mut variants = variants(source, false).into_iter();
        assert!(variants.all(|variant| all.iter().any(|flags| flags[1..] == *variant)));
    }
    assert_eq!(variants(C, false), VARIANTS);
}

#[test]
fn c_entries_and_returns() {
    check_all(["gcc", "clang"], C, &LEVELS, Sites::EntryReturn);
}

#[test]
fn c_hooks() {
    check_all(["gcc", "clang"], C, &LEVELS, Sites::InstrumentFunctions);
}

#[test]
fn cxx_entries_and_returns() {
    check_all(["g++", "clang++"], CXX, &["-O2"], Sites::EntryReturn);
}

/// Names, files and lines are those of the source.
#[test]
fn places_are_those_of_the_source() {
    for compiler in ["gcc", "clang"].into_iter().filter(|compiler| is_here(compiler)) {
        let folder = folder(&format!("{compiler}-places"));
        for sites in [Sites::EntryReturn, Sites::InstrumentFunctions] {
            let (placed, _) = object(compiler, C, &["-O2"], sites, &folder);
            for (path, line) in [("tail", 5), ("indirect", 6), ("choose", 7), ("go", 18), ("loop", 30)] {
                let (function, _) =
                    placed.functions.iter().find(|(function, _)| function.path == path).expect("it is there");
                assert_eq!(
                    (function.file.as_str(), function.line),
                    ("a.c", line),
                    "{compiler} {sites:?} {path}"
                );
            }
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
