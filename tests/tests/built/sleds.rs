//! Sleds of compilers, `-fpatchable-function-entry` and XRay's, in the C and C++ sources of the
//! other tests: exact counts and pairs, all registers, and toggling under load. A process of its
//! own: it attaches to all probes there are. Tests take turns.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use probe_build::Sites;
use probe_runtime::patch::{OpenText, RefusalReason};
use probe_runtime::registry::discover_probes;
use probe_runtime::{Count, Kind, Latency, probes, select, select_persistent, sleds};
use probe_tests::c::{Compiler, Language, Object, Recipe, Tally, hits_by_function};
use probe_tests::destroyer::Destroyer;
use probe_tests::machine_state;
use probe_tests::text::Text;
use probe_tests::turn::turn;
use probe_tests::whole;

use crate::{c_registers, c_toggle};

/// Flags of one build, and whether it has exits.
type Build = (Compiler, &'static str, bool);

const XRAY: &str = "-fxray-instrument -fxray-instruction-threshold=1";

/// gcc's NOPs of one byte; LLVM's of 5, 6, 8 and 10 bytes; some before the function, some behind
/// `endbr64`; XRay's.
const BUILDS: [Build; 7] = [
    (Compiler::Gcc, "-fpatchable-function-entry=5", false),
    (Compiler::Clang, "-fxray-instrument -fxray-instruction-threshold=1", true),
    (Compiler::Clang, "-fpatchable-function-entry=5", false),
    (Compiler::Gcc, "-fcf-protection=full -fpatchable-function-entry=9,3", false),
    (Compiler::Clang, "-fcf-protection=full -fpatchable-function-entry=6", false),
    (Compiler::Clang, "-fpatchable-function-entry=8", false),
    (Compiler::Clang, "-fpatchable-function-entry=18,2", false),
];

/// Returns the builds to test: a slice has the first two.
fn builds() -> impl Iterator<Item = Build> {
    let many = if whole::is_asked_for() { BUILDS.len() } else { 2 };
    BUILDS.into_iter().take(many).filter(|(compiler, ..)| compiler.is_there())
}

fn recipe((compiler, flags, _): Build, language: Language, level: &str) -> Recipe {
    Recipe::new(compiler, language, Sites::None, &format!("{level} -g {flags}"))
}

fn opened(recipe: &Recipe) -> Object {
    let object = Object::open(&recipe.build(env!("CARGO_TARGET_TMPDIR")).0);
    sleds::look_ahead();
    object
}

/// Asserts that the text is the file's, but for what no thread executes behind an XRay sled's jump
/// or return, and behind the first two bytes of a long NOP.
fn assert_latent(path: &Path, (_, flags, _): Build) {
    if !flags.contains("xray") && !flags.contains("=8") && !flags.contains("=18") {
        Text::of(path).assert_as_in_file();
    }
}

#[test]
fn every_call_is_counted_and_paired() {
    let _turn = turn();
    for build in builds() {
        for (language, level) in [(Language::C, "-O2"), (Language::Cpp, "-O2"), (Language::C, "-O0")] {
            let recipe = recipe(build, language, level);
            let object = opened(&recipe);
            let before = object.counters();
            let count = select("**").unwrap().attach(Count::new()).unwrap();
            let latency = select("**").unwrap().attach(Latency::new()).unwrap();
            assert_eq!((count.report().refused(), latency.report().refused()), (0, 0));
            let _ = object.run(language);
            let after = object.counters();
            let hits = hits_by_function(&count.counts());
            let mut pairs: BTreeMap<_, [u64; 3]> = BTreeMap::new();
            for it in &latency.latencies() {
                let file = it.function().file().rsplit('/').next().unwrap_or_default().to_owned();
                let numbers = [it.calls(), it.unpaired().without_exit, it.unpaired().without_entry];
                let sums = pairs.entry((it.path().to_owned(), file)).or_default();
                sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
            }
            let (mut wrong, mut called) = (Vec::new(), 0);
            for (function, counter) in &after {
                let counter = counter.since(before[function]);
                let Some([entries, exits]) = hits.get(function) else { continue };
                if counter.tally != Tally::Exact {
                    continue;
                }
                called += usize::from(counter.entries != 0);
                let left = counter.exits(recipe.compiler, Sites::None);
                let (expected, found) = if build.2 {
                    let pairs = pairs.get(function).copied().unwrap_or_default();
                    // `Latency` leaves out a function that never returns.
                    let is_left = exits.map(|_| left);
                    let expected = if is_left.is_none() { [0; 3] } else { [left, counter.entries - left, 0] };
                    assert!(is_left.is_some() || left == 0, "{function:?}");
                    ((Some(counter.entries), is_left, expected), (*entries, *exits, pairs))
                } else {
                    ((Some(counter.entries), None, [0; 3]), (*entries, *exits, [0; 3]))
                };
                if found != expected {
                    wrong.push(format!("{function:?}: {found:?}, not {expected:?}"));
                }
            }
            assert!(wrong.is_empty(), "{}: {wrong:#?}", recipe.name());
            assert!(called > 20, "{}: {called} functions", recipe.name());
            drop((count, latency));
            assert_latent(&object.path, build);
            object.library.close();
        }
    }
    assert!(probes().iter().all(|probe| probe.sites() == 0), "they have gone with their objects");
}

#[test]
fn all_registers_survive() {
    let _turn = turn();
    if !machine_state::is_supported() {
        println!("skipped: the processor has no XSAVE");
        return;
    }
    for build in builds() {
        let (compiler, _, has_exits) = build;
        let plain = Recipe::new(compiler, Language::C, Sites::None, "-O2").files(&["state.c"]);
        let plain = Object::open(&plain.build(env!("CARGO_TARGET_TMPDIR")).0);
        let object = opened(&recipe(build, Language::C, "-O2").files(&["state.c"]));
        let (expected, calls) = c_registers::run(&plain);
        let same = |state: &str| {
            let (found, _) = c_registers::run(&object);
            for ((call, _, expected), (_, _, found)) in expected.iter().zip(&found) {
                let differences = expected.differences(found);
                assert!(differences.is_empty(), "{call}, {state}, {build:?}: {differences:#?}");
            }
        };
        same("latent");
        let hits = if has_exits { 2 * calls } else { calls };
        let count = select("state_*").unwrap().attach(Count::new()).unwrap();
        same("counted");
        assert_eq!(count.total(), hits);
        let destroyer = select("state_*").unwrap().attach(Destroyer::default()).unwrap();
        same("destroyed");
        assert_eq!((destroyer.failure(), destroyer.calls(), destroyer.surprised()), (None, hits, 0));
        drop((destroyer, count));
        if has_exits {
            c_registers::under_each_consumer(&same, calls);
        }
        same("latent again");
        assert_latent(&object.path, build);
        object.library.close();
        plain.library.close();
    }
}

#[test]
fn results_are_right_while_sleds_are_toggled() {
    let _turn = turn();
    let time = Duration::from_millis(if whole::is_asked_for() { 1500 } else { 300 });
    for build in builds() {
        for language in [Language::C, Language::Cpp] {
            let plain = Recipe::new(build.0, language, Sites::None, "-O2");
            let plain = Object::open(&plain.build(env!("CARGO_TARGET_TMPDIR")).0);
            let object = opened(&recipe(build, language, "-O2"));
            c_toggle::toggle(&plain, &object, language, Sites::EntryReturn, time);
            assert_latent(&object.path, build);
            object.library.close();
            plain.library.close();
        }
    }
}

#[test]
fn functions_have_names_files_and_lines() {
    let _turn = turn();
    for build in [BUILDS[0], (Compiler::Clang, XRAY, true)] {
        if !build.0.is_there() {
            continue;
        }
        let object = opened(&recipe(build, Language::Cpp, "-O1"));
        let found = probes();
        let push = |kind| {
            found.iter().find(|it| it.path().ends_with("::push") && it.kind() == kind && it.sites() != 0)
        };
        let entry = push(Kind::Entry).expect("a member function");
        assert!(entry.file().contains("templates") && entry.line() != 0, "{entry}");
        assert_eq!(push(Kind::Exit).is_some(), build.2);
        object.library.close();
    }
}

/// Writes to text as a debugger does.
fn write(addr: usize, bytes: &[u8]) {
    let _open = OpenText::new(addr..addr + bytes.len()).unwrap();
    for (at, byte) in (addr..).zip(bytes) {
        // SAFETY: text of a fixture that no thread executes now.
        unsafe { (at as *mut u8).write_volatile(*byte) };
    }
}

#[test]
fn foreign_bytes_are_left_alone_and_named() {
    let _turn = turn();
    // Behind a breakpoint: one between the NOPs, another tool's CALL, and what XRay's own runtime
    // writes.
    for (build, foreign) in [
        (BUILDS[0], &[0xcc][..]),
        (BUILDS[0], &[0x90, 0x90, 0xcc]),
        (BUILDS[0], &[0xe8, 0x10, 0x20, 0, 0]),
        (BUILDS[1], &[0x41, 0xba]),
    ] {
        if !build.0.is_there() {
            continue;
        }
        let object = opened(&recipe(build, Language::C, "-O2").files(&["state.c"]));
        let at = object.library.symbol("state_nothing").addr();
        // SAFETY: text of the fixture.
        let before = unsafe { (at as *const [u8; 5]).read_volatile() };
        // An attachment needs one site that can be activated.
        let nothing = || {
            let both = select("state_nothing kind=entry, state_pair kind=entry").unwrap();
            both.attach(Count::new()).unwrap()
        };
        let call = || drop(c_registers::run(&object));
        write(at, foreign);
        let count = nothing();
        let refusals = count.report().refusals();
        let [refusal] = refusals else { panic!("{refusals:?}") };
        assert_eq!(refusal.site(), at);
        let RefusalReason::Foreign { expected, found } = refusal.reason() else { panic!("{refusal}") };
        assert_eq!(
            (&expected[..foreign.len()], &found[..foreign.len()]),
            (&before[..foreign.len()], foreign)
        );
        // SAFETY: text of the fixture.
        assert_eq!(unsafe { (at as *const u8).read_volatile() }, foreign[0]);
        drop(count);
        write(at, &before[..foreign.len()]);
        let count = nothing();
        call();
        assert!(count.total() != 0 && count.report().refused() == 0);
        // A breakpoint on an active one.
        write(at, &[0xcc]);
        let report = count.detach();
        assert_eq!(report.refused(), 1);
        write(at, &before[..2]);
        assert_latent(&object.path, build);
        object.library.close();
    }
}

#[test]
fn sleds_join_with_their_objects_and_go() {
    let _turn = turn();
    sleds::look_ahead();
    for build in builds() {
        let (path, _) =
            recipe(build, Language::C, "-O2").files(&["state.c"]).build(env!("CARGO_TARGET_TMPDIR"));
        let count = select_persistent("state_*").unwrap().attach(Count::new()).unwrap();
        let mut all = 0;
        for _ in 0..5 {
            let object = Object::open(&path);
            discover_probes();
            let (_, calls) = c_registers::run(&object);
            all += if build.2 { 2 * calls } else { calls };
            object.library.close();
            discover_probes();
        }
        assert_eq!((count.total(), count.report().refused()), (all, 0), "{build:?}");
        // Loaded again at once, perhaps at the same place.
        let first = Object::open(&path);
        discover_probes();
        let (_, calls) = c_registers::run(&first);
        first.library.close();
        let second = Object::open(&path);
        discover_probes();
        let _ = c_registers::run(&second);
        all += 2 * if build.2 { 2 * calls } else { calls };
        assert_eq!(count.total(), all, "{build:?}");
        drop(count);
        assert_latent(&second.path, build);
        second.library.close();
    }
}

/// A place that the calls of five NOPs lead to may be in use.
#[test]
fn a_place_that_is_taken_is_named() {
    const PUN: usize = 0x6f6f_6f6b;
    let _turn = turn();
    if !Compiler::Gcc.is_there() {
        return;
    }
    sleds::look_ahead();
    let (path, _) =
        recipe(BUILDS[0], Language::C, "-O1").files(&["state.c"]).build(env!("CARGO_TARGET_TMPDIR"));
    let object = Object::open(&path);
    let place = (object.library.symbol("state_nothing").addr() - PUN) & !4095;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping over nothing.
    let taken = unsafe { libc::mmap(place as *mut _, 4096, libc::PROT_READ, flags, -1, 0) };
    assert_eq!(taken.addr(), place);
    let all = probes();
    let nothing = all.iter().find(|it| it.path() == "state_nothing" && it.skipped().is_some());
    let reason = nothing.and_then(|it| it.skipped()).expect("left out");
    assert!(reason.contains("other memory is there") && reason.contains("probectl run"), "{reason}");
    assert!(select("state_nothing").is_err());
    Text::of(&path).assert_as_in_file();
    object.library.close();
    // SAFETY: the mapping from above.
    unsafe { libc::munmap(taken, 4096) };
}
