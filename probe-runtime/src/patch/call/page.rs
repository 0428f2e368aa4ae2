//! A page of its own for one `ret`, near a call site.

// Safety: relies on mmap(2), which with `MAP_FIXED_NOREPLACE` never maps over anything; the page is
// nobody else's until its address is handed out.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::{fs, io};

use super::super::{Rel32, SiteAddr};
use super::gaps::places;
use crate::os::text::page_size;

const RET: u8 = 0xc3;
const INT3: u8 = 0xcc;

/// How many places are tried after one look at the mappings.
const PLACES: usize = 64;

/// How often to look again, since other threads map and unmap meanwhile.
const LOOKS: usize = 3;

/// Maps a page within reach of a CALL at `site`. The page begins with a `ret`, and can only be read
/// and executed.
///
/// # Errors
/// The system's, of the last place that was tried.
pub(super) fn map_near(site: SiteAddr) -> io::Result<usize> {
    let mut error = io::Error::new(io::ErrorKind::OutOfMemory, "no free page");
    for _ in 0..LOOKS {
        let places = places(&fs::read("/proc/thread-self/maps")?, site, page_size());
        for &place in places.iter().take(PLACES) {
            match map_at(place, site) {
                Ok(page) => return Ok(page),
                Err(why) => error = why,
            }
        }
        // Another look may help only if somebody was faster.
        if error.raw_os_error() != Some(libc::EEXIST) {
            break;
        }
    }
    Err(error)
}

fn map_at(place: usize, site: SiteAddr) -> io::Result<usize> {
    let len = page_size();
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping, which replaces none.
    let page = unsafe { libc::mmap(ptr::without_provenance_mut(place), len, rights, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Before Linux 4.17 the place was only a hint.
    if Rel32::between(site, page.addr()).is_none() {
        unmap(page.addr());
        return Err(io::Error::from_raw_os_error(libc::EEXIST));
    }
    // Never writable and executable at once: it is data until it is sealed.
    // SAFETY: the new page, which nobody else knows.
    let status = unsafe {
        page.cast::<u8>().write_bytes(INT3, len);
        page.cast::<u8>().write(RET);
        libc::mprotect(page, len, libc::PROT_READ | libc::PROT_EXEC)
    };
    if status != 0 {
        let error = io::Error::last_os_error();
        unmap(page.addr());
        return Err(error);
    }
    Ok(page.expose_provenance())
}

/// Gives a page of [`map_near`] back.
pub(super) fn unmap(page: usize) {
    // SAFETY: callers give back pages that no call leads to.
    unsafe { libc::munmap(ptr::without_provenance_mut(page), page_size()) };
}
