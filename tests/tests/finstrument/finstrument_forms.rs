//! The code that compilers generate for `-finstrument-functions`, over their flags: every call
//! becomes a site, or is kept with its reason. All calls are counted.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::finstrument::{self, Reason};
use probe_runtime::{Count, Kind, probes};
use probe_tests::instrumented::{compilers, folder, shared, source};
use probe_tests::library::Library;

const CODE: &str = "\
#include <stdint.h>
static volatile uint64_t sum;
__attribute__((noinline)) static void add(uint64_t x) { sum += x; }
__attribute__((noinline)) static double half(double x) { return x / 2; }
static inline uint64_t square(uint64_t x) { return x * x; }
uint64_t run(uint64_t n)
{
    sum = 0;
    for (uint64_t i = 0; i < n; i++)
        add(square(i) + (uint64_t)half(2.0 * i));
    return sum;
}
";

#[test]
fn every_call_is_counted_whatever_the_flags() {
    let folder = folder("forms");
    let flags: &[&[&str]] = &[
        &["-O0"],
        &["-O1"],
        &["-O2"],
        &["-O3", "-march=x86-64-v3"],
        &["-Os"],
        &["-O2", "-fno-plt"],
        &["-O1", "-Wl,-z,now"],
        &["-O1", "-Wl,-z,lazy"],
        &["-O2", "-fcf-protection=full"],
        &["-O2", "-fno-optimize-sibling-calls"],
        &["-O2", "-fno-plt", "-fuse-ld=lld"],
        &["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"],
    ];
    for compiler in compilers() {
        for (number, flags) in flags.iter().enumerate() {
            if flags.contains(&"-fuse-ld=lld") && compiler != "clang" {
                continue;
            }
            let file = source(&folder, &format!("{compiler}-{number}.c"), CODE);
            let library = Library::open(&shared(compiler, &file, &format!("{compiler}-{number}.so"), flags));
            let run = library.function("run");
            let calls = finstrument::attach(Count::new(), 100).unwrap();
            for _ in 0..3 {
                assert_eq!(run(10), 285 + 45);
            }
            let said = format!("{compiler} {flags:?}\n{}\n{:?}", calls, finstrument::unpatched());
            let file = file.to_str().unwrap();
            for (path, hits) in [("run", 3), ("add", 30), ("half", 30), ("square", 30)] {
                for kind in [Kind::Entry, Kind::Exit] {
                    assert_eq!(calls.counts().hits(path, kind), Some(hits), "{path} {kind}: {said}");
                }
            }
            assert!(calls.counts().iter().all(|it| it.probe.file() == file), "{said}");
            // A function that ends in its call of the hook jumps there, but not where that is
            // forbidden.
            for kept in finstrument::unpatched() {
                assert_eq!(
                    (kept.reason(), kept.probe().kind(), kept.site()),
                    (Reason::NotACall, Kind::Exit, None)
                );
                assert_eq!(kept.probe().path(), "add", "{said}");
                assert!(!flags.contains(&"-fno-optimize-sibling-calls") && !flags.contains(&"-O0"), "{said}");
            }
            // Unpatched calls listen as sites do.
            let before = calls.total();
            assert_eq!(calls.pause().refused(), 0);
            assert_eq!(run(10), 330);
            assert_eq!(calls.total(), before, "{said}");
            calls.resume();
            assert_eq!(run(10), 330);
            assert_eq!(calls.total(), before + 2 * (1 + 3 * 10), "{said}");
            drop(calls);
            library.close();
            assert!(!probes().iter().any(|it| it.file() == file));
        }
    }
}
