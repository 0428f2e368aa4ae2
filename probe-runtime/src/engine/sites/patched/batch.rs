//! Switches many sites at once: a batch opens one run of pages after another, then ends with one
//! barrier. If a run can't be opened, the batch opens its pages one by one. A page that can't be
//! opened does not keep the batch from sites on other pages.
//!
//! Each refused site has its own reason. A page that can't be opened may also be unreadable. So
//! this code reads a page only after the kernel has reported that it is readable. If the kernel
//! can't be asked, it reads nothing.

// Safety: relies on sites that lie in the text of loaded objects: the registry checks each against
// its object's segments. `KeptLoaded` proves that no other thread unloads such an object meanwhile.
#![expect(unsafe_code, reason = "see above")]

use std::collections::BTreeSet;
use std::ops::Range;

use super::site::{Site, replacement};
use super::trap::alias_works;
use crate::engine::entry::backend::prefetch_for_write;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::os::text::pages;
use crate::engine::sites::word::INT3;
use crate::engine::sites::{
    Access, Bytes, Instruction, Mode, PatchError, Refusal, RefusalReason, Report, SITE_LEN, SiteAddr,
    TextError,
};
use probe_patch::__runtime::{WritableRuns, check_readable, poke, read, read_instruction, taken};

/// The number of sites by which cache lines are prefetched in advance. A locked instruction waits
/// for its own line only, while prefetched lines arrive in parallel.
const PREFETCH_DISTANCE: usize = 12;

/// A batch: the wanted mode and the report. A site that stays active and only gets another target
/// is reported as unchanged.
pub(crate) struct Batch<'a> {
    pub(super) wanted: Mode,
    pub(super) report: &'a mut Report,
    /// Sites that a single write can't switch.
    split_sites: Vec<Site>,
    /// Sites that go through `int3` and stay active, with another target.
    pub(super) retargeted: Vec<SiteAddr>,
    last: LastState<'a>,
    loaded: KeptLoaded<'a>,
}

/// The state in which the last operation left the sites of a batch: latent, or active with any
/// target. A site in the opposite state was changed by another writer since, and is noted as
/// [foreign](Report::foreign).
#[derive(Clone, Copy, Default)]
pub(crate) struct LastState<'a> {
    /// `None` if the state is not known.
    pub(crate) mode: Option<Mode>,
    /// Exceptions: sites that the last operation could not switch.
    pub(crate) but: Option<&'a BTreeSet<SiteAddr>>,
}

impl<'a> Batch<'a> {
    /// Begins a batch for sites of loaded objects.
    pub(crate) fn new(wanted: Mode, report: &'a mut Report, loaded: KeptLoaded<'a>) -> Self {
        let last = LastState::default();
        Self { wanted, report, split_sites: Vec::new(), retargeted: Vec::new(), last, loaded }
    }

    /// Sets the state in which all sites were left.
    pub(crate) fn last_state(mut self, last: LastState<'a>) -> Self {
        self.last = last;
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
        if !self.split_sites.is_empty() {
            let split_sites = std::mem::take(&mut self.split_sites);
            match access {
                Access::Held => self.switch_split_sites(&split_sites),
                _ => self.switch_strictly(&split_sites),
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
        // Four loops, so that the wanted mode and the most likely current mode are constants in
        // each.
        match (self.wanted, self.last.mode) {
            (Mode::Latent, Some(Mode::Counting)) => self.write_each(sites, Mode::Latent, Mode::Counting),
            (Mode::Latent, _) => self.write_each(sites, Mode::Latent, Mode::Active),
            (Mode::Active, _) => self.write_each(sites, Mode::Active, Mode::Latent),
            (Mode::Counting, _) => self.write_each(sites, Mode::Counting, Mode::Latent),
        }
    }

    #[inline(always)]
    fn write_each(&mut self, sites: &[Site], wanted: Mode, likely: Mode) {
        let (mut patched, mut unchanged) = (0, 0);
        let is_change = self.last.mode.map(|left| left.state() != wanted.state());
        for (at, site) in sites.iter().enumerate() {
            if let Some(later) = sites.get(at + PREFETCH_DISTANCE) {
                prefetch_for_write(later.addr.word());
            }
            match write_one(*site, wanted, likely, self.loaded) {
                Ok(WriteOutcome::Patched(found)) => {
                    patched += 1;
                    if is_change == Some(false) {
                        self.note_foreign_write(*site, found);
                    }
                }
                Ok(WriteOutcome::Unchanged(found)) => {
                    unchanged += 1;
                    if is_change == Some(true) {
                        self.note_foreign_write(*site, found);
                    }
                }
                Ok(WriteOutcome::Straddles) => self.split_sites.push(*site),
                Err(refusal) => self.retry(*site, refusal),
            }
        }
        self.report.add_patched(patched);
        self.report.add_unchanged(unchanged);
    }
}

impl Batch<'_> {
    /// Counts a site that already is as wanted, or only gets another target.
    pub(super) fn note_unchanged(&mut self, site: Site, found: Instruction) {
        self.report.add_unchanged(1);
        if self.last.mode.is_some_and(|left| left.state() != self.wanted.state()) {
            self.note_foreign_write(site, found);
        }
    }

    /// Notes a site that is about to be switched, if another writer has changed it.
    pub(super) fn note_switch(&mut self, site: Site, found: Instruction) {
        if self.last.mode.is_some_and(|left| left.state() == self.wanted.state()) {
            self.note_foreign_write(site, found);
        }
    }

    /// Notes a site that holds the opposite of the state in which it was left.
    #[cold]
    fn note_foreign_write(&mut self, site: Site, found: Instruction) {
        if self.last.but.is_some_and(|but| but.contains(&site.addr)) {
            return;
        }
        let expected = site.overwritten(found, self.last.mode.unwrap_or(Mode::Latent));
        let reason = RefusalReason::Foreign { expected: expected.bytes(), found: found.bytes() };
        self.report.add_foreign(Refusal::new(site.addr, reason));
    }

    /// Retries a site that holds neither instruction, in text that is open.
    #[cold]
    fn retry(&mut self, site: Site, mut refusal: Box<Refusal>) {
        loop {
            // SAFETY: in the text of an object that stays loaded (`self.loaded`). It has just been
            // read.
            if let Some(refusal) = unsafe { final_refusal(site, refusal) } {
                return self.report.refuse(*refusal);
            }
            match write_one(site, self.wanted, self.wanted, self.loaded) {
                Ok(WriteOutcome::Patched(found)) => {
                    self.note_switch(site, found);
                    return self.report.add_patched(1);
                }
                Ok(WriteOutcome::Unchanged(found)) => return self.note_unchanged(site, found),
                Ok(WriteOutcome::Straddles) => return self.split_sites.push(site),
                Err(again) => refusal = again,
            }
        }
    }
}

/// Splits sites by runs of neighbouring pages; returns each part with its run.
pub(super) fn by_run(mut sites: &[Site]) -> impl Iterator<Item = (&[Site], Range<usize>)> {
    std::iter::from_fn(move || {
        let mut run = pages(bytes(sites.first()?));
        let len = sites.iter().position(|site| !extend(&mut run, site)).unwrap_or(sites.len());
        let (now, later) = sites.split_at(len);
        sites = later;
        Some((now, run))
    })
}

/// Splits sites by pages; returns each part with its page. A site on two pages comes with both, and
/// is refused later.
pub(super) fn by_page(sites: &[Site]) -> impl Iterator<Item = (&[Site], Range<usize>)> {
    let same = |one: &Site, next: &Site| pages(bytes(one)) == pages(bytes(next));
    sites.chunk_by(same).map(|sites| (sites, pages(bytes(&sites[0]))))
}

/// The result of switching one site, with the instruction that it held.
enum WriteOutcome {
    Patched(Instruction),
    /// The site was as wanted, or only got another target.
    Unchanged(Instruction),
    /// The site lies across two words, so nothing was done.
    Straddles,
}

/// Switches one site if one write suffices. Compares first with the instruction of mode `likely`.
#[inline(always)]
fn write_one(
    site: Site,
    wanted: Mode,
    likely: Mode,
    loaded: KeptLoaded<'_>,
) -> Result<WriteOutcome, Box<Refusal>> {
    if !site.addr.is_patchable() {
        return Ok(WriteOutcome::Straddles);
    }
    let (from, to) = (site.instruction(likely), site.instruction(wanted));
    if wanted != likely && exchange(site.addr, from, to, loaded) {
        return Ok(WriteOutcome::Patched(from));
    }
    let word = site.addr.word();
    // SAFETY: a multiple of 8, in the text of an object that stays loaded (`loaded`).
    let mut text = unsafe { read(word) };
    loop {
        let found = text.instruction(site.addr);
        let Some(new) = replacement(found, site, wanted)? else { return Ok(WriteOutcome::Unchanged(found)) };
        // SAFETY: as above; the text policy has made it writable.
        match unsafe { poke(word, text, text.with_instruction(site.addr, new)) } {
            Ok(()) if is_switch(found, wanted) => return Ok(WriteOutcome::Patched(found)),
            Ok(()) => return Ok(WriteOutcome::Unchanged(found)),
            // Another thread wrote in between: plan again from the new word.
            Err(now) => text = now,
        }
    }
}

/// Replaces one of a site's own instructions by another, in open text. Does so only if the site
/// holds `from` and one write suffices. Returns whether it did.
#[inline(always)]
pub(crate) fn exchange(addr: SiteAddr, from: Instruction, to: Instruction, _loaded: KeptLoaded<'_>) -> bool {
    if !addr.is_patchable() {
        return false;
    }
    // SAFETY: a multiple of 8, in the text of an object that stays loaded (`_loaded`).
    let mut text = unsafe { read(addr.word()) };
    while text.instruction(addr) == from {
        // SAFETY: as above; the text policy has made it writable.
        match unsafe { poke(addr.word(), text, text.with_instruction(addr, to)) } {
            Ok(()) => return true,
            // Another thread wrote in between: read again.
            Err(now) => text = now,
        }
    }
    false
}

/// Returns whether a replacement switches the site on or off, and does not only change its target.
#[inline(always)]
pub(super) fn is_switch(found: Instruction, wanted: Mode) -> bool {
    wanted == Mode::Latent || found == Instruction::NOP5
}

/// Extends a run of pages by the pages of a site, if they touch the run.
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
            Ok((found, None)) => self.note_unchanged(site, found),
            // The site still counts, through its active instruction.
            Ok((found, Some(_))) if self.wanted == Mode::Counting && !is_switch(found, self.wanted) => {
                self.note_unchanged(site, found);
            }
            Ok((found, Some(_))) => {
                if is_switch(found, self.wanted) {
                    self.note_switch(site, found);
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
                let settled = unsafe { final_refusal(site, refusal) };
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
pub(super) unsafe fn final_refusal(site: Site, refusal: Box<Refusal>) -> Option<Box<Refusal>> {
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
