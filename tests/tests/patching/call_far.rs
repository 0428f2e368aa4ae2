//! Code that is farther from the program than a CALL reaches: the `ret` for its deactivated CALLs
//! is mapped near it, once for all that reach it, by however many threads; where there is no room,
//! that is an error. A process of its own: it counts mappings, and forks.
#![cfg(not(any(probe_portable, probe_off)))]

use std::error::Error;
use std::fs;
use std::io;
use std::sync::Barrier;
use std::thread;

use probe_runtime::patch::call::CallOptions;
use probe_runtime::patch::{PatchError, TextPolicy};
use probe_tests::call_sites::{Block, CallSite, FIRST, activate, walk};

const OPEN: CallOptions = CallOptions::new().text_policy(TextPolicy::Open);
const PAGE: usize = 4096;
const GIB: usize = 1 << 30;

/// Addresses that are far from all that the system maps by itself, and from each other.
const REGIONS: [usize; 4] = [0x1000_0000_0000, 0x1100_0000_0000, 0x1200_0000_0000, 0x1300_0000_0000];

/// Maps memory at an address where there is none.
fn map_at(at: usize, len: usize, rights: libc::c_int) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: it replaces no mapping.
    let start = unsafe { libc::mmap(at as *mut _, len, rights, flags, -1, 0) };
    assert_eq!(start as usize, at, "{}", io::Error::last_os_error());
}

fn unmap(at: usize, len: usize) {
    // SAFETY: this test's own memory, of which nothing is used any more.
    assert_eq!(unsafe { libc::munmap(at as *mut _, len) }, 0);
}

fn copy_to(at: usize) -> Block {
    map_at(at, Block::size(), libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
    // SAFETY: new pages of that size.
    unsafe { Block::copy_to(at) }
}

/// The pages in the regions of this test that are neither its blocks nor its walls, all of which
/// have other rights.
fn trampolines() -> Vec<usize> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let number = |hex| usize::from_str_radix(hex, 16).unwrap();
    let found: Vec<_> = (maps.lines())
        .filter(|line| line.contains(" r-xp "))
        .map(|line| line.split_once(' ').unwrap().0.split_once('-').unwrap())
        .map(|(start, end)| number(start)..number(end))
        .filter(|it| (REGIONS[0] - 8 * GIB..REGIONS[3] + 8 * GIB).contains(&it.start))
        .collect();
    for range in &found {
        assert_eq!(range.len(), PAGE);
        // SAFETY: mapped and readable, and never unmapped.
        let bytes = unsafe { std::slice::from_raw_parts(range.start as *const u8, PAGE) };
        assert_eq!(bytes[0], 0xc3);
        assert!(bytes[1..].iter().all(|&byte| byte == 0xcc));
    }
    found.into_iter().map(|range| range.start).collect()
}

/// The CALLs that are split 1|4.
fn needy(block: Block) -> Vec<CallSite> {
    block.sites().into_iter().filter(|site| site.offset() == 7 && !site.is_jump).collect()
}

fn deactivate(site: CallSite) -> Result<bool, PatchError> {
    // SAFETY: a site of a block, whose function does not need the callee.
    unsafe { OPEN.deactivate_call(site.addr) }
}

#[test]
fn rets_are_mapped_where_they_are_needed() {
    one_for_all_in_reach();
    one_for_all_threads();
    none_where_all_is_full();
    one_for_parent_and_child();
}

fn one_for_all_in_reach() {
    let block = copy_to(REGIONS[0]);
    let others: Vec<_> =
        block.sites().into_iter().filter(|site| site.offset() != 7 || site.is_jump).collect();
    assert_eq!(others.len(), 29);
    for site in others {
        walk(site, OPEN);
    }
    assert_eq!(trampolines(), [0_usize; 0], "only a CALL that is split 1|4 needs one");
    for site in needy(block) {
        walk(site, OPEN);
    }
    let mapped = trampolines();
    assert_eq!(mapped.len(), 1);
    assert!(mapped[0] == block.start - PAGE || mapped[0] == block.start + Block::size(), "{mapped:x?}");

    // Within 2 GiB on either side, it is shared; beyond, there is another one.
    for distance in [GIB, 2 * GIB - (1 << 20)] {
        for start in [block.start + distance, block.start - distance] {
            for site in copy_to(start).sites() {
                walk(site, OPEN);
            }
        }
    }
    assert_eq!(trampolines(), mapped);
    for site in copy_to(block.start + 5 * GIB).sites() {
        walk(site, OPEN);
    }
    assert_eq!(trampolines().len(), 2);
}

/// Threads that need one at the same time get the same one.
fn one_for_all_threads() {
    let before = trampolines().len();
    let block = copy_to(REGIONS[1]);
    let sites = needy(block);
    assert_eq!(sites.len(), 3);
    let barrier = Barrier::new(2 * sites.len());
    thread::scope(|scope| {
        for site in sites.iter().chain(&sites) {
            scope.spawn(|| {
                barrier.wait();
                deactivate(*site).unwrap();
                assert_eq!(site.run(), 0);
                assert!(!deactivate(*site).unwrap());
            });
        }
    });
    assert_eq!(trampolines().len(), before + 1);
    for site in sites {
        assert!(activate(site, OPEN, false, block.callee(FIRST)).unwrap());
        assert_eq!(site.run(), FIRST);
    }
}

/// A block in the middle of reserved memory.
fn none_where_all_is_full() {
    let before = trampolines();
    let wall = 3 * GIB;
    let block = copy_to(REGIONS[2]);
    let end = block.start + Block::size();
    map_at(block.start - wall, wall, libc::PROT_NONE);
    map_at(end, wall, libc::PROT_NONE);
    let whole = block.bytes();
    for site in needy(block) {
        let error = deactivate(site).unwrap_err();
        let shown = format!(
            "{:#x}: there is no place within 2 GiB for the `ret` that a deactivated CALL calls: no free page; \
             activate it with an empty function near by instead",
            site.addr
        );
        assert_eq!(error.to_string(), shown);
        assert!(error.source().is_some());
        let PatchError::Trampoline { addr, error } = error else { panic!("{error}") };
        assert_eq!((addr, error.kind()), (site.addr, io::ErrorKind::OutOfMemory));
        assert_eq!(site.run(), FIRST);
    }
    assert!(block.bytes() == whole);
    assert_eq!(trampolines(), before);
    // Follows the message: callee 0 does nothing.
    for site in needy(block) {
        assert!(activate(site, OPEN, false, block.callee(0)).unwrap());
        assert_eq!(site.run(), 0);
        assert!(activate(site, OPEN, false, block.callee(FIRST)).unwrap());
    }
    // One page at the end of the reach, and there it is.
    let hole = end + 2 * GIB - 16 * PAGE;
    unmap(hole, PAGE);
    for site in needy(block) {
        walk(site, OPEN);
    }
    let now = trampolines();
    assert_eq!(now.len(), before.len() + 1);
    assert!(now.contains(&hole), "{now:x?}");
    unmap(block.start - wall, wall);
    unmap(end, hole - end);
}

/// A child has the pages that were there, and maps its own others.
fn one_for_parent_and_child() {
    let before = trampolines();
    let old = Block { start: REGIONS[1] };
    let new = copy_to(REGIONS[3]);
    let (old_sites, new_sites) = (needy(old), needy(new));
    // SAFETY: the child calls what a child of a program with threads may; the other threads have
    // ended.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1);
    if child == 0 {
        let result = std::panic::catch_unwind(|| {
            for site in old_sites {
                walk(site, OPEN);
            }
            assert_eq!(trampolines(), before);
            for site in new_sites {
                walk(site, OPEN);
            }
            assert_eq!(trampolines().len(), before.len() + 1);
        });
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    let mut status = -1;
    // SAFETY: `status` is a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "what the child's assertion says is on stderr");
    assert_eq!(trampolines(), before);
    for site in new_sites {
        walk(site, OPEN);
    }
    assert_eq!(trampolines().len(), before.len() + 1);
}
