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

mod gaps;

use std::ops::Range;
use std::{io, ptr, slice};

use crate::os::maps::{Maps, Rights};
use crate::os::text::{page_size, protect};
use crate::os::{memory, text};

/// Number of places to try after one look at the mappings.
const PLACES: usize = 64;

/// Number of looks at the mappings. Other threads map and unmap meanwhile.
const LOOKS: usize = 3;

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
    let whole = len.next_multiple_of(page_size());
    let start = claim(reach, whole)?;
    let pages = start.addr()..start.addr() + whole;
    // SAFETY: new pages, which no other code knows.
    fill(unsafe { slice::from_raw_parts_mut(start, len) }, pages.start);
    // SAFETY: no other code knows them yet.
    protect(&pages, Rights::TEXT).inspect_err(|_| unsafe { unmap(&pages) })?;
    memory::name(pages.start, whole);
    Ok(pages)
}

fn claim(reach: &Range<usize>, len: usize) -> io::Result<*mut u8> {
    let mut error = io::Error::new(io::ErrorKind::OutOfMemory, "no free page");
    for _ in 0..LOOKS {
        let places = gaps::places(&Maps::open()?.text()?, reach, len, page_size());
        for &place in places.iter().take(PLACES) {
            match memory::zeroed_at(place, len) {
                Ok(start) => return Ok(start),
                Err(errno) => error = io::Error::from_raw_os_error(errno),
            }
        }
        // Another look may help only if another thread mapped the place first.
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
