//! The first hits of a shared object's functions: the runtime counts, names and patches them.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use probe_runtime::registry::ProbeState;
use probe_runtime::{Count, Kind, finstrument, probes, select};
use probe_tests::instrumented::{compilers, folder, shared, source};
use probe_tests::library::Library;

const CODE: &str = "\
#include <stdint.h>
static int calls;
__attribute__((noinline)) static uint64_t twice(uint64_t x) { calls++; return 2 * x; }

uint64_t
work(uint64_t x)
{
    return twice(x) + 1;
}
uint64_t never(uint64_t x) { return x; }
";

#[test]
fn first_hits_become_probes_with_names_and_lines() {
    let folder = folder("first");
    for compiler in compilers() {
        let file = source(&folder, &format!("{compiler}.c"), CODE);
        let library = Library::open(&shared(compiler, &file, &format!("{compiler}.so"), &["-O1"]));
        let work = library.function("work");
        let never = library.symbol("never");
        // SAFETY: code, which can be read.
        let bytes = || unsafe { never.cast::<[u8; 64]>().read_volatile() };
        let before = bytes();
        let calls = finstrument::attach(Count::new(), 100).unwrap();
        assert_eq!(work(20), 41);
        // They wait for others on their page, or for their second hit.
        let stats = finstrument::stats();
        assert_eq!((stats.waiting, stats.postponed, stats.lost), (4, 0, 0));
        assert_eq!(work(20), 41);
        let stats = finstrument::stats();
        assert_eq!((stats.waiting, stats.postponed, stats.lost), (0, 0, 0));
        for _ in 2..10 {
            assert_eq!(work(20), 41);
        }
        let counts = calls.counts();
        let file = file.to_str().unwrap();
        let ours: Vec<_> = counts.iter().filter(|it| it.probe.file() == file).collect();
        let told: Vec<_> =
            ours.iter().map(|it| (it.probe.path(), it.probe.kind(), it.probe.line(), it.hits)).collect();
        assert_eq!(
            told,
            [
                ("twice", Kind::Entry, 3, 10),
                ("twice", Kind::Exit, 3, 10),
                ("work", Kind::Entry, 7, 10),
                ("work", Kind::Exit, 7, 10)
            ]
        );
        assert!(ours.iter().all(|it| it.probe.sites() == 1 && it.probe.state() == ProbeState::Active));
        assert_eq!(finstrument::unpatched(), []);
        assert_eq!(bytes(), before);
        drop(calls);
        assert!(probes().iter().filter(|it| it.file() == file).all(|it| it.state() == ProbeState::Latent));
        assert_eq!(work(3), 7);
        let entries = select(&format!("work kind=entry @{file}")).unwrap();
        let hits = entries.attach(Count::new()).unwrap();
        assert_eq!(work(3), 7);
        assert_eq!(hits.total(), 1);
        drop(hits);
        library.close();
        assert!(!probes().iter().any(|it| it.file() == file));
    }
}
