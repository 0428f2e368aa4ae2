//! Switches sites through `int3`: sites across two words, all sites under strict patching, and all
//! sites that the kernel writes in the program's place.
//!
//! Cost: two barriers for 4,096 sites; through the kernel, three system calls (1.2 µs each) a site.

// Safety: relies on sites that lie in the text of loaded objects, as `batch` does.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::sync::Arc;

use super::batch::{by_page, by_run, is_switch, read_site};
use super::{Batch, Site};
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::mem::Alias;
use crate::engine::os::tracer;
use crate::engine::sites::word::Plan;
use crate::engine::sites::{
    Bytes, Mode, OpenText, PatchError, Refusal, RefusalReason, SITE_LEN, SiteAddr, TextError,
};
use probe_patch::__runtime::{Writable, check_readable, nobody_blocks, replace_each};

impl Batch<'_> {
    /// Switches sites strictly. Opens all runs first, so that all sites share the waits.
    pub(super) fn switch_strictly(&mut self, sites: &[Site]) {
        let _whole = Uncancellable::new();
        let (open, plans) = self.plan_each(sites, OpenText::new);
        self.switch_trapped(&plans, &Writable::ByCaller);
        for text in open {
            if text.close().is_err() {
                self.report.add_unsealed();
            }
        }
    }

    /// Switches sites across two words, in open text.
    #[cold]
    pub(super) fn switch_split_sites(&mut self, sites: &[Site]) {
        let _whole = Uncancellable::new();
        let mut plans = Vec::new();
        self.plan(sites, &mut plans);
        self.switch_trapped(&plans, &Writable::ByCaller);
    }

    /// Switches sites through the kernel, which writes single bytes under an `int3`.
    pub(super) fn switch_through_the_kernel(&mut self, sites: &[Site]) {
        let _whole = Uncancellable::new();
        let alias = match Alias::open() {
            Ok(alias) => alias,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or_default();
                return self.refuse_changes(sites, &RefusalReason::NoAlias { errno });
            }
        };
        let (_, plans) = self.plan_each(sites, check_readable);
        self.switch_trapped(&plans, &Writable::Alias(Arc::new(alias)));
    }

    /// Plans all sites whose pages can be opened, by runs or one by one.
    fn plan_each<T>(
        &mut self,
        sites: &[Site],
        open: impl Fn(Range<usize>) -> Result<T, TextError>,
    ) -> (Vec<T>, Vec<Plan>) {
        let (mut opened, mut plans) = (Vec::new(), Vec::new());
        for (sites, run) in by_run(sites) {
            if let Ok(text) = open(run) {
                opened.push(text);
                self.plan(sites, &mut plans);
                continue;
            }
            for (sites, page) in by_page(sites) {
                match open(page) {
                    Ok(text) => {
                        opened.push(text);
                        self.plan(sites, &mut plans);
                    }
                    Err(error) => self.refuse_page(sites, &error),
                }
            }
        }
        (opened, plans)
    }

    /// Plans sites whose text can be read. Counts at once the sites that need no change or can't be
    /// switched.
    fn plan(&mut self, sites: &[Site], plans: &mut Vec<Plan>) {
        for site in sites {
            // SAFETY: in the text of an object that stays loaded (`self.loaded`). It can be read.
            match unsafe { read_site(*site, self.wanted) } {
                Ok((found, None)) => self.note_unchanged(*site, found),
                Ok((found, Some(new))) => {
                    if is_switch(found, self.wanted) {
                        self.note_switch(*site, found);
                    } else {
                        self.retargeted.push(site.addr);
                    }
                    plans.extend(Plan::new(
                        site.addr.0,
                        Bytes::from(found.bytes()),
                        Bytes::from(new.bytes()),
                    ));
                }
                Err(refusal) => self.report.refuse(*refusal),
            }
        }
    }

    fn switch_trapped(&mut self, plans: &[Plan], writable: &Writable) {
        let wanted = self.wanted;
        self.retargeted.sort_unstable();
        let tell = |addr: usize, result: Result<(), PatchError>| {
            let is_switched = self.retargeted.binary_search(&SiteAddr(addr)).is_err();
            match result.map_err(reason) {
                Ok(()) if is_switched => self.report.add_patched(1),
                Ok(()) => self.report.add_unchanged(1),
                // The site still counts, through its active instruction.
                Err(reason) if wanted == Mode::Counting && !is_switched && !is_foreign(&reason) => {
                    self.report.add_unchanged(1);
                }
                Err(reason) => self.report.refuse(Refusal::new(SiteAddr(addr), reason)),
            }
        };
        // SAFETY: each plan replaces a site's instruction by another one of the site's, in the text
        // of a loaded object.
        unsafe { replace_each(plans, writable, tell) };
    }
}

/// Returns whether a trial could write text through the kernel, and under an `int3`. The kernel
/// writes to a read-only page of this function. No thread may block the signal, and no tracer may
/// be attached to this thread.
pub(crate) fn alias_works() -> bool {
    let _whole = Uncancellable::new();
    Alias::open().is_ok() && nobody_blocks().is_ok() && tracer().is_none()
}

fn is_foreign(reason: &RefusalReason) -> bool {
    matches!(reason, RefusalReason::Foreign { .. })
}

/// Returns the reason why a site was not switched through `int3`.
pub(crate) fn reason(error: PatchError) -> RefusalReason {
    let site = |bytes: Bytes| <[u8; SITE_LEN]>::try_from(&*bytes).unwrap_or_default();
    match error {
        PatchError::Busy { .. } => RefusalReason::Busy,
        PatchError::Foreign { expected, found, .. } => {
            RefusalReason::Foreign { expected: site(expected), found: site(found) }
        }
        PatchError::Alias { error, .. } => {
            RefusalReason::NoAlias { errno: error.raw_os_error().unwrap_or_default() }
        }
        PatchError::Signal { problem } => RefusalReason::NoTrap { problem },
        other => RefusalReason::NoTrap { problem: other.to_string() },
    }
}
