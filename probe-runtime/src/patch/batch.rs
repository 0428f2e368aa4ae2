//! Many sites at once: runs of pages, then one barrier.

// Safety: relies on sites that lie in the text of loaded objects (the registry checks each against its
// object's segments), and on nobody unloading such an object from another thread meanwhile.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;

use super::poke::{poke, read};
use super::{Access, OpenText, TextError};
use super::{Refusal, RefusalReason, Report, SITE_LEN, SiteAddr, SiteState, Step, plan};
use crate::os::mem::Alias;
use crate::os::text::pages;

/// One site: where it is and where it jumps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Site {
    pub(crate) addr: SiteAddr,
    pub(crate) target: usize,
}

/// How many sites ahead a cache line is asked for: a locked instruction waits for its line alone, while lines that
/// were asked for come in side by side.
const AHEAD: usize = 12;

/// A batch: the state wanted, and the report of what has been done.
pub(crate) struct Batch<'a> {
    wanted: SiteState,
    report: &'a mut Report,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(wanted: SiteState, report: &'a mut Report) -> Self {
        Self { wanted, report }
    }

    /// Switches sites, which are best in ascending order: where the text is not held open, each run of neighbouring pages
    /// is opened once.
    pub(crate) fn switch(&mut self, sites: &[Site], access: Access) {
        match access {
            Access::Held => self.write(sites),
            Access::ByRun => self.write_by_run(sites),
            Access::Alias => self.switch_trapped(sites),
        }
    }

    fn write_by_run(&mut self, sites: &[Site]) {
        let mut rest = sites;
        while let Some(first) = rest.first() {
            let mut run = pages(bytes(first));
            let len = rest.iter().position(|site| !extend(&mut run, site)).unwrap_or(rest.len());
            let (now, later) = rest.split_at(len);
            self.write_sealed(now, run);
            rest = later;
        }
    }

    fn write_sealed(&mut self, sites: &[Site], run: Range<usize>) {
        match OpenText::of_objects(run) {
            Ok(open) => {
                self.write(sites);
                if open.close().is_err() {
                    self.report.add_unsealed();
                }
            }
            // What can't be read can't be looked at either.
            Err(TextError::Unmapped { .. } | TextError::NotReadable { .. }) => {
                for site in sites {
                    self.report.refuse(Refusal::new(site.addr, RefusalReason::Unreadable));
                }
            }
            Err(error) => {
                let errno = error.errno().unwrap_or_default();
                self.refuse_changes(sites, &RefusalReason::Protected { errno });
            }
        }
    }

    /// The entry point of `TextPolicy::Alias`: sites that are switched under an `int3`, by single bytes that the kernel
    /// writes.
    fn switch_trapped(&mut self, sites: &[Site]) {
        let errno = match Alias::open() {
            Ok(_) => libc::EOPNOTSUPP,
            Err(error) => error.raw_os_error().unwrap_or_default(),
        };
        self.refuse_changes(sites, &RefusalReason::NoAlias { errno });
    }

    /// Switches sites in text that is open.
    fn write(&mut self, sites: &[Site]) {
        // Two loops, in each of which the state wanted is a constant.
        match self.wanted {
            SiteState::Latent => self.write_each(sites, SiteState::Latent),
            SiteState::Active => self.write_each(sites, SiteState::Active),
        }
    }

    #[inline(always)]
    fn write_each(&mut self, sites: &[Site], wanted: SiteState) {
        let (mut patched, mut unchanged) = (0, 0);
        for (at, site) in sites.iter().enumerate() {
            if let Some(later) = sites.get(at + AHEAD) {
                prefetch_for_write(later.addr.word());
            }
            match write_one(*site, wanted) {
                Ok(true) => patched += 1,
                Ok(false) => unchanged += 1,
                Err(refusal) => self.report.refuse(*refusal),
            }
        }
        self.report.add_patched(patched);
        self.report.add_unchanged(unchanged);
    }

    /// Counts what is as wanted anyway, and refuses the rest.
    fn refuse_changes(&mut self, sites: &[Site], reason: &RefusalReason) {
        for site in sites {
            // SAFETY: a multiple of 8, in the text of a loaded object.
            let found = unsafe { read(site.addr.word()) };
            match plan(found, site.addr, site.target, self.wanted) {
                Ok(Step::Unchanged) => self.report.add_unchanged(1),
                Ok(Step::Write { .. }) => self.report.refuse(Refusal::new(site.addr, reason.clone())),
                Err(refusal) => self.report.refuse(*refusal),
            }
        }
    }
}

/// Switches one site; returns whether that took a write.
#[inline(always)]
fn write_one(site: Site, wanted: SiteState) -> Result<bool, Box<Refusal>> {
    let word = site.addr.word();
    // SAFETY: a multiple of 8, in the text of a loaded object.
    let mut found = unsafe { read(word) };
    loop {
        match plan(found, site.addr, site.target, wanted)? {
            Step::Unchanged => return Ok(false),
            // SAFETY: as above; the text policy has made it writable.
            Step::Write { expected, new } => match unsafe { poke(word, expected, new) } {
                Ok(()) => return Ok(true),
                // Somebody wrote in between: plan again from what is there now.
                Err(now) => found = now,
            },
        }
    }
}

/// Extends a run of pages by those of a site, if they touch it.
#[inline(always)]
fn extend(run: &mut Range<usize>, site: &Site) -> bool {
    let bytes = bytes(site);
    if run.start <= bytes.start && bytes.end <= run.end {
        return true;
    }
    let pages = pages(bytes);
    let touches = run.start <= pages.start && pages.start <= run.end;
    if touches {
        run.end = run.end.max(pages.end);
    }
    touches
}

fn bytes(site: &Site) -> Range<usize> {
    site.addr.0..site.addr.0 + SITE_LEN
}

#[inline(always)]
fn prefetch_for_write(addr: usize) {
    // SAFETY: a hint; it does not fault.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) addr, options(nostack, preserves_flags, readonly));
    }
}
