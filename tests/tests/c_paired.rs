//! Calls in C and C++ that are left by `longjmp`, by exceptions, and from signal handlers: each entry has its exit, or is counted as without,
//! exactly as the functions count themselves.
//! A process of its own for each object: it attaches to all probes there are.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;
use std::ffi::OsStr;

use probe_build::Sites;
use probe_runtime::{Latency, select};
use probe_tests::c::{Compiler, Language, Object, Recipe, Tally};
use probe_tests::scenario;

const OBJECT: &str = "PROBE_TEST_C_OBJECT";

#[test]
fn every_entry_is_accounted_for() {
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for language in [Language::C, Language::Cpp] {
            let recipe = Recipe::new(compiler, language, Sites::EntryReturn, "-O2");
            let object = recipe.build(env!("CARGO_TARGET_TMPDIR")).0;
            let name = if language == Language::C { "c" } else { "cpp" };
            scenario::pass(name, &[(OBJECT, OsStr::new(&object))]);
        }
    }
}

#[test]
fn scenario() {
    let language = match scenario::asked().as_deref() {
        None => return,
        Some("c") => Language::C,
        _ => Language::Cpp,
    };
    let object = Object::open(std::env::var_os(OBJECT).expect("the parent has set it").as_ref());
    let before = object.counters();
    let latency = select("**").unwrap().attach(Latency::new()).unwrap();
    let _ = object.run(language);
    let after = object.counters();
    let latencies = latency.latencies();
    let mut found: BTreeMap<_, [u64; 3]> = BTreeMap::new();
    for it in &*latencies {
        let file = it.function().file().rsplit('/').next().unwrap_or_default().to_owned();
        let numbers = [it.calls(), it.unpaired().without_exit, it.unpaired().without_entry];
        let sums = found.entry((it.path().to_owned(), file)).or_default();
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
    }
    let (mut wrong, mut left) = (Vec::new(), 0);
    for (function, counter) in &after {
        let counter = counter.since(before[function]);
        let Some([calls, without_exit, without_entry]) = found.get(function) else { continue };
        if counter.tally != Tally::Exact {
            continue;
        }
        left += without_exit;
        let expected = [counter.entries - counter.jumped - counter.unwound, counter.jumped + counter.unwound, 0];
        if [*calls, *without_exit, *without_entry] != expected {
            wrong.push(format!("{function:?}: {calls} {without_exit} {without_entry}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(left > 10, "some were left: {left}");
    assert_eq!((latencies.lost(), latency.suppressed()), (0, 0));
}
