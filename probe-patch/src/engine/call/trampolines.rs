//! The degenerate trampolines: lone `ret`s, for a deactivated CALL whose opcode can't be changed.
//!
//! The first one is this crate's own [`return_at_once`]. It is in reach if the program is no larger
//! than 2 GiB and the site is in the object that this crate is linked into. It is offered once that
//! object is sure to stay loaded ([`pin`]), since a copy of this crate might be unloaded before the
//! calls that it has deactivated. The first site that needs a `ret` asks for that.
//!
//! If the object can't be kept loaded, and for sites out of reach, a page is mapped near the first
//! site that needs one. All sites within 2 GiB share it. Pages are never freed, since a thread may
//! be in one. But there are few: one for each 2 GiB region with code that deactivates calls, and
//! never more than [`MAX_PAGES`].
//!
//! Looking one up takes no lock: a comparison with `ret`, then a list that only grows, and is empty
//! in most programs. Adding to the list takes no lock either. If two threads map a page for the
//! same region, one gives its page back. So a fork at any moment leaves the child a list that
//! works, of pages that it has, too.
//!
//! A `c3` byte that happens to lie in the text around the site is not used. It may be the middle of
//! an instruction that another patch changes, or even of a distance that this module writes. The
//! CALLs that lead there would then execute the new bytes. If there is no memory, an error is
//! better.

// Safety: a page is unmapped only if its address was never added to the list, so that no code knows
// it.
#![expect(unsafe_code, reason = "see above")]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::arch::{SiteAddr, Trampolines, fill_return_page, reaches, return_at_once, site_range};
use crate::engine::code_pages;
use crate::os::cancel::Uncancellable;
use crate::os::pin::pin;
use crate::os::text::page_size;

/// The greatest number of pages: 64 regions, of 4 GiB each.
const MAX_PAGES: usize = 64;

pub(super) struct TrampolineList {
    /// Whether the object that holds [`return_at_once`] is sure to stay loaded.
    own_stays: AtomicBool,
    /// The pages, each at the address of its `ret`: filled from the front, zero behind.
    pages: [AtomicUsize; MAX_PAGES],
}

/// The trampolines of this process.
pub(super) static TRAMPOLINES: TrampolineList = TrampolineList::new();

impl TrampolineList {
    const fn new() -> Self {
        Self { own_stays: AtomicBool::new(false), pages: [const { AtomicUsize::new(0) }; MAX_PAGES] }
    }

    #[inline]
    fn pages(&self) -> impl Iterator<Item = usize> + '_ {
        // Acquire: the page is whole when its address is seen.
        self.pages.iter().map(|page| page.load(Ordering::Acquire)).take_while(|&page| page != 0)
    }

    /// Makes sure that a `ret` is within reach of `site`: this crate's own, which is kept loaded
    /// from now on, or a page.
    ///
    /// # Errors
    /// The system's error, or that the list is full.
    #[cold]
    pub(super) fn provide(&self, site: SiteAddr) -> io::Result<()> {
        // This loads no object, but reads files, and maps memory.
        let _uncancellable = Uncancellable::new();
        if !self.own_stays.load(Ordering::Relaxed) && pin().is_ok() {
            self.own_stays.store(true, Ordering::Relaxed);
        }
        if self.near(site).is_some() {
            return Ok(());
        }
        let new = map_near(site)?;
        let is_added = self.add(site, new);
        if !matches!(is_added, Ok(true)) {
            // SAFETY: the page is not in the list, so no call leads there.
            unsafe { unmap(new) };
        }
        is_added.map(drop)
    }

    /// Adds a page. Returns `false` if another thread has added one that `site` reaches.
    fn add(&self, site: SiteAddr, new: usize) -> io::Result<bool> {
        for page in &self.pages {
            match page.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(true),
                Err(other) if reaches(site, other) => return Ok(false),
                Err(_) => {}
            }
        }
        Err(io::Error::other(format!(
            "{MAX_PAGES} regions of the address space have one already, which is the most"
        )))
    }
}

impl Trampolines for TrampolineList {
    #[inline]
    fn has(&self, addr: usize) -> bool {
        addr == own() || self.pages().any(|page| page == addr)
    }

    #[inline]
    fn near(&self, site: SiteAddr) -> Option<usize> {
        if self.own_stays.load(Ordering::Relaxed) && reaches(site, own()) {
            return Some(own());
        }
        self.pages().find(|&page| reaches(site, page))
    }
}

/// Returns the address of this crate's own lone return.
#[inline]
fn own() -> usize {
    return_at_once as *const () as usize
}

/// Maps a page within reach of a call at `site`. The page begins with a lone return, and can only
/// be read and executed.
///
/// # Errors
/// The system's error for the last place that was tried.
fn map_near(site: SiteAddr) -> io::Result<usize> {
    Ok(code_pages::map_near(&site_range(site), page_size(), |page, _| fill_return_page(page))?.start)
}

/// Unmaps a page of [`map_near`].
///
/// # Safety
/// No call leads there.
unsafe fn unmap(page: usize) {
    // SAFETY: as the caller says.
    unsafe { code_pages::unmap(&(page..page + page_size())) };
}

#[cfg(test)]
mod tests {
    // Safety: relies on each tested address being that of a `ret` in text.
    #![expect(unsafe_code, reason = "see above")]

    use super::*;

    const FAR: usize = 1 << 33;

    #[test]
    #[cfg_attr(miri, ignore = "reads code")]
    fn the_crates_own_comes_first_once_it_stays() {
        let list = TrampolineList::new();
        let own = own();
        assert_eq!(list.near(SiteAddr(own + 0x1000)), None);
        // The executable's own `ret` stays, and takes no page.
        list.provide(SiteAddr(own + 0x1000)).unwrap();
        assert_eq!(list.pages().count(), 0);
        // SAFETY: the function's own first byte.
        assert_eq!(unsafe { *(own as *const u8) }, 0xc3);
        assert!(list.has(own));
        assert!(!list.has(own + 1) && !list.has(0));
        assert_eq!(list.near(SiteAddr(own + 0x1000)), Some(own));
        assert!(list.add(SiteAddr(own), own + 0x5000).unwrap());
        assert_eq!(list.near(SiteAddr(own + 0x1000)), Some(own));
        assert_eq!(list.near(SiteAddr(own + FAR)), None);
    }

    #[test]
    fn a_page_in_reach_is_shared_and_the_list_ends() {
        let list = TrampolineList::new();
        let own = own();
        let zone = |n: usize| own + (n + 1) * FAR;
        for n in 0..MAX_PAGES {
            assert_eq!(list.near(SiteAddr(zone(n))), None);
            assert!(list.add(SiteAddr(zone(n)), zone(n) + 0x1000).unwrap());
            assert!(!list.add(SiteAddr(zone(n)), zone(n) + 0x2000).unwrap());
            assert_eq!(list.near(SiteAddr(zone(n) + 0x3000)), Some(zone(n) + 0x1000));
            assert!(list.has(zone(n) + 0x1000) && !list.has(zone(n) + 0x2000));
        }
        let error = list.add(SiteAddr(zone(MAX_PAGES)), zone(MAX_PAGES) + 0x1000).unwrap_err();
        assert_eq!(error.to_string(), "64 regions of the address space have one already, which is the most");
        assert_eq!(list.pages().count(), MAX_PAGES);
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps code")]
    fn a_page_is_a_ret_that_can_be_executed_and_not_written() {
        let site = SiteAddr((own()).wrapping_add(FAR) & !0xfff);
        let page = map_near(site).unwrap();
        assert!(reaches(site, page));
        // SAFETY: the page, which is readable.
        let bytes = unsafe { std::slice::from_raw_parts(page as *const u8, 4096) };
        assert_eq!(bytes[0], 0xc3);
        assert!(bytes[1..].iter().all(|&byte| byte == 0xcc));
        // SAFETY: a `ret`, called as a function without arguments and results.
        unsafe { std::mem::transmute::<usize, extern "C" fn()>(page)() };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&format!("{page:x}-"))).unwrap();
        assert!(line.contains(" r-xp "), "{line}");
        // SAFETY: no call leads there.
        unsafe { unmap(page) };
    }
}
