//! Calls that are bound to the C library's hooks are led to this crate's, and back. A process of
//! its own: it counts all that is discovered.
#![cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    target_env = "gnu",
    not(any(probe_portable, probe_off))
))]

use std::fs;

use probe_runtime::finstrument::{Redirected, redirect, stats, stop_redirecting};
use probe_runtime::{Count, Kind, finstrument};
use probe_tests::instrumented::{folder, shared, source};
use probe_tests::library::Library;

/// Two functions, each with one call of each hook.
const TEXT: &str = "\
unsigned long PREFIXone(unsigned long x) { return x + 1; }
unsigned long PREFIXtwo(unsigned long x) { return x + 2; }
";

/// A library whose calls find the C library's hooks, though the program exports its own.
fn library(prefix: &str, flags: &[&str]) -> Library {
    let file = source(&folder(prefix), &format!("{prefix}.c"), &TEXT.replace("PREFIX", prefix));
    Library::open_apart(&shared("gcc", &file, &format!("{prefix}.so"), flags))
}

/// Calls both functions.
fn call(library: &Library, prefix: &str) {
    let [one, two] = ["one", "two"].map(|name| library.function(&format!("{prefix}{name}")));
    assert_eq!((one(1), two(1)), (2, 3));
}

/// The mappings of a loaded object, with their rights. Names are read through one more, shared.
fn mappings(of: &str) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(of) && !line.contains("--s ")).map(str::to_owned).collect()
}

fn numbers(redirected: Redirected) -> [usize; 2] {
    [redirected.led, redirected.refused]
}

#[test]
fn calls_of_objects_that_came_before_and_after() {
    // Through a table in pages that are read-only by now, and in pages that stay writable.
    let sealed = library("sealed", &["-Wl,-z,relro,-z,now"]);
    let open = library("open", &["-Wl,-z,norelro"]);
    let rights = mappings("/sealed.so");
    finstrument::start();
    call(&sealed, "sealed");
    call(&open, "open");
    assert_eq!(stats().discovered, 0);

    assert_eq!(numbers(redirect()), [4, 0]);
    assert_eq!(numbers(redirect()), [4, 0]);
    assert_eq!(mappings("/sealed.so"), rights);
    let counts = finstrument::attach(Count::new(), 100).unwrap();
    let hits = |name: &str| {
        let counts = counts.counts();
        [Kind::Entry, Kind::Exit].map(|kind| counts.hits(name, kind))
    };
    for _ in 0..3 {
        call(&sealed, "sealed");
        call(&open, "open");
    }
    assert_eq!(stats().discovered, 8);
    for name in ["sealedone", "sealedtwo", "openone", "opentwo"] {
        assert_eq!(hits(name), [Some(3); 2], "{name}");
    }

    // An object that comes later is found by the next operation.
    let later = library("later", &[]);
    call(&later, "later");
    assert_eq!(hits("laterone"), [None; 2]);
    probe_runtime::probes();
    call(&later, "later");
    assert_eq!(hits("laterone"), [Some(1); 2]);

    // The second function of another one is not called before its calls are led back.
    let back = library("back", &[]);
    probe_runtime::probes();
    assert_eq!(back.function("backone")(1), 2);
    stop_redirecting();
    let discovered = stats().discovered;
    call(&back, "back");
    assert_eq!((stats().discovered, hits("backtwo")), (discovered, [None; 2]));
    assert_eq!(mappings("/sealed.so"), rights);
    // And again.
    assert_eq!(numbers(redirect()), [16, 0]);
    call(&back, "back");
    assert_eq!((stats().discovered, hits("backtwo")), (discovered + 2, [Some(1); 2]));
    stop_redirecting();

    // Calls that the dynamic linker has led to this crate's hooks stay as they are.
    let file = source(&folder("own"), "own.c", &TEXT.replace("PREFIX", "own"));
    let own = Library::open(&shared("gcc", &file, "own.so", &[]));
    assert_eq!(numbers(redirect()), [24, 0]);
    stop_redirecting();
    call(&own, "own");
    probe_runtime::probes();
    call(&own, "own");
    assert_eq!(hits("ownone"), [Some(2); 2]);
}
