//! Every register there is, set before and seen after calls of C functions that leave almost all of
//! them as they were: around entries, returns and tail calls nothing changes but the flags,
//! whatever a consumer does. A process of its own: it counts all probes there are.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

use std::ffi::c_void;

use probe_build::Sites;
use probe_runtime::{Count, select};
use probe_tests::c::{Compiler, Language, Object, Recipe};
use probe_tests::destroyer::Destroyer;
use probe_tests::machine_state::{self, State};
use probe_tests::text::Text;

/// Functions of `tests/c/state.c`, and how many functions of this file are called in all.
const FUNCTIONS: [(&str, u64); 10] = [
    ("state_nothing", 1),
    ("state_tail", 2),
    ("state_memory_tail", 3),
    ("state_branch", 1), // or 2, by its argument
    ("state_x87", 1),
    ("state_x87_pair", 1),
    ("state_pair", 1),
    ("state_wide", 1),
    ("state_memory", 1),
    ("state_branch", 2),
];

/// The memory at the address that `state_memory` gets.
static mut PLACE: [u64; 9] = [0; 9];

/// Calls every function with every state; gives the registers after each, and how many functions
/// were called.
fn run(object: &Object) -> (Vec<(String, State, State)>, u64) {
    let mut all = Vec::new();
    let mut calls = 0;
    for (at, (name, called)) in FUNCTIONS.into_iter().enumerate() {
        let function: *const c_void = object.library.symbol(name);
        for seed in 1..=8 {
            let leaves_x87_alone = !name.contains("x87");
            let state = State::random(seed + 100 * at as u64, seed % 2 == 0 && leaves_x87_alone);
            let argument = match (name, called) {
                ("state_memory", _) => (&raw mut PLACE).addr() as u64,
                ("state_branch", 2) => u64::MAX,
                _ => 7,
            };
            let state = state.argument(argument);
            // SAFETY: functions of this type, or of no arguments; this test is the only one in its
            // process.
            let after = unsafe { state.call(function, if seed % 3 == 0 { 8 } else { 0 }) };
            all.push((format!("{name}, seed {seed}"), state, after));
            calls += called;
        }
    }
    (all, calls)
}

#[test]
fn all_registers_survive() {
    if !machine_state::is_supported() {
        println!("skipped: the processor has no XSAVE");
        return;
    }
    let root = env!("CARGO_TARGET_TMPDIR");
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for flags in ["-O2 -fcf-protection=full", "-O3 -fomit-frame-pointer", "-Os"] {
            let recipe = |sites| Recipe::new(compiler, Language::C, sites, flags).files(&["state.c"]);
            let plain = Object::open(&recipe(Sites::None).build(root).0);
            let (path, report) = recipe(Sites::EntryReturn).build(root);
            assert_eq!((report.placed(), report.left_out()), (9, 0), "{report}");
            let object = Object::open(&path);
            let (expected, calls) = run(&plain);
            let same = |state: &str| {
                let (found, _) = run(&object);
                for ((call, _, expected), (_, _, found)) in expected.iter().zip(&found) {
                    let differences = expected.differences(found);
                    assert!(
                        differences.is_empty(),
                        "{call}, {state}, {}: {differences:#?}",
                        recipe(Sites::EntryReturn).name()
                    );
                }
            };
            same("latent");
            let count = select("**").unwrap().attach(Count::new()).unwrap();
            same("counted");
            assert_eq!(count.total(), 2 * calls);
            for (destroyer, hits) in [(Destroyer::default(), 4), (Destroyer::in_order(), 6)] {
                let destroyer = select("**").unwrap().attach(destroyer).unwrap();
                same("destroyed");
                assert_eq!(
                    (destroyer.failure(), destroyer.calls(), count.total()),
                    (None, 2 * calls, hits * calls)
                );
                assert_eq!(destroyer.surprised(), 0, "the x87 stack was not empty");
            }
            drop(count);
            same("latent again");
            Text::of(&path).assert_as_in_file();
            // That nothing is kept by chance: the functions themselves leave all but their results
            // alone.
            let (call, before, after) = &expected[0];
            assert_eq!(before.differences(after), Vec::<String>::new(), "{call}");
            plain.library.close();
            object.library.close();
        }
    }
}
