//! The counting blocks of sites: code for each, near its object's text.
//!
//! A block depends on its site, on where that leads while it is active, and on its probe's counter, all of which stay what they are
//! as long as the object is loaded. So a block is written once, and never changes.
//!
//! Life:
//! 1. A site gets its block when its probe is first only counted ([`Registry::add_blocks`]): those of an operation lie side by side, in pages of
//!    their own, near their object's text. Pages are filled up with blocks for the sites that follow in the list, so that attaching to
//!    one probe after the other maps a page for 64 sites, not for each.
//! 2. Where the list of sites is made anew, a site keeps its block if that holds what would be written for it
//!    now ([`Registry::keep_blocks`]). An object that is loaded again at the same place finds those of its sites that are what they were, or none.
//! 3. Pages that no site of the list has a block in are unmapped: their objects are gone, and whoever executes a block would go on in
//!    text that is gone.
//!
//! Where memory can't be made executable (`PR_SET_MDWE`, a policy), or none in reach is free, or the processor lacks an instruction, sites
//! have no block and go on to lead to their cold blocks. A refusal is remembered: what a policy says, for good; anything
//! else, until objects come or go.
//!
//! Cost: 64 bytes a site, some 20 ns to write them; a mapping takes some 40 µs, most of it to read which addresses are free.

// Safety: relies on its pages being mapped until it unmaps them, and on nobody writing to them.
#![expect(unsafe_code, reason = "see above")]

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::{io, iter};

use super::ProbeId;
use super::grouped::Grouped;
use super::loaded::Registry;
use crate::abi::{Convention, Definition};
use crate::arch::backend::block::{Block, LEN, is_supported, slot_offset};
use crate::dispatch::{TALLIES, TallyAt};
use crate::os::text::page_size;
use crate::patch::{SITE_LEN, Site, map_near, unmap};

/// The pages of all blocks.
#[derive(Default)]
pub(super) struct Blocks {
    mappings: Vec<Range<usize>>,
    refusal: Option<Refusal>,
}

/// Why there are no more blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    ForGood,
    UntilObjectsChange,
}

/// Sites of one text, by their places in the list, with their probes.
struct Wanted {
    text: Range<usize>,
    sites: Vec<(u32, ProbeId)>,
}

impl Blocks {
    /// Other objects are loaded than before: what was out of reach may be in reach.
    pub(super) fn retry(&mut self) {
        self.refusal.take_if(|refusal| *refusal == Refusal::UntilObjectsChange);
    }
}

impl Registry {
    /// Whether sites have blocks, and more may have some.
    #[cfg(feature = "profiler")]
    pub(crate) fn has_blocks(&self) -> bool {
        self.blocks.refusal.is_none() && !self.blocks.mappings.is_empty()
    }

    /// Gives the sites of these probes blocks, as far as they have none and there can be any.
    pub(crate) fn add_blocks(&mut self, ids: impl Iterator<Item = ProbeId>) {
        if self.blocks.refusal.is_some() {
            return;
        }
        for mut wanted in self.wanted(ids) {
            // The probes come in batches, so the last one is not the greatest.
            if let Some(last) = wanted.sites.iter().map(|(_, id)| id.index()).max() {
                self.fill_up(last + 1, &mut wanted);
            }
            if let Err(refusal) = self.map_blocks(&wanted) {
                self.blocks.refusal = Some(refusal);
                return;
            }
        }
    }

    /// Whether a block does all that a hit of a probe does that is only counted. Fields are evaluated, whoever listens; and
    /// through hits of C code one can unwind from every instruction. The probe has a counter of its own.
    pub(crate) fn may_have_blocks(&self, id: ProbeId) -> bool {
        let is_plain = |it: &Definition| it.field_count() == 0 && it.convention() == Convention::ColdBlock;
        id.index() < TALLIES && self.definition(id).is_some_and(is_plain)
    }

    /// Sites of these probes without blocks, text by text.
    fn wanted(&self, ids: impl Iterator<Item = ProbeId>) -> Vec<Wanted> {
        let mut all: Vec<Wanted> = Vec::new();
        // Neighbours lie in one text.
        let mut now = 0;
        ids.for_each(|id| {
            let lacks_some = self.grouped.of_run(id, id).iter().any(|site| site.lacks_block());
            if !lacks_some || !self.may_have_blocks(id) {
                return;
            }
            for (at, site) in self.grouped.places(id).filter(|(_, site)| site.lacks_block()) {
                let addr = site.addr.0;
                if all.get(now).is_none_or(|wanted| !wanted.text.contains(&addr)) {
                    let known = all.iter().position(|wanted| wanted.text.contains(&addr));
                    now = known.unwrap_or(all.len());
                    if known.is_none() {
                        let Some(text) = self.text_of(|| iter::once(site)).pop() else { continue };
                        all.push(Wanted { text, sites: Vec::new() });
                    }
                }
                all[now].sites.push((at, id));
            }
        });
        all
    }

    /// Adds sites of the probes from `next` on, to the end of a page. All wanted probes come before
    /// `next`, so no site is added twice.
    fn fill_up(&self, next: usize, wanted: &mut Wanted) {
        let per_page = page_size() / LEN;
        let room = wanted.sites.len().next_multiple_of(per_page) - wanted.sites.len();
        let following =
            (next..self.len()).map(ProbeId::new).take(per_page).filter(|id| self.may_have_blocks(*id));
        let sites = following.flat_map(|id| self.grouped.places(id).map(move |(at, site)| (at, site, id)));
        let own = sites
            .take(per_page)
            .filter(|(_, site, _)| site.lacks_block() && wanted.text.contains(&site.addr.0))
            .map(|(at, _, id)| (at, id));
        wanted.sites.extend(own.take(room));
    }

    fn map_blocks(&mut self, wanted: &Wanted) -> Result<(), Refusal> {
        let slot = slot_offset().filter(|_| is_supported()).ok_or(Refusal::ForGood)?;
        let sites = || wanted.sites.iter().map(|(at, id)| (self.grouped.site(*at), *id));
        let (mut first, mut last) = (usize::MAX, 0);
        for (site, _) in sites() {
            (first, last) = (first.min(site.addr.0), last.max(site.addr.0 + SITE_LEN));
            (first, last) = (first.min(site.target()), last.max(site.target()));
        }
        if last == 0 {
            return Ok(());
        }
        let mut is_near = true;
        let pages = map_near(&(first..last), wanted.sites.len() * LEN, |bytes, start| {
            for ((at, bytes), (site, id)) in
                (start..).step_by(LEN).zip(bytes.chunks_exact_mut(LEN)).zip(sites())
            {
                match block(site, id).and_then(|block| block.code(at, slot)) {
                    Some(code) => bytes.copy_from_slice(&code),
                    None => is_near = false,
                }
            }
        })
        .map_err(|error| refusal(&error))?;
        if !is_near {
            // The place was chosen to be: a bug, which costs time, and no more.
            debug_assert!(is_near);
            // SAFETY: no site leads there yet.
            unsafe { unmap(&pages) };
            return Err(Refusal::UntilObjectsChange);
        }
        for (start, (at, _)) in (pages.start..).step_by(LEN).zip(&wanted.sites) {
            self.grouped.site_mut(*at).set_block(start);
        }
        self.blocks.mappings.push(pages);
        Ok(())
    }

    /// Lets sites of a new list keep the blocks that they had in the one before, where these are what would be written now, and unmaps
    /// pages that no site has any in.
    pub(super) fn keep_blocks(&mut self, before: &Grouped) {
        self.blocks.retry();
        if self.blocks.mappings.is_empty() {
            return;
        }
        let known: HashMap<usize, usize> =
            before.all().iter().filter_map(|site| Some((site.addr.0, site.block()?))).collect();
        let slot = slot_offset();
        let mut used = HashSet::new();
        for id in (0..self.len()).map(ProbeId::new) {
            for site in self.grouped.sites_mut(id) {
                let Some(&start) = known.get(&site.addr.0) else { continue };
                let code = slot.and_then(|slot| block(*site, id)?.code(start, slot));
                // SAFETY: a block of pages that are mapped.
                let written = unsafe { *(start as *const [u8; LEN]) };
                if site.lacks_block() && code == Some(written) && site.set_block(start) {
                    used.insert(start & !(page_size() - 1));
                }
            }
        }
        self.blocks.mappings.retain(|pages| {
            let is_used = pages.clone().step_by(page_size()).any(|page| used.contains(&page));
            if !is_used {
                // SAFETY: no site leads there, and the code that its blocks go on in is gone.
                unsafe { unmap(pages) };
            }
            is_used
        });
    }
}

/// The block of a probe's site; `None` where the probe has no counter of its own.
fn block(site: Site, id: ProbeId) -> Option<Block> {
    let counter = (id.index() < TALLIES).then(|| TallyAt::new(id.index()).offset())?;
    Some(Block { back: site.addr.0 + SITE_LEN, target: site.target(), counter: i32::try_from(counter).ok()? })
}

fn refusal(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Refusal::ForGood,
        _ => Refusal::UntilObjectsChange,
    }
}
