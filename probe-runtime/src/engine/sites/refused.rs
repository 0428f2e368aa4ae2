//! Refuses sites, each for its own reason. This code runs only for refused sites, so it may be
//! slow.
//!
//! A page that can't be opened may also be unreadable. So this code reads a page only after the
//! kernel has reported that it is readable. If the kernel can't be asked, it reads nothing.

// Safety: relies on sites that lie in the text of loaded objects, as `batch` does.
#![expect(unsafe_code, reason = "see above")]

use super::batch::{by_page, is_switch};
use super::plan::replacement;
use super::word::INT3;
use super::{Batch, Bytes, Instruction, Mode, PatchError, Refusal, RefusalReason, SITE_LEN, Site, TextError};
use probe_patch::__runtime::{check_readable, read_instruction, taken};

impl Batch<'_> {
    /// Refuses sites of a page that can't be opened.
    #[cold]
    pub(super) fn refuse_page(&mut self, sites: &[Site], error: &TextError) {
        match error {
            TextError::Unmapped { .. } | TextError::NotReadable { .. } => {
                self.refuse_all(sites, &RefusalReason::Unreadable);
            }
            TextError::Unknown { errno } => self.refuse_all(sites, &RefusalReason::Unknown { errno: *errno }),
            error => {
                let errno = error.errno().unwrap_or_default();
                self.refuse_changes(sites, &RefusalReason::Protected { errno });
            }
        }
    }

    /// Counts sites that already are as wanted, and refuses the others.
    #[cold]
    pub(super) fn refuse_changes(&mut self, sites: &[Site], reason: &RefusalReason) {
        for (sites, page) in by_page(sites) {
            match check_readable(page) {
                Ok(()) => sites.iter().for_each(|site| self.refuse_change(*site, reason)),
                Err(TextError::Unknown { .. }) => self.refuse_all(sites, reason),
                Err(_) => self.refuse_all(sites, &RefusalReason::Unreadable),
            }
        }
    }

    fn refuse_change(&mut self, site: Site, reason: &RefusalReason) {
        // SAFETY: the caller has just seen that the text can be read.
        match unsafe { read_site(site, self.wanted) } {
            Ok((found, None)) => self.leave(site, found),
            // The site still counts, through its active instruction.
            Ok((found, Some(_))) if self.wanted == Mode::Counting && !is_switch(found, self.wanted) => {
                self.leave(site, found);
            }
            Ok((found, Some(_))) => {
                if is_switch(found, self.wanted) {
                    self.begin(site, found);
                }
                self.report.refuse(Refusal::new(site.addr, reason.clone()));
            }
            Err(refusal) => self.report.refuse(*refusal),
        }
    }

    fn refuse_all(&mut self, sites: &[Site], reason: &RefusalReason) {
        for site in sites {
            self.report.refuse(Refusal::new(site.addr, reason.clone()));
        }
    }
}

/// Returns the instruction in a site, at any alignment, and its replacement; `None` if the site is
/// as wanted.
///
/// # Safety
/// Its text can be read.
pub(super) unsafe fn read_site(
    site: Site,
    wanted: Mode,
) -> Result<(Instruction, Option<Instruction>), Box<Refusal>> {
    loop {
        // SAFETY: in text that can be read.
        let bytes = unsafe { read_instruction(site.addr.0, SITE_LEN) };
        let found = Instruction::from_bytes(<[u8; SITE_LEN]>::try_from(&*bytes).unwrap_or_default());
        match replacement(found, site, wanted) {
            Ok(new) => return Ok((found, new)),
            Err(refusal) => {
                // SAFETY: as above.
                let settled = unsafe { settle(site, refusal) };
                if let Some(refusal) = settled {
                    return Err(refusal);
                }
            }
        }
    }
}

/// Returns the final refusal of a site that can't be planned; `None` to read again. An `int3` may
/// be a breakpoint, or belong to a patch under way. If such a patch has just ended, looking again
/// finds its result.
///
/// # Safety
/// Its text can be read.
#[cold]
pub(super) unsafe fn settle(site: Site, refusal: Box<Refusal>) -> Option<Box<Refusal>> {
    let expected = match refusal.reason() {
        RefusalReason::Foreign { expected, found } if found[0] == INT3 => Bytes::from(*expected),
        _ => return Some(refusal),
    };
    // SAFETY: as the caller says.
    match unsafe { taken(site.addr.0, expected) } {
        PatchError::Busy { .. } => Some(Box::new(Refusal::new(site.addr, RefusalReason::Busy))),
        PatchError::Foreign { found, .. } if found[0] != INT3 => None,
        _ => Some(refusal),
    }
}
