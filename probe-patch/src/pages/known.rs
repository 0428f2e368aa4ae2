//! The rights of loaded objects' text, as far as the kernel has told them.

use std::ops::Range;

use super::runs::PageRights;
use crate::os::maps::Mapping;

/// Mappings of text. None of their pages was writable when the kernel was asked, so none of them
/// was open.
#[derive(Debug)]
pub(super) struct Known(Vec<PageRights>);

impl Known {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the pages from `at` on, up to `end`, that are known to have the same rights.
    pub(super) fn from(&self, at: usize, end: usize) -> Option<PageRights> {
        let (pages, rights) = self.0.iter().find(|(pages, _)| pages.contains(&at))?;
        Some((at..end.min(pages.end), *rights))
    }

    /// Returns the pages, if all of them are known to have the same rights.
    pub(super) fn all(&self, pages: &Range<usize>) -> Option<PageRights> {
        self.from(pages.start, pages.end).filter(|(part, _)| part.end == pages.end)
    }

    /// Remembers a mapping. A writable one is not remembered, since it may be open.
    pub(super) fn learn(&mut self, mapping: &Mapping) {
        if !mapping.rights.write {
            self.forget(&mapping.range);
            self.0.push((mapping.range.clone(), mapping.rights));
        }
    }

    /// Returns the known mapping that holds all of these pages.
    pub(super) fn whole(&self, pages: &Range<usize>) -> Option<PageRights> {
        self.0.iter().find(|(known, _)| known.start <= pages.start && pages.end <= known.end).cloned()
    }

    /// Remembers a mapping as [`learn`](Self::learn) does, if that takes no memory.
    pub(super) fn learn_within(&mut self, mapping: &Mapping) {
        if self.0.len() < self.0.capacity() {
            self.learn(mapping);
        }
    }

    pub(super) fn make_room(&mut self, more: usize) {
        self.0.reserve(more);
    }

    /// Forgets all mappings that overlap these pages.
    pub(super) fn forget(&mut self, pages: &Range<usize>) {
        self.0.retain(|(known, _)| known.end <= pages.start || pages.end <= known.start);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::maps::Rights;

    #[test]
    fn knows_what_it_learnt_and_no_more() {
        let mut known = Known::new();
        let mapping = |range, write| Mapping { range, rights: Rights { write, ..Rights::TEXT } };
        known.learn(&mapping(0x1000..0x4000, false));
        known.learn(&mapping(0x4000..0x5000, true));
        assert_eq!(known.from(0x2000, 0x9000), Some((0x2000..0x4000, Rights::TEXT)));
        assert_eq!(known.from(0x2000, 0x3000), Some((0x2000..0x3000, Rights::TEXT)));
        assert_eq!(known.all(&(0x2000..0x4000)), Some((0x2000..0x4000, Rights::TEXT)));
        assert_eq!(known.all(&(0x2000..0x4001)), None);
        assert_eq!((known.from(0xfff, 0x9000), known.from(0x4000, 0x9000)), (None, None));
        // A later answer replaces an older one.
        known.learn(&mapping(0x3000..0x6000, false));
        assert_eq!((known.from(0x2000, 0x3000), known.0.len()), (None, 1));
        known.forget(&(0x5000..0x5001));
        assert_eq!(known.0, []);
    }
}
