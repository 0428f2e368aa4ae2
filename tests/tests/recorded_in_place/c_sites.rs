//! Hits of C code: recorded by the way in, or handled by a quick function, with a signal's hits
//! between any two instructions.

use std::sync::atomic::{AtomicPtr, Ordering};

use probe_build::Sites;
use probe_runtime::call_tree::TreeNode;
use probe_runtime::{Attachment, CallTree, Consumer, Latency, Trace, select};
use probe_tests::c::{Compiler, Language, Object, Recipe};
use probe_tests::turn::turn;

use super::stepped::{STEPS, install, single_stepped};

/// The function that the handler calls, too.
static FUNCTION: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

fn call() {
    let function = FUNCTION.load(Ordering::Relaxed);
    if !function.is_null() {
        // SAFETY: `state_nothing` has no arguments and no result, and its object stays loaded.
        let function: extern "C" fn() = unsafe { std::mem::transmute(function) };
        function();
    }
}

extern "C" fn handle(_signal: libc::c_int) {
    STEPS.fetch_add(1, Ordering::Relaxed);
    call();
}

/// Attaches the consumer, and calls the function while a handler calls it after each instruction.
/// Checks, by the number of all calls and that of suppressed ones.
fn interrupted<C: Consumer>(consumer: C, check: impl FnOnce(&Attachment<C>, u64, u64)) {
    const CALLS: u64 = 4;
    let attached = select("state_nothing").unwrap().attach(consumer).unwrap();
    // Maps the thread's memory.
    call();
    let steps = single_stepped(|| (0..CALLS).for_each(|_| call()));
    // Of a handler's call, both hits are or none.
    let suppressed = attached.suppressed();
    assert!(suppressed > 0 && suppressed.is_multiple_of(2), "{suppressed}");
    check(&attached, 1 + CALLS + steps, suppressed / 2);
}

#[test]
fn each_hit_of_c_code_is_handled_once() {
    let _turn = turn();
    install(libc::SIGTRAP, handle);
    let root = env!("CARGO_TARGET_TMPDIR");
    let compiler = Compiler::ALL.into_iter().find(|compiler| compiler.is_there()).unwrap();
    for sites in [Sites::EntryReturn, Sites::InstrumentFunctions] {
        let recipe = Recipe::new(compiler, Language::C, sites, "-O2").files(&["state.c"]);
        let object = Object::open(&recipe.build(root).0);
        FUNCTION.store(object.library.symbol("state_nothing").cast(), Ordering::Relaxed);
        interrupted(Latency::new(), |latency, calls, suppressed| {
            let latencies = latency.latencies();
            let found: Vec<_> = latencies.iter().map(|it| (it.calls(), it.unpaired().total())).collect();
            assert_eq!(found, [(calls - suppressed, 0)], "{sites:?}");
        });
        interrupted(CallTree::new(), |tree, calls, suppressed| {
            let found: u64 = tree.tree().iter().map(TreeNode::calls).sum();
            assert_eq!(found, calls - suppressed, "{sites:?}");
        });
        interrupted(Trace::first().ring_size(16 << 20), |trace, calls, suppressed| {
            let totals = trace.totals();
            assert_eq!(
                (totals.written, totals.lost),
                (2 * (calls - suppressed), 2 * suppressed),
                "{sites:?}"
            );
        });
        FUNCTION.store(std::ptr::null_mut(), Ordering::Relaxed);
        object.library.close();
    }
}
