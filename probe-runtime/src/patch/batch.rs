//! Switching many sites at once: runs of pages, then one barrier. If a run can't be opened, its
//! pages are opened one by one. A page that can't be opened is no reason to leave the sites of
//! other pages.

// Safety: relies on sites that lie in the text of loaded objects (the registry checks each against
// its object's segments), and on nobody unloading such an object from another thread meanwhile.
#![expect(unsafe_code, reason = "see above")]

use std::collections::BTreeSet;
use std::ops::Range;

use super::poke::{poke, read};
use super::refused::settle;
use super::trapped::alias_works;
use super::{Access, WritableRuns};
use super::{Instruction, Refusal, RefusalReason, Report, SITE_LEN, SiteAddr, SiteState, Step, plan};
use crate::os::text::pages;

/// One site: its address, and its instruction while it is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Site {
    pub(crate) addr: SiteAddr,
    pub(crate) active: Instruction,
}

/// How many sites ahead a cache line is prefetched. A locked instruction waits for its line alone,
/// while prefetched lines arrive side by side.
const AHEAD: usize = 12;

/// A batch: the wanted state, and the report.
pub(crate) struct Batch<'a> {
    pub(super) wanted: SiteState,
    pub(super) report: &'a mut Report,
    /// Sites that no single write switches.
    straddlers: Vec<Site>,
    left: Left<'a>,
}

/// How the last operation left the sites of a batch. A site in the opposite state was written by
/// somebody else since, and is noted as [foreign](Report::foreign).
#[derive(Clone, Copy, Default)]
pub(crate) struct Left<'a> {
    /// `None` where that is not known.
    pub(crate) state: Option<SiteState>,
    /// Sites that the last operation could not switch.
    pub(crate) but: Option<&'a BTreeSet<SiteAddr>>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(wanted: SiteState, report: &'a mut Report) -> Self {
        Self { wanted, report, straddlers: Vec::new(), left: Left::default() }
    }

    /// Says how all its sites were left.
    pub(crate) fn left(mut self, left: Left<'a>) -> Self {
        self.left = left;
        self
    }

    /// Switches sites, which should be in ascending order. If their text is not held open, each run
    /// of neighbouring pages is opened once.
    #[inline(always)]
    pub(crate) fn switch(&mut self, sites: &[Site], access: Access) {
        match access {
            Access::Held => self.write(sites),
            Access::ByRun => self.write_by_run(sites),
            Access::ByRunStrictly => self.switch_strictly(sites),
            Access::Alias => self.switch_through_the_kernel(sites),
        }
        if !self.straddlers.is_empty() {
            let straddlers = std::mem::take(&mut self.straddlers);
            match access {
                Access::Held => self.switch_straddlers(&straddlers),
                _ => self.switch_strictly(&straddlers),
            }
        }
        if self.report.refused() != 0 {
            self.report.seek_alternative(alias_works);
        }
    }

    fn write_by_run(&mut self, sites: &[Site]) {
        if sites.is_empty() {
            return;
        }
        let mut writable = WritableRuns::new();
        for (sites, run) in by_run(sites) {
            match writable.with_open(&run, || self.write(sites)) {
                Ok(Ok(())) => {}
                Ok(Err(_)) => self.report.add_unsealed(),
                Err(_) => self.write_by_page(sites, &mut writable),
            }
        }
    }

    #[cold]
    fn write_by_page(&mut self, sites: &[Site], writable: &mut WritableRuns) {
        for (sites, page) in by_page(sites) {
            match writable.with_open(&page, || self.write(sites)) {
                Ok(Ok(())) => {}
                Ok(Err(_)) => self.report.add_unsealed(),
                Err(error) => self.refuse_page(sites, &error),
            }
        }
    }

    /// Switches sites in text that is open.
    #[inline(always)]
    fn write(&mut self, sites: &[Site]) {
        // Two loops, so that the wanted state is a constant in each.
        match self.wanted {
            SiteState::Latent => self.write_each(sites, SiteState::Latent),
            SiteState::Active => self.write_each(sites, SiteState::Active),
        }
    }

    #[inline(always)]
    fn write_each(&mut self, sites: &[Site], wanted: SiteState) {
        let (mut patched, mut unchanged) = (0, 0);
        let is_change = self.left.state.map(|left| left != wanted);
        for (at, site) in sites.iter().enumerate() {
            if let Some(later) = sites.get(at + AHEAD) {
                prefetch_for_write(later.addr.word());
            }
            match write_one(*site, wanted) {
                Ok(Done::Patched) => {
                    patched += 1;
                    if is_change == Some(false) {
                        self.note_stray(*site);
                    }
                }
                Ok(Done::Unchanged) => {
                    unchanged += 1;
                    if is_change == Some(true) {
                        self.note_stray(*site);
                    }
                }
                Ok(Done::Nothing) => self.straddlers.push(*site),
                Err(refusal) => self.look_again(*site, refusal),
            }
        }
        self.report.add_patched(patched);
        self.report.add_unchanged(unchanged);
    }
}

impl Batch<'_> {
    /// Counts a site that already is as wanted.
    pub(super) fn leave(&mut self, site: Site) {
        self.report.add_unchanged(1);
        if self.left.state.is_some_and(|left| left != self.wanted) {
            self.note_stray(site);
        }
    }

    /// Looks at a site that is about to be switched.
    pub(super) fn begin(&mut self, site: Site) {
        if self.left.state == Some(self.wanted) {
            self.note_stray(site);
        }
    }

    /// A site that holds the opposite of what it was left with.
    #[cold]
    fn note_stray(&mut self, site: Site) {
        if self.left.but.is_some_and(|but| but.contains(&site.addr)) {
            return;
        }
        let (expected, found) = match self.left.state {
            Some(SiteState::Active) => (site.active, Instruction::NOP5),
            _ => (Instruction::NOP5, site.active),
        };
        let reason = RefusalReason::Foreign { expected: expected.bytes(), found: found.bytes() };
        self.report.add_foreign(Refusal::new(site.addr, reason));
    }

    /// A site that holds neither instruction, in text that is open.
    #[cold]
    fn look_again(&mut self, site: Site, mut refusal: Box<Refusal>) {
        loop {
            // SAFETY: in the text of a loaded object, which has just been read.
            if let Some(refusal) = unsafe { settle(site, refusal) } {
                return self.report.refuse(*refusal);
            }
            match write_one(site, self.wanted) {
                Ok(Done::Patched) => {
                    self.begin(site);
                    return self.report.add_patched(1);
                }
                Ok(Done::Unchanged) => return self.leave(site),
                Ok(Done::Nothing) => return self.straddlers.push(site),
                Err(again) => refusal = again,
            }
        }
    }
}

/// Sites with the run of neighbouring pages that they lie in.
pub(super) fn by_run(mut sites: &[Site]) -> impl Iterator<Item = (&[Site], Range<usize>)> {
    std::iter::from_fn(move || {
        let mut run = pages(bytes(sites.first()?));
        let len = sites.iter().position(|site| !extend(&mut run, site)).unwrap_or(sites.len());
        let (now, later) = sites.split_at(len);
        sites = later;
        Some((now, run))
    })
}

/// Sites with the page that they lie in, or with two pages, which is refused later.
pub(super) fn by_page(sites: &[Site]) -> impl Iterator<Item = (&[Site], Range<usize>)> {
    let same = |one: &Site, next: &Site| pages(bytes(one)) == pages(bytes(next));
    sites.chunk_by(same).map(|sites| (sites, pages(bytes(&sites[0]))))
}

/// The result of switching one site.
enum Done {
    Patched,
    Unchanged,
    /// The site straddles.
    Nothing,
}

/// Switches one site, if one write does that.
#[inline(always)]
fn write_one(site: Site, wanted: SiteState) -> Result<Done, Box<Refusal>> {
    let word = site.addr.word();
    // SAFETY: a multiple of 8, in the text of a loaded object.
    let mut found = unsafe { read(word) };
    loop {
        match plan(found, site.addr, site.active, wanted)? {
            Step::Unchanged => return Ok(Done::Unchanged),
            Step::Straddles => return Ok(Done::Nothing),
            // SAFETY: as above; the text policy has made it writable.
            Step::Write { expected, new } => match unsafe { poke(word, expected, new) } {
                Ok(()) => return Ok(Done::Patched),
                // Somebody wrote in between: plan again from the new word.
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
