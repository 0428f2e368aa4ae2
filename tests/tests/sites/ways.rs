//! Every way to write sites: sealed, open, through the kernel; by one write, or through `int3`. The
//! same counts, the same bytes, whoever executes the sites meanwhile. A process of its own: it
//! looks at the whole text.
#![cfg(not(probe_portable))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::patch::word::{self, WordOptions};
use probe_runtime::patch::{RefusalReason, TextPolicy, Visibility};
use probe_runtime::{Count, ProbeSet, select};
use probe_tests::stops::Stops;
use probe_tests::text::Text;

probe_tests::first_and_second!();

fn every_way() -> impl Iterator<Item = (TextPolicy, bool)> {
    let policies = [TextPolicy::Sealed, TextPolicy::Open, TextPolicy::Alias];
    policies.into_iter().flat_map(|text| [(text, false), (text, true)])
}

fn selected((text, strict): (TextPolicy, bool)) -> ProbeSet {
    select("sites::ways::**").unwrap().text_policy(text).strict(strict)
}

fn call_each(times: u64) {
    for x in 0..times {
        assert_eq!((first(x), second(x)), (x + 1, x * 2));
    }
}

/// Rounds of attaching and detaching in each way, while two threads execute the sites.
const ROUNDS: u64 = 50;

#[test]
fn all_ways_lead_to_the_same_bytes() {
    let text = Text::of_this_process();
    call_each(1);
    assert_eq!(text.differences(), []);
    let mut active = None;
    for way in every_way() {
        let hits = selected(way).attach(Count::new()).unwrap();
        assert_eq!((hits.report().patched(), hits.report().refused()), (2, 0), "{way:?}");
        let differences = text.differences();
        assert_eq!(differences, *active.get_or_insert(differences.clone()), "{way:?}");
        call_each(10);
        assert_eq!(hits.total(), 20, "{way:?}");
        // Again: nothing to do.
        let again = selected(way).attach(Count::new()).unwrap();
        assert_eq!((again.report().patched(), again.report().unchanged()), (0, 2), "{way:?}");
        drop(again);
        let hold = selected(way).hold().unwrap();
        assert_eq!(text.differences(), [], "{way:?}");
        drop(hold);
        assert_eq!(hits.pause().patched(), 2, "{way:?}");
        assert_eq!(text.differences(), [], "{way:?}");
        assert_eq!(hits.resume().patched(), 2, "{way:?}");
        assert_eq!(hits.detach().patched(), 2, "{way:?}");
        assert_eq!(text.differences(), [], "{way:?}");
    }
    threads_run_meanwhile(&text);
    a_patch_under_way_is_left_alone(&text);
}

fn threads_run_meanwhile(text: &Text) {
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    call_each(1);
                    calls.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        for way in every_way() {
            for round in 0..ROUNDS {
                let visibility = if round % 2 == 0 { Visibility::Synchronous } else { Visibility::Eventual };
                let hits = selected(way).visibility(visibility).attach(Count::new()).unwrap();
                assert_eq!(hits.report().patched(), 2, "{way:?}: {}", hits.report());
                let before = calls.load(Ordering::Relaxed);
                while calls.load(Ordering::Relaxed) < before + 8 {
                    thread::yield_now();
                }
                assert!(hits.total() > 0, "{way:?}");
                let report = hits.detach();
                assert_eq!(report.patched(), 2, "{way:?}: {report}");
            }
        }
        drop(stops);
    });
    assert_eq!(text.differences(), []);
}

/// The site's instruction is in somebody else's hands.
fn a_patch_under_way_is_left_alone(text: &Text) {
    let hits = select("sites::ways::first").unwrap().attach(Count::new()).unwrap();
    let at = text.differences()[0].at;
    drop(hits);
    let nop = [0x0f, 0x1f, 0x44, 0x00, 0x00];
    // SAFETY: the site's NOP, for another one.
    let patch = unsafe { WordOptions::new().strict(true).start(at, nop.into()) }.unwrap();
    for way in every_way() {
        let hits = selected(way).attach(Count::new()).unwrap();
        assert_eq!((hits.report().patched(), hits.report().refused()), (1, 1), "{way:?}");
        let refusal = &hits.report().refusals()[0];
        assert_eq!((refusal.site(), refusal.reason()), (at, &RefusalReason::Busy), "{way:?}");
    }
    patch.wait().unwrap();
    // SAFETY: back again.
    unsafe { word::patch(at, [0x0f, 0x1f, 0x44, 0x00, 0x08].into()) }.unwrap();
    assert_eq!(text.differences(), []);
}
