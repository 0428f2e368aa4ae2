//! Tests patches around forks. It needs its own process: it forks, and counts the installed hooks.
#![cfg(all(probe_backend = "patched", target_env = "gnu", not(miri)))]

use std::arch::naked_asm;
use std::ffi::c_int;
use std::ptr;

use probe_patch::word::{INT3, Pending, WordOptions, traps};
use probe_patch::{Bytes, OpenText};

mod atfork;

use atfork::installed;

#[unsafe(naked)]
extern "C" fn number() -> u32 {
    naked_asm!("mov eax, 1", "ret")
}

const fn mov(number: u8) -> [u8; 5] {
    [0xb8, number, 0, 0, 0]
}

/// When an operation comes to its first trap, a fork may have begun on another thread, and wait for
/// a lock that the operation holds. So the operation must not wait for the fork's end. Installing a
/// hook does wait for it, before glibc 2.36 and with musl.
#[test]
fn hooks_are_installed_with_the_first_text_that_is_opened_and_a_child_ends_what_is_under_way() {
    let at = number as *const () as usize;
    assert_eq!(installed(), 0);
    OpenText::new(at..at + 5).and_then(OpenText::close).unwrap();
    let hooks = installed();
    assert_ne!(hooks, 0);

    // SAFETY: one `mov` for another.
    let start = |to| unsafe { WordOptions::new().strict(true).start(at, mov(to).into()) };
    start(2).and_then(Pending::wait).unwrap();
    assert_eq!((number(), installed()), (2, hooks));

    let under_way = start(3).unwrap();
    let found = || {
        // SAFETY: the function's code.
        let bytes: [u8; 5] = unsafe { ptr::read_volatile(at as *const [u8; 5]) };
        Bytes::from(bytes)
    };
    assert_eq!(found()[0], INT3);
    // SAFETY: the child does what a child of several threads may, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let is_whole = *found() == mov(3) && number() == 3 && traps() == 0;
            // SAFETY: ends the child.
            unsafe { libc::_exit(c_int::from(!is_whole)) };
        }
        child => {
            let mut status = -1;
            // SAFETY: waits for that child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child found the patch under way");
        }
    }
    assert_eq!(found()[0], INT3, "the parent's goes on");
    under_way.wait().unwrap();
    assert_eq!(number(), 3);
}
