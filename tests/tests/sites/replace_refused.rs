//! A function one of whose sites a debugger has is not replaced, and that is said.
//! A process of its own: it writes to its text.
#![cfg(not(probe_portable))]

use probe_runtime::patch::RefusalReason;
use probe_runtime::{Error, probe};
use probe_tests::text::{Difference, Text, write_byte};

#[probe(replace)]
#[inline(never)]
fn work(x: u64) -> u64 {
    x + 1
}

#[test]
fn a_breakpoint_is_an_error() {
    let text = Text::of_this_process();
    let replacement = work::install(|original, x| original(x) * 10).unwrap();
    let at = text.differences()[0].at;
    assert_eq!((replacement.report().patched(), work(1)), (1, 20));
    drop(replacement);
    assert_eq!((text.differences(), work(1)), (vec![], 2));
    write_byte(at, 0xcc);
    let error = work::install(|original, x| original(x) * 10).unwrap_err();
    let Error::NotReplaced(report) = &error else { panic!("{error}") };
    assert_eq!((report.patched(), report.refused()), (0, 1));
    assert!(matches!(report.refusals()[0].reason(), RefusalReason::Foreign { .. }));
    let said = "the function can't be replaced, for not all of its sites could be activated: 0 patched, 0 unchanged, 1 refused";
    assert!(error.to_string().starts_with(said), "{error}");
    assert_eq!(text.differences(), [Difference { at, file: 0x0f, memory: 0xcc }]);
    write_byte(at, 0x0f);
    assert_eq!(work(1), 2);
    let _replacement = work::install(|original, x| original(x) * 10).unwrap();
    assert_eq!(work(1), 20);
}
