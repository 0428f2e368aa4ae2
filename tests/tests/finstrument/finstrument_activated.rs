//! A callback that attaches a consumer to the call that was just discovered: the consumer has the
//! hit of the discovery itself.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::sync::Mutex;

use probe_runtime::{Attachment, Count, finstrument, select};
use probe_tests::instrumented::{calls_at, folder, load, source};
use probe_tests::library::Library;

static ATTACHED: Mutex<Vec<(String, Attachment<Count>)>> = Mutex::new(Vec::new());

/// Attaches to each call as it is discovered.
fn attach_at_once() {
    finstrument::on_discovery(|found| {
        let Some(probe) = found.probe() else { return };
        let selector = format!("{} kind={} @{}", probe.path(), probe.kind(), probe.file());
        let attached = select(&selector).and_then(|set| set.attach(Count::new())).unwrap();
        ATTACHED.lock().unwrap().push((format!("{} {}", probe.path(), probe.kind()), attached));
    });
}

fn counted() -> Vec<(String, u64)> {
    let attached = ATTACHED.lock().unwrap();
    let mut counted: Vec<_> = attached.iter().map(|(name, it)| (name.clone(), it.total())).collect();
    counted.sort();
    counted
}

#[test]
fn a_consumer_of_the_callback_has_the_hit_of_the_discovery() {
    attach_at_once();
    let text = "int outer(int x);\nstatic __attribute__((noinline)) int inner(int x) { return x * 3; }\n\
                int outer(int x) { return inner(x) + inner(x + 1); }\n";
    let library = load("activated", "code.c", text, &["-O1"]);
    let outer = library.function("outer");
    for calls in 1..4 {
        outer(1);
        let expected = [("inner entry", 2), ("inner exit", 2), ("outer entry", 1), ("outer exit", 1)];
        assert_eq!(counted(), expected.map(|(name, hits)| (name.to_owned(), hits * calls)));
    }
    // Calls across two words, too.
    ATTACHED.lock().unwrap().clear();
    let source = source(&folder("activated-split"), "split.s", &calls_at(6, &["split"]));
    let object = source.with_extension("so");
    probe_tests::instrumented::build("gcc", &source, &object, &["-shared"]);
    let split = Library::open(&object);
    let function = split.function("split");
    for calls in 1..4 {
        assert_eq!(function(1), 2);
        let expected = [("split entry", calls), ("split exit", calls)];
        assert_eq!(counted(), expected.map(|(name, hits)| (name.to_owned(), hits)));
    }
    finstrument::stop_telling();
    ATTACHED.lock().unwrap().clear();
}
