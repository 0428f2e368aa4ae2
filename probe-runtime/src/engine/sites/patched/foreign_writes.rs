//! Finds sites whose bytes another writer has changed since this crate left them. Only reads.
//!
//! | site | breakpoint on it | breakpoint gone | after a hit of a uprobe (Linux 6.18) |
//! |---|---|---|---|
//! | latent | `cc 1f 44 00 08` | as it was | `e8 …`, a CALL of the kernel's; gone: a whole NOP |
//! | active | `cc xx xx xx xx` | debugger: as it was; uprobe: `0f xx xx xx xx`, torn | a whole NOP, since the kernel knows the file's |
//!
//! Cost: a system call for each page that has sites, and a comparison for each site. The kernel
//! reads the text, since a program may have made it unreadable. If the kernel can't read it either,
//! no stray is reported.

// Safety: relies on sites that lie in the text of loaded objects, as `batch` does; `KeptLoaded`
// proves that they stay so.
#![expect(unsafe_code, reason = "see above")]

use super::Site;
use super::batch::{by_page, read_site};
use crate::engine::entry::backend::block::{Block, LEN};
use crate::engine::os::guarded_read::peek;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::sites::{Instruction, Mode, Refusal, RefusalReason, SITE_LEN};

/// Returns those of the sites, in ascending order, that hold an instruction other than `left`
/// implies: the NOP, or one of the active instructions. If `left` is `None`, any of them is
/// expected.
pub(crate) fn foreign_writes(sites: &[Site], left: Option<Mode>, _loaded: KeptLoaded<'_>) -> Vec<Refusal> {
    let mut foreign_writes = Vec::new();
    let mut text = Vec::new();
    for (sites, _) in by_page(sites) {
        let (Some(first), Some(last)) = (sites.first(), sites.last()) else { continue };
        let start = first.addr.0;
        text.resize(last.addr.0 + SITE_LEN - start, 0);
        if !peek(start, &mut text) {
            continue;
        }
        for site in sites {
            let at = site.addr.0 - start;
            let found = Instruction::from_bytes(
                <[u8; SITE_LEN]>::try_from(&text[at..at + SITE_LEN]).unwrap_or_default(),
            );
            if !is_expected(*site, left, found) {
                // SAFETY: it has just been read, and its object stays loaded.
                foreign_writes.extend(unsafe { foreign_write(*site, left) });
            }
        }
    }
    foreign_writes
}

fn is_expected(site: Site, left: Option<Mode>, found: Instruction) -> bool {
    match left {
        Some(Mode::Latent) => found == Instruction::NOP5,
        Some(_) => site.is_on(found),
        // Another copy of this crate may have switched its own sites.
        None => site.owns(found) || is_counted_elsewhere(site, found),
    }
}

/// Returns whether an instruction leads to a counting block of this site that another copy of this
/// crate has made.
#[cold]
fn is_counted_elsewhere(site: Site, found: Instruction) -> bool {
    let next = site.addr.0 + SITE_LEN;
    let at = next.wrapping_add_signed(found.rel().0 as isize);
    let mut code = [0; LEN];
    Instruction::jmp(found.rel()) == found
        && peek(at, &mut code)
        && Block::of(&code, at).is_some_and(|block| (block.back, block.target) == (next, site.target()))
}

/// Reads the words themselves again, since the kernel's copy may show half of a patch under way.
///
/// # Safety
/// The site's text can be read.
#[cold]
unsafe fn foreign_write(site: Site, left: Option<Mode>) -> Option<Refusal> {
    let mode = left.unwrap_or(Mode::Latent);
    // SAFETY: as the caller says.
    let found = match unsafe { read_site(site, mode) } {
        Ok((found, _)) => found.bytes(),
        Err(refusal) => match refusal.reason() {
            RefusalReason::Foreign { found, .. } => *found,
            // A patch is under way, and its writer has compared the old bytes.
            _ => return None,
        },
    };
    let is_other = !is_expected(site, left, Instruction::from_bytes(found));
    is_other.then(|| {
        let expected = site.overwritten(Instruction::from_bytes(found), mode).bytes();
        Refusal::new(site.addr, RefusalReason::Foreign { expected, found })
    })
}
