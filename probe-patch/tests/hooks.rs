//! Tests when hooks around forks are installed. It needs its own process, since it counts them from
//! zero.
#![cfg(all(probe_backend = "patched", target_env = "gnu", not(miri)))]

use std::ptr;

use probe_patch::word::{INT3, WordOptions};
use probe_patch::{TextPolicy, unrestored_bytes};

mod atfork;

use atfork::installed;

/// Returns a page that begins with a NOP5, such as a JIT's.
fn page() -> usize {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let page = unsafe { libc::mmap(ptr::null_mut(), 4096, rights, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: the first bytes of the page.
    unsafe { page.cast::<[u8; 5]>().write([0x0f, 0x1f, 0x44, 0x00, 0x00]) };
    page as usize
}

#[test]
fn text_that_the_caller_keeps_open_installs_none_and_a_question_installs_them_early() {
    let at = page();
    let open = WordOptions::new().text_policy(TextPolicy::Open);
    let mov = |number| [0xb8, number, 0, 0, 0].into();
    // SAFETY: one instruction for another on a page that no thread executes and that stays.
    unsafe { open.patch(at, mov(1)) }.unwrap();
    assert_eq!(installed(), 0);
    assert_eq!(unrestored_bytes(), 0);
    let hooks = installed();
    assert_ne!(hooks, 0);
    // SAFETY: as above.
    unsafe { open.strict(true).patch(at, mov(2)) }.unwrap();
    assert_eq!(installed(), hooks, "the trap needs no more");
    // SAFETY: the page's first byte.
    assert_ne!(unsafe { ptr::read_volatile(at as *const u8) }, INT3);
}
