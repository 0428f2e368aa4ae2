//! Every register there is, set before and seen after calls of C functions that leave almost all of
//! them as they were: around entries, returns and tail calls nothing changes but the flags,
//! whatever a consumer does. A process of its own: it counts all probes there are. Tests take
//! turns.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

use std::ffi::c_void;

use std::path::Path;

use probe_build::Sites;
use probe_runtime::call_tree::TreeNode;
use probe_runtime::latency::FunctionLatency;
use probe_runtime::{Aggregate, CallTree, Count, Event, Latency, Trace, select};
use probe_tests::c::{Compiler, Language, Object, Recipe};
use probe_tests::c_library;
use probe_tests::destroyer::Destroyer;
use probe_tests::library::Library;
use probe_tests::machine_state::{self, State};
use probe_tests::text::Text;
use probe_tests::turn::turn;

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
pub(crate) fn run(object: &Object) -> (Vec<(String, State, State)>, u64) {
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
            // SAFETY: functions of this type, or of no arguments; tests of this process take turns.
            let after = unsafe { state.call(function, if seed % 3 == 0 { 8 } else { 0 }) };
            all.push((format!("{name}, seed {seed}"), state, after));
            calls += called;
        }
    }
    (all, calls)
}

/// Attaches each kind of consumer to all probes, alone and beside others, and has `same` call all
/// functions: first on a new thread's memory, then on the way that most hits take.
pub(crate) fn under_each_consumer(same: &dyn Fn(&str), calls: u64) {
    let all = || select("**").unwrap();
    let latency = all().attach(Latency::new()).unwrap();
    same("measured");
    same("measured again");
    let latencies = latency.latencies();
    let unpaired: u64 = latencies.iter().map(|function| function.unpaired().total()).sum();
    assert_eq!((latencies.iter().map(FunctionLatency::calls).sum::<u64>(), unpaired), (2 * calls, 0));
    let destroyer = all().attach(Destroyer::default()).unwrap();
    same("measured and destroyed");
    assert_eq!((destroyer.calls(), destroyer.surprised()), (2 * calls, 0));
    drop((latency, destroyer));
    let tree = all().attach(CallTree::new()).unwrap();
    same("in a tree");
    same("in a tree again");
    assert_eq!(tree.tree().iter().map(TreeNode::calls).sum::<u64>(), 2 * calls);
    drop(tree);
    let trace = all().attach(Trace::recorder()).unwrap();
    same("traced");
    same("traced again");
    assert_eq!((trace.totals().written, trace.totals().lost), (4 * calls, 0));
    drop(trace);
    let aggregate = all().attach(Aggregate::new("count by(thread)").unwrap()).unwrap();
    same("aggregated");
    drop(aggregate);
    let told = all().attach(|_: &Event<'_>| ()).unwrap();
    same("told");
    drop(told);
}

/// Points of `probe.h`, whose compilers keep values in vector registers across the site.
#[test]
fn vector_registers_survive_points() {
    let _turn = turn();
    if !machine_state::is_supported() {
        println!("skipped: the processor has no XSAVE");
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/state_points.c");
    for make in c_library::makes() {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-points-{}.so", make.c));
        c_library::compile(make.c, &["-O2", "-shared", "-fPIC"], &[&source], &out);
        let library = Library::open(&out);
        let same = |state: &str| {
            for (name, seed) in ["state_point", "state_number"].into_iter().flat_map(|it| [(it, 1), (it, 2)])
            {
                let before = State::random(seed, seed % 2 == 0);
                let function: *const c_void = library.symbol(name);
                // SAFETY: functions without arguments; no other test of this process is in `call`.
                let after = unsafe { before.call(function, 0) };
                // The cold block of a point with a field may change general registers.
                let differences = before.differences_beyond_general(&after);
                assert!(differences.is_empty(), "{name}, {state}, {}: {differences:#?}", make.c);
            }
        };
        same("latent");
        let all = || select("state_point, state_number").unwrap();
        let destroyer = all().attach(Destroyer::default()).unwrap();
        same("destroyed");
        assert_eq!((destroyer.calls(), destroyer.surprised()), (4, 0));
        drop(destroyer);
        let latency = all().attach(Latency::new()).unwrap();
        same("passed to a consumer that pairs calls");
        drop(latency);
        let trace = all().attach(Trace::recorder()).unwrap();
        same("traced");
        same("traced again");
        assert_eq!((trace.totals().written, trace.totals().lost), (8, 0));
        drop(trace);
        library.close();
    }
}

#[test]
fn all_registers_survive() {
    let _turn = turn();
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
            if flags.starts_with("-O2") {
                under_each_consumer(&same, calls);
            }
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
