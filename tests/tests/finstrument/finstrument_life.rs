//! Objects that come and go, forks, and callbacks.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::sync::Mutex;

use probe_runtime::registry::ProbeState;
use probe_runtime::{Count, Kind, finstrument, probes, select};
use probe_tests::instrumented::{calls_at, folder, load, shared, source};
use probe_tests::library::Library;
use probe_tests::scenario::{self, in_a_child};

#[test]
fn another_object_in_its_place_is_not_confused_with_it() {
    scenario::runs_in_a_child("scenario", "places");
}

#[test]
fn a_forked_child_discovers_for_itself() {
    scenario::runs_in_a_child("scenario", "fork");
}

#[test]
fn the_callback_is_told_once_and_may_ask() {
    scenario::runs_in_a_child("scenario", "callback");
}

#[test]
fn an_attachment_grows_until_its_counters_are_used_up() {
    scenario::runs_in_a_child("scenario", "capacity");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "places" => places(),
        "fork" => fork(),
        "callback" => callback(),
        "capacity" => capacity(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

fn code(names: [&str; 2]) -> String {
    let [one, two] = names;
    format!(
        "#include <stdint.h>\nuint64_t {one}(uint64_t x) {{ return x + 1; }}\nuint64_t {two}(uint64_t x) {{ return x + 2; }}\n"
    )
}

fn places() {
    let folder = folder("places");
    let object = |names: [&str; 2]| {
        // Calls across two words would look alike in both objects.
        let file = source(&folder, &format!("{}.s", names[0]), &calls_at(0, &names));
        shared("gcc", &file, &format!("{}.so", names[0]), &[])
    };
    let (first, second) = (object(["ant1", "ant2"]), object(["bee1", "bee2"]));
    let calls = finstrument::attach(Count::new(), 1_000).unwrap();
    let mut bases = Vec::new();
    for round in 1..=5_u64 {
        // With an operation in between, and without one.
        for (path, name) in [(&first, "ant1"), (&second, "bee1")] {
            let library = Library::open(path);
            let function = library.function(name);
            bases.push(function as usize);
            for _ in 0..10 {
                assert_eq!(function(1), 2);
            }
            if round % 2 == 1 {
                assert_eq!(calls.counts().hits(name, Kind::Entry), Some(5 * (round + 1)));
                let other = if name == "ant1" { "ant2" } else { "bee2" };
                assert_eq!(calls.counts().hits(other, Kind::Entry), None);
            }
            library.close();
        }
        if round % 2 == 0 {
            // Both were there and gone without anybody looking.
            assert!(calls.probes().iter().all(|it| it.state() == ProbeState::Unloaded));
            assert_eq!(finstrument::stats().unnamed, 2 * usize::try_from(round).unwrap());
        }
    }
    bases.sort_unstable();
    bases.dedup();
    assert!(bases.len() < 10, "no two were loaded at the same place");
    let names: Vec<_> = calls.counts().iter().map(|it| it.probe.path().to_owned()).collect();
    assert_eq!(names, ["ant1", "ant1", "bee1", "bee1"]);
    drop(calls);
    assert_eq!(probes().iter().filter(|it| it.path().starts_with("ant")).count(), 0);
    assert_eq!(finstrument::stats().discovered, 20);
}

fn fork() {
    let library = load("fork", "fork.c", &code(["fox1", "fox2"]), &["-O1"]);
    let (one, two) = (library.function("fox1"), library.function("fox2"));
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    one(1);
    let status = in_a_child(|| {
        one(1);
        two(1);
        two(1);
        let counts = calls.counts();
        assert_eq!((counts.hits("fox1", Kind::Exit), counts.hits("fox2", Kind::Exit)), (Some(2), Some(2)));
        assert_eq!(finstrument::stats().patched, 4);
    });
    assert_eq!(status, 0);
    let known = finstrument::stats();
    assert_eq!((known.patched, known.waiting), (0, 2));
    two(1);
    let counts = calls.counts();
    assert_eq!((counts.hits("fox1", Kind::Entry), counts.hits("fox2", Kind::Entry)), (Some(1), Some(1)));
    drop(calls);
    library.close();
}

fn callback() {
    static TOLD: Mutex<Vec<(usize, Kind, String, bool)>> = Mutex::new(Vec::new());
    let folder = folder("callback");
    let file = source(&folder, "callback.c", &code(["cat1", "cat2"]));
    let library = Library::open(&shared("gcc", &file, "callback.so", &["-O1"]));
    let (one, two) = (library.function("cat1"), library.function("cat2"));
    finstrument::on_discovery(move |found| {
        // It discovers another one itself, of which it is not told.
        two(1);
        let probe = found.probe().expect("it is loaded");
        assert_eq!((probe.kind(), probe.sites(), probe.state()), (found.kind(), 1, ProbeState::Latent));
        assert_eq!(found.unpatched(), None);
        assert!(found.site().is_some());
        let told = (found.function(), found.kind(), probe.path().to_owned(), found.is_patched());
        TOLD.lock().unwrap().push(told);
    });
    for _ in 0..3 {
        assert_eq!(one(1), 2);
    }
    let at = one as usize;
    let wanted = [(at, Kind::Entry, "cat1".to_owned(), true), (at, Kind::Exit, "cat1".to_owned(), true)];
    assert_eq!(*TOLD.lock().unwrap(), wanted);
    assert_eq!((finstrument::stats().discovered, finstrument::stats().untold), (4, 2));
    finstrument::stop_telling();
    finstrument::on_discovery(|_| panic!("on purpose"));
    library.close();
    let library = Library::open(&folder.join("callback.so"));
    assert_eq!(library.function("cat2")(1), 3);
    let hits = select("cat2 kind=exit").unwrap().attach(Count::new()).unwrap();
    assert_eq!(library.function("cat2")(1), 3);
    assert_eq!(hits.total(), 1);
    drop(hits);
    library.close();
}

fn capacity() {
    let library = load("capacity", "capacity.c", &code(["dog1", "dog2"]), &["-O1"]);
    let (one, two) = (library.function("dog1"), library.function("dog2"));
    let calls = finstrument::attach(Count::new(), 2).unwrap();
    let again = finstrument::attach(Count::new(), 2).unwrap();
    for _ in 0..5 {
        one(1);
        two(1);
    }
    assert_eq!((calls.total(), again.total()), (10, 10));
    let note = "2 probes that appeared later are left out: there is room for 2 call sites";
    assert_eq!(again.left_out_later().as_deref(), Some(note));
    drop(again);
    assert_eq!(calls.counts().hits("dog2", Kind::Entry), None);
    assert_eq!(finstrument::stats().beyond_capacity, 2);
    // The other one is a probe nevertheless.
    let hits = select("dog2").unwrap().attach(Count::new()).unwrap();
    two(1);
    assert_eq!((hits.total(), calls.total()), (2, 10));
    drop(calls);
    // Functions known before are also beyond the capacity.
    let calls = finstrument::attach(Count::new(), 1).unwrap();
    assert_eq!(finstrument::stats().beyond_capacity, 2 + 3);
    one(1);
    assert_eq!((hits.total(), calls.total()), (2, 1));
    drop(calls);
    // There is room for a new one, for all.
    let calls = finstrument::attach(Count::new(), 4).unwrap();
    one(1);
    two(1);
    assert_eq!((hits.total(), calls.total()), (4, 4));
    drop((hits, calls));
    library.close();
}
