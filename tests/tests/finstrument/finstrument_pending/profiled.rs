//! A profiler, whose functions are discovered entry first.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use probe_runtime::profile::{Budget, FunctionProfile};
use probe_runtime::{Kind, ProbeInfo, Profiler, select_persistent};
use probe_tests::instrumented::load;

use super::look;

/// The clock, in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
    NOW.fetch_add(10, Relaxed)
}

/// Polls a second later, when a survey is due.
fn poll(profiler: &Profiler) {
    NOW.fetch_add(1_000_000_000, Relaxed);
    profiler.poll();
}

/// The entry joins in the first call, and is latent. With the exit, which joins after it, both are
/// on.
pub(super) fn profiled() {
    let code = "#include <stdint.h>\nuint64_t profiled(uint64_t (*inner)(void)) { return inner() + 1; }\n";
    let library = load("profiled", "profiled.c", code, &["-O1"]);
    // SAFETY: the function of the source above.
    let function: extern "C" fn(extern "C" fn() -> u64) -> u64 =
        unsafe { std::mem::transmute(library.symbol("profiled")) };
    let profiler = |budget| {
        let profiler = Profiler::with_clock(now).stepped().budget(budget);
        select_persistent("profiled").unwrap().attach(profiler).unwrap()
    };
    let each = profiler(Budget::UNLIMITED);
    let counted = profiler(Budget::calls_per_second(1.0));
    poll(&each);
    let kinds = || each.probes().iter().map(ProbeInfo::kind).collect::<Vec<_>>();
    assert_eq!((function(look), kinds()), (2, vec![Kind::Entry, Kind::Exit]));
    assert_eq!((each.profile().len(), each.profile().left_out().len()), (1, 0));
    let calls = |it: &Profiler| {
        let known = |it: &FunctionProfile| (it.calls().value, it.calls().error, it.samples());
        it.profile().function("profiled").map(known)
    };
    // Until a survey, the entry is latent: calls continue unseen.
    assert_eq!(function(look), 2);
    assert_eq!([calls(&each), calls(&counted)], [Some((0.0, f64::INFINITY, 0)); 2]);
    poll(&each);
    poll(&counted);
    (0..5).for_each(|_| assert_eq!(function(look), 2));
    assert_eq!([calls(&each), calls(&counted)], [Some((5.0, 0.0, 5)), Some((5.0, 0.0, 0))]);
    let total = each.profile().function("profiled").unwrap().total().unwrap();
    assert!(total.value >= 50.0 && total.error == 0.0, "{total:?}");
    assert_eq!([each.left_out_later(), counted.left_out_later()], [None, None]);
}
