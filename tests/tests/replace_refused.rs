//! A function one of whose sites a debugger has is not replaced, and that is said.
//! A process of its own: it writes to its text.
#![cfg(not(probe_portable))]

use std::sync::atomic::{AtomicU8, Ordering};

use probe_runtime::{Error, RefusalReason, probe};
use probe_tests::text::{Difference, Text};

#[probe(replace)]
#[inline(never)]
fn work(x: u64) -> u64 {
    x + 1
}

/// Writes one byte of text, as a debugger does.
fn write_text(at: usize, byte: u8) {
    let page = at & !0xfff;
    let protect = |rights| {
        // SAFETY: a page of this program's text, which stays readable and executable.
        let result = unsafe { libc::mprotect(page as *mut _, 4096, rights) };
        assert_eq!(result, 0);
    };
    protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
    // SAFETY: mapped and writable; one byte is written whole.
    unsafe { (*(at as *const AtomicU8)).store(byte, Ordering::SeqCst) };
    protect(libc::PROT_READ | libc::PROT_EXEC);
}

#[test]
fn a_breakpoint_is_an_error() {
    let text = Text::of_this_process();
    let replacement = work::install(|original, x| original(x) * 10).unwrap();
    let at = text.differences()[0].at;
    assert_eq!((replacement.report().patched(), work(1)), (1, 20));
    drop(replacement);
    assert_eq!((text.differences(), work(1)), (vec![], 2));
    write_text(at, 0xcc);
    let error = work::install(|original, x| original(x) * 10).unwrap_err();
    let Error::NotReplaced(report) = &error else { panic!("{error}") };
    assert_eq!((report.patched(), report.refused()), (0, 1));
    assert!(matches!(report.refusals()[0].reason(), RefusalReason::Foreign { .. }));
    let said = "the function can't be replaced, for not all of its sites could be activated: 0 patched, 0 unchanged, 1 refused";
    assert!(error.to_string().starts_with(said), "{error}");
    assert_eq!(text.differences(), [Difference { at, file: 0x0f, memory: 0xcc }]);
    write_text(at, 0x0f);
    assert_eq!(work(1), 2);
    let _replacement = work::install(|original, x| original(x) * 10).unwrap();
    assert_eq!(work(1), 20);
}
