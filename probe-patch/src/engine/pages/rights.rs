//! The rights of pages. The system is asked: the kernel's table of mappings, or, if that can't be
//! read, each page. [`Known`] remembers the answers about loaded objects' text.
//!
//! | the table | a page's own answer | its rights are | it may be written |
//! |---|---|---|---|
//! | tells | – | those of the table | as the table tells |
//! | can't be read | writable | those of text, and the right to write | yes |
//! | can't be read | not writable | those of text | no |
//! | can't be read | none | not known | no |
//!
//! The table can't be read without `/proc`, or without a free descriptor. A question about a page
//! needs neither: it is a futex operation that adds 0.

use std::io;
use std::ops::Range;

use super::runs::PageRights;
use crate::engine::error::TextError;
use crate::os::cancel::Uncancellable;
use crate::os::maps::{Mapping, Rights};
use crate::os::text::page_size;
#[cfg(not(all(test, loom)))]
use crate::os::{maps::Maps, text::is_writable};
// The model checker's kernel.
#[cfg(all(test, loom))]
use super::interleavings::{Maps, is_writable};

/// How to treat pages whose rights the system does not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IfUnknown {
    /// They count as pages with the requested rights.
    Include,
    /// They do not count.
    Exclude,
}

/// Makes sure that all of these addresses can be read.
///
/// # Errors
/// The address that can't be read, or the reason why that is not known.
pub fn check_readable(bytes: Range<usize>) -> Result<(), TextError> {
    let _uncancellable = Uncancellable::new();
    let mut maps = Maps::open().map_err(|error| rights_unknown(&error))?;
    ask(&mut maps, &bytes, &mut Vec::new())
}

/// Splits pages by their rights, from the kernel's table.
pub(super) fn ask(maps: &mut Maps, gap: &Range<usize>, found: &mut Vec<PageRights>) -> Result<(), TextError> {
    let mut addr = gap.start;
    while addr < gap.end {
        let answer = maps.holding(addr).map_err(|error| rights_unknown(&error))?;
        let mapping = answer.ok_or(TextError::Unmapped { addr })?;
        if !mapping.rights.read {
            return Err(TextError::NotReadable { addr });
        }
        let end = gap.end.min(mapping.range.end);
        push(found, (addr..end, mapping.rights));
        addr = end;
    }
    Ok(())
}

/// Adds a part. If the previous part has the same rights, it is extended instead, so that one
/// system call sets both.
pub(super) fn push(found: &mut Vec<PageRights>, (part, rights): PageRights) {
    match found.last_mut() {
        Some((before, alike)) if before.end == part.start && *alike == rights => before.end = part.end,
        _ => found.push((part, rights)),
    }
}

/// Returns the first pages of a loaded object's text that have the same rights, and these rights,
/// if the kernel's table can't be read. Text has the rights that linkers give it, and is also
/// writable if code holds it open.
pub(super) fn text_with_same_rights(
    pages: &Range<usize>,
    error: &io::Error,
) -> Result<PageRights, TextError> {
    let write = is_writable(pages.start).ok_or_else(|| rights_unknown(error))?;
    let differs = |page: &usize| is_writable(*page) != Some(write);
    let end = pages.clone().step_by(page_size()).find(differs).unwrap_or(pages.end);
    Ok((pages.start..end, Rights { write, ..Rights::TEXT }))
}

/// Returns whether all of these pages are known to be writable.
pub(super) fn are_writable(pages: &Range<usize>) -> bool {
    parts_with(pages, |rights| rights.write, IfUnknown::Exclude) == [pages.clone()]
}

/// Returns the parts of `pages` that are mapped with such rights. If the kernel's table can't be
/// read, returns the parts that are writable; `if_unknown` decides about pages without an answer.
pub(super) fn parts_with(
    pages: &Range<usize>,
    has: impl Fn(Rights) -> bool,
    if_unknown: IfUnknown,
) -> Vec<Range<usize>> {
    let (mut parts, mut at) = (Vec::new(), pages.start);
    let mut maps = Maps::open();
    while at < pages.end {
        let by_table = match &mut maps {
            Ok(maps) => maps.holding(at),
            Err(error) => Err(error.kind().into()),
        };
        let (end, is_one) = match by_table {
            Ok(Some(mapping)) => (pages.end.min(mapping.range.end), has(mapping.rights)),
            Ok(None) => (at + page_size(), false),
            Err(_) => (at + page_size(), is_writable(at).unwrap_or(if_unknown == IfUnknown::Include)),
        };
        match parts.last_mut() {
            Some(Range { end: before, .. }) if is_one && *before == at => *before = end,
            _ if is_one => parts.push(at..end),
            _ => {}
        }
        at = end;
    }
    parts
}

pub(super) fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_default()
}

pub(super) fn rights_unknown(error: &io::Error) -> TextError {
    TextError::Unknown { errno: errno_of(error) }
}

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
