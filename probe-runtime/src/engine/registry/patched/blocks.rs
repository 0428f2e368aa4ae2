//! The counting blocks: one piece of code for each site, near the text of the site's object.
//!
//! A block depends on its site, on the site's target while active, and on its probe's counter. None
//! of these changes while the object is loaded, so a block is written once and never changes.
//!
//! Life:
//! 1. A site gets its block when its probe is first only counted ([`Registry::add_blocks`]). One
//!    operation puts its blocks side by side, in pages of their own near their object's text. It
//!    fills the last page with blocks for the sites that follow in the list. So attaching to one
//!    probe after another maps one page for 64 sites, not one for each.
//! 2. When the list of sites is rebuilt, a site keeps its block if a new block would have the same
//!    bytes ([`Registry::keep_blocks`]). If an object is loaded again at the same place, its
//!    unchanged sites keep their blocks and the others have none.
//! 3. Pages without a block of a listed site are unmapped. Their objects are unloaded, so a thread
//!    that executed such a block would continue in unmapped text.
//!
//! A site keeps its cold block as target if memory can't be made executable (`PR_SET_MDWE`, a
//! policy), or if no free memory is within reach. The registry remembers a refusal: one by a policy
//! for good, any other until objects are loaded or unloaded.
//!
//! Cost: 32 bytes a site, written in some 20 ns. A mapping takes some 40 µs, most of it to read
//! which addresses are free.

// Safety: relies on its pages being mapped until it unmaps them, and on no other code writing to
// them.
#![expect(unsafe_code, reason = "see above")]

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::{io, iter};

use super::sites_by_probe::SitesByProbe;
use super::{ProbeId, Registry};
use crate::engine::dispatch::{COUNTERS, CounterAt};
use crate::engine::entry::backend::block::{Block, LEN, slot_offset};
use crate::engine::os::objects::KeptLoaded;
use crate::engine::os::text::page_size;
use crate::engine::sites::{SITE_LEN, Site, map_near, unmap};
use probe_core::abi::{Convention, Definition};

/// Sites of one text segment, as places in the list, with their probes.
struct SitesOfText {
    text: Range<usize>,
    sites: Vec<(u32, ProbeId)>,
}

impl Registry {
    /// Returns whether sites have blocks, and more sites may get some.
    pub(crate) fn has_blocks(&self) -> bool {
        self.blocks.refusal.is_none() && !self.blocks.mappings.is_empty()
    }

    /// Gives a block to each site of these probes that has none and can have one.
    pub(crate) fn add_blocks(&mut self, ids: impl Iterator<Item = ProbeId>, loaded: KeptLoaded<'_>) {
        if self.blocks.refusal.is_some() {
            return;
        }
        for mut wanted in self.wanted(ids, loaded) {
            // The probes come in batches, so the last one is not the greatest.
            if let Some(last) = wanted.sites.iter().map(|(_, id)| id.index()).max() {
                self.fill_up(last + 1, &mut wanted, loaded);
            }
            if let Err(refusal) = self.map_blocks(&wanted) {
                self.blocks.refusal = Some(refusal);
                return;
            }
        }
    }

    /// Returns whether a block can do all the work of a hit that is only counted. A block evaluates
    /// no fields, so the probe must have none. Hits of C code must be unwindable at every
    /// instruction, which a block is not. The probe must also have its own counter.
    pub(crate) fn may_have_blocks(&self, id: ProbeId, loaded: KeptLoaded<'_>) -> bool {
        let is_plain = |it: &Definition| it.field_count() == 0 && it.convention() == Convention::ColdBlock;
        id.index() < COUNTERS && self.definition(id, loaded).is_some_and(is_plain)
    }

    /// Returns the sites of these probes that lack blocks, grouped by text segment.
    fn wanted(&self, ids: impl Iterator<Item = ProbeId>, loaded: KeptLoaded<'_>) -> Vec<SitesOfText> {
        let mut all: Vec<SitesOfText> = Vec::new();
        // Neighbouring sites lie in one text segment.
        let mut now = 0;
        ids.for_each(|id| {
            let lacks_some = self.sites_by_probe.of_run(id, id).iter().any(|site| site.lacks_block());
            if !lacks_some || !self.may_have_blocks(id, loaded) {
                return;
            }
            for (at, site) in self.sites_by_probe.places(id).filter(|(_, site)| site.lacks_block()) {
                let addr = site.addr.0;
                if all.get(now).is_none_or(|wanted| !wanted.text.contains(&addr)) {
                    let known = all.iter().position(|wanted| wanted.text.contains(&addr));
                    now = known.unwrap_or(all.len());
                    if known.is_none() {
                        let Some(text) = self.text_of(|| iter::once(site)).pop() else { continue };
                        all.push(SitesOfText { text, sites: Vec::new() });
                    }
                }
                all[now].sites.push((at, id));
            }
        });
        all
    }

    /// Adds sites of the probes from `next` on, to the end of a page. All wanted probes come before
    /// `next`, so no site is added twice.
    fn fill_up(&self, next: usize, wanted: &mut SitesOfText, loaded: KeptLoaded<'_>) {
        let per_page = page_size() / LEN;
        let room = wanted.sites.len().next_multiple_of(per_page) - wanted.sites.len();
        let following = (next..self.len()).map(ProbeId::new).take(per_page);
        let following = following.filter(|id| self.may_have_blocks(*id, loaded));
        let sites =
            following.flat_map(|id| self.sites_by_probe.places(id).map(move |(at, site)| (at, site, id)));
        let own = sites
            .take(per_page)
            .filter(|(_, site, _)| site.lacks_block() && wanted.text.contains(&site.addr.0))
            .map(|(at, _, id)| (at, id));
        wanted.sites.extend(own.take(room));
    }

    fn map_blocks(&mut self, wanted: &SitesOfText) -> Result<(), BlockRefusal> {
        let slot = slot_offset().ok_or(BlockRefusal::ForGood)?;
        let sites = || wanted.sites.iter().map(|(at, id)| (self.sites_by_probe.site(*at), *id));
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
            // `map_near` chose a place within reach, so this is a bug. It costs time, and nothing
            // else.
            debug_assert!(is_near);
            // SAFETY: no site leads there yet.
            unsafe { unmap(&pages) };
            return Err(BlockRefusal::UntilObjectsChange);
        }
        for (start, (at, _)) in (pages.start..).step_by(LEN).zip(&wanted.sites) {
            self.sites_by_probe.site_mut(*at).set_block(start);
        }
        self.blocks.mappings.push(pages);
        Ok(())
    }

    /// Lets sites of a new list keep their previous blocks if new blocks would have the same bytes.
    /// Unmaps pages in which no site has a block.
    pub(super) fn keep_blocks(&mut self, before: &SitesByProbe) {
        self.blocks.retry();
        if self.blocks.mappings.is_empty() {
            return;
        }
        let known: HashMap<usize, usize> =
            before.sites.iter().filter_map(|site| Some((site.addr.0, site.block()?))).collect();
        let slot = slot_offset();
        let mut used = HashSet::new();
        for id in (0..self.len()).map(ProbeId::new) {
            for site in self.sites_by_probe.sites_mut(id) {
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
                // SAFETY: no site leads there, and the code that its blocks jump back to is gone.
                unsafe { unmap(pages) };
            }
            is_used
        });
    }
}

/// Returns the block of a probe's site; `None` if the probe has no counter of its own.
fn block(site: Site, id: ProbeId) -> Option<Block> {
    let counter = (id.index() < COUNTERS).then(|| CounterAt::new(id.index()).offset())?;
    Some(Block { back: site.addr.0 + SITE_LEN, target: site.target(), counter: i32::try_from(counter).ok()? })
}

fn refusal(error: &io::Error) -> BlockRefusal {
    match error.kind() {
        io::ErrorKind::PermissionDenied => BlockRefusal::ForGood,
        _ => BlockRefusal::UntilObjectsChange,
    }
}

/// The pages of all blocks.
#[derive(Default)]
pub(super) struct Blocks {
    pub(super) mappings: Vec<Range<usize>>,
    pub(super) refusal: Option<BlockRefusal>,
}

/// The reason why there are no more blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockRefusal {
    ForGood,
    UntilObjectsChange,
}

impl Blocks {
    /// Allows another try after objects changed, since free memory may be within reach now.
    pub(super) fn retry(&mut self) {
        self.refusal.take_if(|refusal| *refusal == BlockRefusal::UntilObjectsChange);
    }
}
