//! Pages of code near the text that leads to them: for `ret`s of deactivated calls, and for counting blocks.
//!
//! Life: mapped where the kernel's table of mappings shows a gap, written while they can't be
//! executed, then executable and never writable again. A page is never mapped over another, so who
//! is slower than another thread looks again.
//! Cost: reading the table (20 µs in a small process), and three system calls.

// Safety: relies on `os::memory`, which never maps over anything; new pages are nobody else's until
// their address is handed out.
#![expect(unsafe_code, reason = "see above")]

mod gaps;

use std::ops::Range;
use std::{io, ptr, slice};

use crate::os::maps::{Maps, Rights};
use crate::os::text::{page_size, protect};
use crate::os::{memory, text};

/// How many places are tried after one look at the mappings.
const PLACES: usize = 64;

/// How often to look again, since other threads map and unmap meanwhile.
const LOOKS: usize = 3;

/// Maps whole pages from each of which a CALL or JMP reaches all bytes of `reach`, and back. `fill`
/// writes `len` bytes, which it gets as zeroes, and their address; the pages' rest is zeroes.
///
/// # Errors
/// The system's, of the last place that was tried. `EACCES` or `EPERM` where memory may not be made
/// executable.
pub fn map_near(
    reach: &Range<usize>,
    len: usize,
    fill: impl FnOnce(&mut [u8], usize),
) -> io::Result<Range<usize>> {
    let whole = len.next_multiple_of(page_size());
    let start = claim(reach, whole)?;
    let pages = start.addr()..start.addr() + whole;
    // SAFETY: new pages, which nobody else knows.
    fill(unsafe { slice::from_raw_parts_mut(start, len) }, pages.start);
    // SAFETY: nobody knows them yet.
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
        // Another look may help only if somebody was faster.
        if error.raw_os_error() != Some(libc::EEXIST) {
            break;
        }
    }
    Err(error)
}

/// Gives pages of [`map_near`] back.
///
/// # Safety
/// No code leads to them, and no thread is in them.
pub unsafe fn unmap(pages: &Range<usize>) {
    debug_assert_eq!(text::pages(pages.clone()), *pages);
    // SAFETY: mapped by `zeroed_at`; nobody uses them, as the caller says.
    unsafe { memory::give_back(ptr::with_exposed_provenance_mut(pages.start), pages.len()) };
}
