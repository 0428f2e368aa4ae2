//! Patches CALLs and JMPs at every offset, in the text and in the test's own memory, and checks the
//! written bytes, the executed function, and the refusals.
//! A process of its own: the tests compare the whole text.
#![cfg(not(any(probe_portable, probe_off)))]

use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use probe_runtime::patch::call::{CallOptions, activate_call, activate_jump, deactivate_call};
use probe_runtime::patch::{OpenText, PatchError, TextError, TextPolicy, synchronize};
use probe_tests::call_sites::{Block, CallSite, FIRST, walk};
use probe_tests::text::Text;
// The tests compare the whole text.
use probe_tests::turn::turn;

const PAGE: usize = 4096;
const SEALED: CallOptions = CallOptions::new();
const OPEN: CallOptions = CallOptions::new().text_policy(TextPolicy::Open);

/// Maps pages that the test keeps.
fn map(pages: usize, rights: libc::c_int) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new private mapping overlaps nothing.
    let start = unsafe { libc::mmap(ptr::null_mut(), pages * PAGE, rights, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start as usize
}

fn copy() -> Block {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let pages = map(Block::size() / PAGE, rights);
    // SAFETY: new pages of that size.
    unsafe { Block::copy_to(pages) }
}

fn set_byte(at: usize, byte: u8) {
    // SAFETY: a byte of a copy, which stays writable.
    unsafe { (*(at as *const AtomicU8)).store(byte, Ordering::SeqCst) };
}

#[test]
fn every_offset_in_the_text() {
    let _turn = turn();
    let text = Text::of_this_process();
    let sites = Block::in_text().sites();
    assert_eq!(sites.len(), 32);
    for site in sites {
        walk(site, SEALED);
        text.assert_as_in_file();
    }
}

#[test]
fn every_offset_in_open_text() {
    let _turn = turn();
    let text = Text::of_this_process();
    let block = Block::in_text();
    let open = OpenText::new(block.start..block.start + Block::size()).unwrap();
    for site in block.sites() {
        walk(site, OPEN);
    }
    drop(open);
    text.assert_as_in_file();
}

#[test]
fn every_offset_in_memory_of_ones_own() {
    let _turn = turn();
    for site in copy().sites() {
        walk(site, OPEN);
    }
}

#[test]
fn the_functions_are_the_options_default() {
    let _turn = turn();
    let text = Text::of_this_process();
    let block = Block::in_text();
    for site in block.sites() {
        // SAFETY: a site of a block, whose function does without the callee; the callee that the
        // site was built with is put back.
        unsafe {
            assert!(deactivate_call(site.addr).unwrap());
            assert!(!deactivate_call(site.addr).unwrap());
            synchronize();
            assert_eq!(site.run(), 0);
            let activate = if site.is_jump { activate_jump } else { activate_call };
            assert!(activate(site.addr, block.callee(FIRST)).unwrap());
            assert!(!activate(site.addr, block.callee(FIRST)).unwrap());
        }
        assert_eq!(site.run(), FIRST);
    }
    text.assert_as_in_file();
}

#[test]
fn all_sites_at_once() {
    let _turn = turn();
    let block = copy();
    let before = block.bytes();
    let sites = block.sites();
    for site in &sites {
        // SAFETY: a site of a block, whose function does not need the callee.
        assert!(unsafe { OPEN.deactivate_call(site.addr) }.unwrap());
    }
    assert_eq!(sites.iter().map(|site| site.run()).sum::<usize>(), 0);
    for site in &sites {
        // SAFETY: as above.
        assert!(!unsafe { OPEN.deactivate_call(site.addr) }.unwrap());
        assert!(probe_tests::call_sites::activate(*site, OPEN, site.is_jump, block.callee(FIRST)).unwrap());
    }
    assert!(sites.iter().all(|site| site.run() == FIRST));
    assert!(block.bytes() == before);
}

/// Checks that all three operations refuse the bytes at the site, and change nothing.
fn assert_refused(site: CallSite, there: [u8; 5]) {
    let before = site.block.bytes();
    let target = site.block.callee(FIRST);
    // SAFETY: they are refused.
    let results = unsafe {
        [
            OPEN.activate_call(site.addr, target),
            OPEN.activate_jump(site.addr, target),
            OPEN.deactivate_call(site.addr),
        ]
    };
    for result in results {
        let error = result.unwrap_err();
        let shown = format!(
            "{:#x}: found {there:02x?}, which is neither a CALL nor a JMP, nor a deactivated one that a single write \
             could change: a debugger holds it, or this is not a call site",
            site.addr
        );
        assert_eq!(error.to_string(), shown);
        let PatchError::NotACall { addr, found } = error else { panic!("{error}") };
        assert_eq!((addr, &*found), (site.addr, &there[..]));
    }
    assert!(site.block.bytes() == before);
}

#[test]
fn a_breakpoint_is_left_alone() {
    let _turn = turn();
    for site in copy().sites() {
        let [first, rest @ ..] = site.bytes();
        set_byte(site.addr, 0xcc);
        assert_refused(site, [0xcc, rest[0], rest[1], rest[2], rest[3]]);
        set_byte(site.addr, first);
        // The same while the site is deactivated.
        // SAFETY: a site of a block.
        assert!(unsafe { OPEN.deactivate_call(site.addr) }.unwrap());
        let [first, rest @ ..] = site.bytes();
        set_byte(site.addr, 0xcc);
        assert_refused(site, [0xcc, rest[0], rest[1], rest[2], rest[3]]);
        set_byte(site.addr, first);
        assert!(
            probe_tests::call_sites::activate(site, OPEN, site.is_jump, site.block.callee(FIRST)).unwrap()
        );
        assert_eq!(site.run(), FIRST);
    }
}

#[test]
fn other_instructions_are_left_alone() {
    let _turn = turn();
    let site_at = |offset: usize| copy().sites().into_iter().find(|site| site.offset() == offset).unwrap();
    let write = |site: CallSite, bytes: [u8; 5]| {
        for (at, byte) in bytes.into_iter().enumerate() {
            set_byte(site.addr + at, byte);
        }
    };
    let nops = [[0x0f, 0x1f, 0x44, 0x00, 0x08], [0x0f, 0x1f, 0x44, 0x00, 0x00]];
    for offset in 0..8 {
        let site = site_at(offset);
        for bytes in [[0x48, 0x89, 0xe5, 0x41, 0x57], [0xeb, 0x04, 0, 0, 0], [0; 5]] {
            write(site, bytes);
            assert_refused(site, bytes);
        }
        for nop in nops {
            write(site, nop);
            if offset > 3 {
                assert_refused(site, nop);
                continue;
            }
            // SAFETY: a site of a block, and its callee.
            unsafe {
                assert!(!OPEN.deactivate_call(site.addr).unwrap());
                assert_eq!((site.bytes(), site.run()), (nop, 0));
                assert!(OPEN.activate_call(site.addr, site.block.callee(7)).unwrap());
                assert_eq!(site.run(), 7);
                assert!(OPEN.deactivate_call(site.addr).unwrap());
                assert_eq!((site.bytes(), site.run()), (nops[0], 0));
            }
        }
        if offset <= 3 || offset == 7 {
            write(site, [0xeb, 0x03, 0, 0, 0]);
            assert_refused(site, [0xeb, 0x03, 0, 0, 0]);
        }
    }
}

/// The site ends at the end of its page, and the next page is not mapped.
#[test]
fn a_site_in_one_word_needs_no_other() {
    let _turn = turn();
    let pages = map(2, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the second of them.
    assert_eq!(unsafe { libc::munmap((pages + PAGE) as *mut _, PAGE) }, 0);
    let site = pages + PAGE - 5;
    // SAFETY: a CALL in this test's own memory, which no thread executes.
    unsafe {
        (site as *mut [u8; 5]).write([0xe8, 1, 2, 3, 4]);
        assert!(OPEN.deactivate_call(site).unwrap());
        assert_eq!((site as *const [u8; 5]).read(), [0x0f, 0x1f, 0x44, 0x00, 0x08]);
        assert!(OPEN.activate_call(site, site + 5).unwrap());
        assert_eq!((site as *const [u8; 5]).read(), [0xe8, 0, 0, 0, 0]);
    }
}

#[test]
fn what_is_not_mapped_is_an_error() {
    let _turn = turn();
    let pages = map(3, libc::PROT_READ | libc::PROT_EXEC);
    // SAFETY: the middle one of them.
    assert_eq!(unsafe { libc::munmap((pages + PAGE) as *mut _, PAGE) }, 0);
    // Within the hole, into it, out of it; the null page; beyond user space; the last addresses.
    let hole = pages + PAGE;
    let addresses = [hole, hole + 0x804, hole - 2, hole + PAGE - 1, 0, 7, 1 << 62, usize::MAX - 2];
    for addr in addresses {
        // SAFETY: the operations refuse addresses that are not mapped.
        let results = unsafe {
            [
                SEALED.deactivate_call(addr),
                SEALED.activate_call(addr, addr ^ 0x100),
                SEALED.activate_jump(addr, addr ^ 0x100),
            ]
        };
        for result in results {
            let error = result.unwrap_err();
            let PatchError::Text { addr: named, .. } = error else { panic!("{error}") };
            assert_eq!(named, addr);
            let shown = format!("{addr:#x}: the instruction can't be written: ");
            assert!(error.to_string().starts_with(&shown), "{error}");
        }
    }
}

#[test]
fn what_may_not_be_read_is_an_error() {
    let _turn = turn();
    let pages = map(1, libc::PROT_NONE);
    for addr in pages..pages + 8 {
        // SAFETY: not a call site, so the operations refuse it.
        let error = unsafe { SEALED.deactivate_call(addr) }.unwrap_err();
        assert!(matches!(error, PatchError::Text { error: TextError::NotReadable { .. }, .. }), "{error}");
    }
}
