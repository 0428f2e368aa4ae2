//! Maps pages of code near the text that leads to them: for the `ret`s of deactivated calls, and
//! for counting blocks.
//!
//! Life of a page: it is mapped in a gap of the kernel's table of mappings, written while it can't
//! be executed, and then made executable. It is never writable again. A page is never mapped over
//! another one. If another thread maps the gap first, this one looks for a new gap.
//!
//! Cost: one read of the table (20 µs in a small process), and three system calls.

// Safety: relies on `os::memory`, which never maps over anything. No other code knows a new page
// until its address is handed out.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::{io, ptr, slice};

use crate::arch::BRANCH_REACH;
use crate::os::maps::{Maps, Rights, mappings};
use crate::os::text::{page_size, protect};
use crate::os::{memory, text};

/// Number of places to try after one reading of the mappings.
const MAX_PLACES: usize = 64;

/// Number of readings of the mappings. Other threads map and unmap meanwhile.
const MAX_READINGS: usize = 3;

/// Maps whole pages. A branch in any of them reaches all bytes of `reach`, and the other way
/// round. `fill` gets `len` zeroed bytes to write, and their address. The rest of the pages stays
/// zeroed.
///
/// # Errors
/// The system's error for the last place that was tried: `EACCES` or `EPERM` where memory may not
/// be made executable.
pub fn map_near(
    reach: &Range<usize>,
    len: usize,
    fill: impl FnOnce(&mut [u8], usize),
) -> io::Result<Range<usize>> {
    map_near_with_data(reach, len, 0, fill)
}

/// Does the same, and maps `data` zeroed bytes in the pages behind, which stay writable.
///
/// # Errors
/// The same as those of [`map_near`].
pub fn map_near_with_data(
    reach: &Range<usize>,
    len: usize,
    data: usize,
    fill: impl FnOnce(&mut [u8], usize),
) -> io::Result<Range<usize>> {
    let code = len.next_multiple_of(page_size());
    let whole = code + data.next_multiple_of(page_size());
    let start = claim(reach, whole)?;
    let pages = start.addr()..start.addr() + whole;
    // SAFETY: new pages, which no other code knows.
    fill(unsafe { slice::from_raw_parts_mut(start, len) }, pages.start);
    // SAFETY: no other code knows them yet.
    protect(&(pages.start..pages.start + code), Rights::TEXT).inspect_err(|_| unsafe { unmap(&pages) })?;
    memory::name(pages.start, whole);
    Ok(pages)
}

fn claim(reach: &Range<usize>, len: usize) -> io::Result<*mut u8> {
    let mut error = io::Error::new(io::ErrorKind::OutOfMemory, "no free page");
    for _ in 0..MAX_READINGS {
        let free = places(&Maps::open()?.text()?, reach, len, page_size());
        for &place in free.iter().take(MAX_PLACES) {
            match memory::zeroed_at(place, len) {
                Ok(start) => return Ok(start),
                Err(errno) => error = io::Error::from_raw_os_error(errno),
            }
        }
        // Another reading may help only if another thread mapped the place first.
        if error.raw_os_error() != Some(libc::EEXIST) {
            break;
        }
    }
    Err(error)
}

/// Unmaps pages of [`map_near`].
///
/// # Safety
/// No code leads to the pages, and no thread executes them.
pub unsafe fn unmap(pages: &Range<usize>) {
    debug_assert_eq!(text::pages(pages.clone()), *pages);
    // SAFETY: mapped by `zeroed_at`; the caller promises that no thread uses them.
    unsafe { memory::give_back(ptr::with_exposed_provenance_mut(pages.start), pages.len()) };
}

/// The lowest address that a process may map by default (`vm.mmap_min_addr`).
const LOWEST_ADDR: usize = 0x1_0000;

/// The bytes to leave free below the main thread's stack and above the program's break, which both
/// grow in place. The kernel keeps the same space free below the stack.
const GROWTH: usize = 128 << 20;

/// Returns places for `len` bytes, in whole pages, that are free according to `maps` and within
/// reach of all of `reach`: at most one in each gap, the nearest first.
fn places(maps: &[u8], reach: &Range<usize>, len: usize, page: usize) -> Vec<usize> {
    let is_near = |place: usize| (place + len).max(reach.end) - place.min(reach.start) <= BRANCH_REACH;
    let mut places: Vec<usize> = gaps(maps)
        .filter(|gap| gap.start.checked_add(len).is_some_and(|end| end <= gap.end))
        .map(|gap| (reach.start & !(page - 1)).clamp(gap.start, gap.end - len))
        .filter(|&place| is_near(place))
        .collect();
    places.sort_by_key(|place| place.abs_diff(reach.start));
    places
}

/// Returns the gaps, in ascending order. It ignores lines that it does not understand: a page is
/// never mapped over another one.
fn gaps(maps: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut free = LOWEST_ADDR;
    mappings(maps).map(move |(range, name)| {
        let end = if name == b"[stack]" { range.start.saturating_sub(GROWTH) } else { range.start };
        let gap = free..end;
        free = free.max(if name == b"[heap]" { range.end.saturating_add(GROWTH) } else { range.end });
        gap
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Rel32, SITE_LEN, SiteAddr};
    use proptest::prelude::*;

    const PAGE: usize = 0x1000;

    fn near(maps: &[u8], site: usize) -> Vec<usize> {
        places(maps, &(site..site.saturating_add(SITE_LEN)), PAGE, PAGE)
    }

    #[test]
    fn the_nearest_gap_comes_first_and_the_far_ones_not_at_all() {
        let maps = "\
            200000000-200001000 r-xp 00000000 fe:00 1 /bin/far\n\
            2f0000000-2f0002000 r-xp 00000000 fe:00 1 /bin/below\n\
            300000000-300004000 r-xp 00000000 fe:00 1 /bin/site\n\
            300004000-300005000 rw-p 00000000 00:00 0 \n\
            300009000-300010000 rw-p 00000000 00:00 0 \n\
            390000000-390001000 rw-p 00000000 00:00 0 \n";
        let found = near(maps.as_bytes(), 0x3_0000_3ff8);
        // The lowest gap ends 4 GiB below.
        assert_eq!(found, [0x3_0000_5000, 0x2_ffff_f000, 0x3_0001_0000, 0x2_efff_f000]);
        let found = near(maps.as_bytes(), 0x2_f000_0010);
        assert_eq!(found, [0x2_efff_f000, 0x2_f000_2000, 0x3_0000_5000, 0x3_0001_0000]);
    }

    #[test]
    fn stacks_and_breaks_have_room_to_grow() {
        let maps = "\
            500000000-500001000 r-xp 00000000 fe:00 1 /bin/site\n\
            500001000-500002000 rw-p 00000000 00:00 0          [heap]\n\
            520000000-520001000 rw-p 00000000 00:00 0          [stack]\n\
            520001000-530000000 rw-p 00000000 00:00 0 \n";
        let found = near(maps.as_bytes(), 0x5_0000_0000);
        assert_eq!(found, [0x4_ffff_f000, 0x5_0000_2000 + GROWTH]);
        let found = near(maps.as_bytes(), 0x5_2800_0000);
        assert_eq!(found, [0x5_2000_0000 - GROWTH - PAGE, 0x4_ffff_f000]);
    }

    #[test]
    fn where_nothing_is_free_there_is_no_place() {
        let full = "10000-800000000000 r-xp 00000000 00:00 0 \n";
        assert_eq!(near(full.as_bytes(), 0x5555_0000), []);
        assert_eq!(near(b"", 0x5555_0000), []);
        assert_eq!(near(b"what is\nthis-\n12-34", 0x5555_0000), []);
    }

    proptest! {
        #[test]
        fn places_are_free_and_in_reach(
            mut ends in proptest::collection::vec(0x20_usize..0x40_0000, 0..40),
            site in 0x1_0000_usize..0x4_0000_0000,
            text in 1_usize..0x1_0000_0000,
            len in 1_usize..0x10,
        ) {
            let len = len * PAGE;
            ends.sort_unstable();
            ends.dedup();
            let mappings: Vec<_> = ends.chunks_exact(2).map(|pair| pair[0] * PAGE..pair[1] * PAGE).collect();
            let lines: Vec<_> =
                mappings.iter().map(|it| format!("{:x}-{:x} rw-p 0 00:00 0 ", it.start, it.end)).collect();
            let maps = lines.join("\n");
            let mut nearest = 0;
            for place in places(maps.as_bytes(), &(site..site + text), len, PAGE) {
                prop_assert_eq!(place % PAGE, 0);
                for (one, other) in [(site, place), (site + text, place + len)] {
                    for (one, other) in [(one, other), (other, one), (place, site + text), (site, place + len)] {
                        prop_assert!(Rel32::between(SiteAddr(one), other).is_some());
                    }
                }
                prop_assert!(mappings.iter().all(|it| place + len <= it.start || it.end <= place));
                prop_assert!(nearest <= place.abs_diff(site));
                nearest = place.abs_diff(site);
            }
        }

        #[test]
        fn never_panics(maps: Vec<u8>, site: usize) {
            let _ = near(&maps, site);
        }
    }
}
