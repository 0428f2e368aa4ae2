//! A page of its own for one `ret`, near a call site.

// Safety: hands on what its callers promise.
#![expect(unsafe_code, reason = "see above")]

use std::io;

use crate::arch::{SITE_LEN, SiteAddr};
use crate::near;
use crate::os::text::page_size;

const RET: u8 = 0xc3;
const INT3: u8 = 0xcc;

/// Maps a page within reach of a CALL at `site`. The page begins with a `ret`, and can only be read
/// and executed.
///
/// # Errors
/// The system's error for the last place that was tried.
pub(super) fn map_near(site: SiteAddr) -> io::Result<usize> {
    let reach = site.0..site.0.saturating_add(SITE_LEN);
    let page = near::map_near(&reach, page_size(), |bytes, _| {
        bytes.fill(INT3);
        bytes[0] = RET;
    })?;
    Ok(page.start)
}

/// Unmaps a page of [`map_near`].
///
/// # Safety
/// No call leads there.
pub(super) unsafe fn unmap(page: usize) {
    // SAFETY: as the caller says.
    unsafe { near::unmap(&(page..page + page_size())) };
}
