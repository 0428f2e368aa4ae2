//! An attachment to all is paused and resumed, with no query in between. It includes the functions
//! that were discovered just before.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::{Count, Kind, finstrument};
use probe_tests::instrumented::load;
use probe_tests::scenario;

#[test]
fn what_was_just_discovered_is_paused() {
    scenario::runs_in_a_child("scenario", "pause");
}

#[test]
fn what_was_discovered_meanwhile_is_resumed() {
    scenario::runs_in_a_child("scenario", "resume");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    let code = "#include <stdint.h>\nuint64_t one(uint64_t x) { return x + 1; }\nuint64_t two(uint64_t x) { return x + 2; }\n";
    let library = load(&asked, "code.c", code, &["-O1"]);
    let (one, two) = (library.function("one"), library.function("two"));
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    match asked.as_str() {
        "pause" => {
            one(1);
            let report = calls.pause();
            assert_eq!((report.patched(), report.refused()), (2, 0), "{report}");
            (0..100).for_each(|_| _ = one(1));
            assert_eq!(calls.total(), 2);
            assert_eq!(calls.resume().patched(), 2);
            one(1);
            assert_eq!(calls.total(), 4);
        }
        "resume" => {
            let _ = calls.pause();
            (0..10).for_each(|_| _ = one(1));
            assert_eq!(calls.resume().patched(), 2);
            (0..100).for_each(|_| _ = one(1));
            let _ = calls.pause();
            (0..10).for_each(|_| _ = two(1));
            let _ = calls.resume();
            (0..50).for_each(|_| _ = two(1));
            let counts = calls.counts();
            assert_eq!(counts.hits("one", Kind::Entry), Some(100));
            assert_eq!(counts.hits("two", Kind::Exit), Some(50));
        }
        other => panic!("no scenario {other}"),
    }
    drop(calls);
    library.close();
    println!("done: {asked}");
}
