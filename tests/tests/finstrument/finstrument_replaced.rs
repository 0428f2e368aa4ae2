//! A call that waits to be patched when its object is unloaded, and another one is loaded in its
//! place. A process of its own: it counts all that is discovered.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::{Count, Kind, finstrument, probes};
use probe_tests::instrumented::{calls_at, folder, shared, source};
use probe_tests::library::Library;

#[test]
fn what_waited_is_dropped_and_never_written() {
    let folder = folder("replaced");
    // The same layout, with calls elsewhere: four bytes on, and where there was one, something else
    // is.
    let [one, two] = [0, 4].map(|offset| {
        let name = format!("{offset}");
        shared(
            "gcc",
            &source(&folder, &format!("{name}.s"), &calls_at(offset, &["one"])),
            &format!("{name}.so"),
            &[],
        )
    });
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    let mut replaced = 0;
    for _ in 0..8 {
        let library = Library::open(&one);
        let place = library.symbol("one").addr();
        assert_eq!(library.function("one")(1), 2);
        assert_eq!(finstrument::stats().waiting, 2);
        library.close();
        let library = Library::open(&two);
        let function = library.function("one");
        // SAFETY: the function's code.
        let code = || unsafe { (function as *const [u8; 40]).read_volatile() };
        let original = code();
        replaced += usize::from(function as usize == place);
        finstrument::start();
        assert_eq!(code(), original, "nothing was written");
        assert_eq!(finstrument::stats().waiting, 0);
        assert_eq!(probes(), []);
        assert_eq!((function(1), function(1)), (2, 2));
        assert_eq!(calls.counts().hits("one", Kind::Entry).map(|hits| hits % 2), Some(0));
        library.close();
        probes();
    }
    assert!(replaced > 0, "no two were loaded at the same place");
    assert_eq!(calls.counts().hits("one", Kind::Entry), Some(16));
    let stats = finstrument::stats();
    assert_eq!((stats.discovered, stats.patched, stats.unnamed), (32, 16, 16), "{stats:?}");
    drop(calls);
}
