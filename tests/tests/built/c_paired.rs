//! Calls in C and C++ that are left by `longjmp`, by exceptions, and from signal handlers: each
//! entry has its exit, or is counted as without, exactly as the functions count themselves. A trace
//! of the same hits has the same pairs.
//! A process of its own for each object: it attaches to all probes there are.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use probe_build::Sites;
use probe_runtime::{Latency, Trace, select};
use probe_tests::c::{Compiler, Language, Object, Recipe, Tally, builds};
use probe_tests::folder::Folder;
use probe_tests::scenario;
use probe_trace::calls::{Calls, Ending, Step};

const OBJECT: &str = "PROBE_TEST_C_OBJECT";

#[test]
fn every_entry_is_accounted_for() {
    for (compiler, language, sites) in builds() {
        let recipe = Recipe::new(compiler, language, sites, "-O2");
        let object = recipe.build(env!("CARGO_TARGET_TMPDIR")).0;
        let name = format!("{compiler:?} {language:?} {sites:?}");
        scenario::pass(&name, &[(OBJECT, OsStr::new(&object))]);
    }
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    let words: Vec<_> = asked.split(' ').collect();
    let compiler = if words[0] == "Gcc" { Compiler::Gcc } else { Compiler::Clang };
    let language = if words[1] == "C" { Language::C } else { Language::Cpp };
    let sites = if words[2] == "EntryReturn" { Sites::EntryReturn } else { Sites::InstrumentFunctions };
    let object = Object::open(std::env::var_os(OBJECT).expect("the parent has set it").as_ref());
    let before = object.counters();
    let folder = Folder::new("c-paired");
    let file = folder.join("hits.probetrace");
    let latency = select("**").unwrap().attach(Latency::new()).unwrap();
    let trace = select("**").unwrap().attach(Trace::to_file(&file).ring_size(16 << 20)).unwrap();
    let _ = object.run(language);
    let after = object.counters();
    let totals = trace.finish().unwrap();
    assert_eq!(totals.lost, 0);
    let latencies = latency.latencies();
    let mut found: BTreeMap<_, [u64; 3]> = BTreeMap::new();
    for it in &latencies {
        let file = it.function().file().rsplit('/').next().unwrap_or_default().to_owned();
        let numbers = [it.calls(), it.unpaired().without_exit, it.unpaired().without_entry];
        let sums = found.entry((it.path().to_owned(), file)).or_default();
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
    }
    let seen: BTreeMap<_, _> = { &found }.iter().filter(|(_, sums)| **sums != [0; 3]).collect();
    let (mut traced, lost) = traced(&file);
    // `Latency` leaves out functions that have no exit.
    traced.retain(|function, [calls, _, exits]| found.contains_key(function) || *calls + *exits != 0);
    assert_eq!((traced.iter().collect::<BTreeMap<_, _>>(), lost), (seen, 0));
    let (mut wrong, mut called) = (Vec::new(), 0);
    for (function, counter) in &after {
        let counter = counter.since(before[function]);
        let Some([calls, without_exit, without_entry]) = found.get(function) else { continue };
        if counter.tally != Tally::Exact {
            continue;
        }
        called += usize::from(counter.entries != 0);
        let calls_that_end = counter.exits(compiler, sites);
        let expected = [calls_that_end, counter.entries - calls_that_end, 0];
        if [*calls, *without_exit, *without_entry] != expected {
            wrong.push(format!("{function:?}: {calls} {without_exit} {without_entry}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(called > 20, "{called} functions");
    assert_eq!((latencies.lost(), latency.suppressed()), (0, 0));
}

/// The calls, entries without exits, and exits without entries of each function of a trace, by path
/// and file; and the number of hits that were lost.
fn traced(file: &Path) -> (BTreeMap<(String, String), [u64; 3]>, u64) {
    let (mut found, mut lost) = (BTreeMap::<_, [u64; 3]>::new(), 0);
    let mut count = |of: &probe_trace::Definition, at: usize| {
        let file = of.file.rsplit('/').next().unwrap_or_default().to_owned();
        found.entry((of.path.clone(), file)).or_default()[at] += 1;
    };
    let mut trace = probe_trace::Trace::open(&[file]).expect("a trace");
    for step in Calls::new(trace.items()) {
        match step.expect("a whole trace") {
            Step::End(end) => count(&end.definition, usize::from(end.ending != Ending::Exit)),
            Step::Instant(instant) if instant.lacks_entry => count(instant.fields.definition(), 2),
            Step::Gap(gap) => lost += gap.lost,
            _ => (),
        }
    }
    (found, lost)
}
