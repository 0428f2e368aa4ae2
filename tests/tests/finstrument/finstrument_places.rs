//! Checks which function a name means: the running one, if another object's has taken its place;
//! and one of several with the same name, without debug information.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::path::Path;

use probe_runtime::{Count, Kind, finstrument};
use probe_tests::instrumented::{folder, shared, source};
use probe_tests::library::Library;
use probe_tests::scenario;

const FIRST: &str = "\
#include <stdint.h>
uint64_t other(uint64_t x) { return x; }
uint64_t pad(uint64_t x) { return x; }
uint64_t run(uint64_t x) { return x + 1; }
";
const SECOND: &str = "\
#include <stdint.h>

uint64_t only(uint64_t x) { return x; }
uint64_t run(uint64_t x) { return x + 2; }
__attribute__((always_inline)) inline uint64_t pad(uint64_t x) { return x + 3; }
uint64_t use_pad(uint64_t x) { return pad(x) * 2; }
extern uint64_t pad(uint64_t x);
";

const INIT: &str = "\
#include <stdint.h>
__attribute__((noinline)) static uint64_t init(uint64_t x) { return x * FACTOR; }
uint64_t NAME(uint64_t x) { return init(x) + 1; }
";

#[test]
fn a_function_that_another_has_taken_the_place_of() {
    scenario::runs_in_a_child("scenario", "taken");
}

#[test]
fn the_same_without_debug_information() {
    scenario::runs_in_a_child("scenario", "taken-bare");
}

#[test]
fn the_same_name_in_two_objects() {
    scenario::runs_in_a_child("scenario", "objects");
}

#[test]
fn the_same_name_twice_in_an_object() {
    scenario::runs_in_a_child("scenario", "twins");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "taken" => taken(true),
        "taken-bare" => taken(false),
        "objects" => objects(),
        "twins" => twins(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

/// The counts of named functions: path, file, line, entry or exit, hits.
type Counted = Vec<(String, String, u32, Kind, u64)>;

fn counted(calls: &finstrument::DiscoveryAttachment) -> Counted {
    let mut counted: Counted = calls
        .counts()
        .iter()
        .map(|it| {
            let (path, file) = (it.probe.path().to_owned(), it.probe.file().to_owned());
            (path, file, it.probe.line(), it.probe.kind(), it.hits)
        })
        .collect();
    counted.sort_unstable_by(|a, b| (&a.1, &a.0, a.3 as u8).cmp(&(&b.1, &b.0, b.3 as u8)));
    counted
}

fn both(path: &str, file: &Path, line: u32, hits: u64) -> Counted {
    let of = |kind| (path.to_owned(), file.to_str().unwrap().to_owned(), line, kind, hits);
    vec![of(Kind::Entry), of(Kind::Exit)]
}

fn taken(has_debug_info: bool) {
    let folder = folder("taken");
    // Through the table that the first object of a name wins.
    let flags = ["-O1", "-fno-optimize-sibling-calls", if has_debug_info { "-g" } else { "-g0" }];
    let (first, second) = (source(&folder, "a.c", FIRST), source(&folder, "b.c", SECOND));
    let one = shared("gcc", &first, "a.so", &flags);
    let two = shared("gcc", &second, "b.so", &flags);
    let (earlier, later) = (Library::open_for_all(&one), Library::open_for_all(&two));
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    assert_eq!(earlier.function("run")(1), 2);
    assert_eq!((later.function("run")(1), later.function("run")(1)), (3, 3));
    assert_eq!(later.function("use_pad")(1), 8);
    let line = |line| if has_debug_info { line } else { 0 };
    let (of_one, of_two) = if has_debug_info { (&first, &second) } else { (&one, &two) };
    let expected = [
        both("run", of_one, line(4), 1),
        both("pad", of_two, line(5), 1),
        both("run", of_two, line(4), 2),
        both("use_pad", of_two, line(6), 1),
    ];
    assert_eq!(counted(&calls), expected.concat());
    drop(calls);
    earlier.close();
    later.close();
}

fn objects() {
    let folder = folder("objects");
    let file = source(&folder, "init.c", INIT);
    let object = |name: &str, factor: u64| {
        let defines = [format!("-DNAME={name}"), format!("-DFACTOR={factor}")];
        let flags = ["-O1", "-g0", "-fno-optimize-sibling-calls", &defines[0], &defines[1]];
        shared("gcc", &file, &format!("{name}.so"), &flags)
    };
    let (one, two) = (object("start", 3), object("stop", 5));
    let (start, stop) = (Library::open(&one), Library::open(&two));
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    assert_eq!((start.function("start")(1), stop.function("stop")(1), stop.function("stop")(2)), (4, 6, 11));
    let expected = [
        both("init", &one, 0, 1),
        both("start", &one, 0, 1),
        both("init", &two, 0, 2),
        both("stop", &two, 0, 2),
    ];
    assert_eq!(counted(&calls), expected.concat());
    // Loaded once more, they are the same.
    start.close();
    let start = Library::open(&one);
    assert_eq!(start.function("start")(1), 4);
    assert_eq!(counted(&calls)[..4], [both("init", &one, 0, 2), both("start", &one, 0, 2)].concat());
    drop(calls);
    start.close();
    stop.close();
}

fn twins() {
    let folder = folder("twins");
    let object = |name: &str, factor: u64| {
        let text = INIT.replace("NAME", name).replace("FACTOR", &factor.to_string());
        source(&folder, &format!("{name}.c"), &text)
    };
    let (one, two) = (object("start", 3), object("stop", 5));
    let flags = ["-O1", "-g0", "-fno-optimize-sibling-calls", two.to_str().unwrap()];
    let path = shared("gcc", &one, "twins.so", &flags);
    let library = Library::open(&path);
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    assert_eq!(
        (library.function("start")(1), library.function("stop")(1), library.function("stop")(2)),
        (4, 6, 11)
    );
    let counted = counted(&calls);
    let inits: Vec<_> = counted.iter().filter(|it| it.0.starts_with("init::0x")).collect();
    let hits: Vec<_> = inits.iter().map(|it| (it.1.as_str(), it.2, it.3, it.4)).collect();
    let file = path.to_str().unwrap();
    let expected = [(Kind::Entry, 1), (Kind::Exit, 1), (Kind::Entry, 2), (Kind::Exit, 2)];
    assert_eq!(hits, expected.map(|(kind, hits)| (file, 0, kind, hits)));
    assert!(inits[0].0 == inits[1].0 && inits[1].0 != inits[2].0 && inits[2].0 == inits[3].0, "{counted:?}");
    let named: Vec<_> =
        counted.iter().filter(|it| !it.0.starts_with("init")).map(|it| it.0.as_str()).collect();
    assert_eq!(named, ["start", "start", "stop", "stop"]);
    drop(calls);
    library.close();
}
