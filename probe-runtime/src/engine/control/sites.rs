//! How sites are brought into the mode that their probes' attachments want: by `patched_sites`, or,
//! on backends where a site is only a flag, by `portable_sites`. Both have the same methods of
//! [`Control`] and the same type `HeldText`.

use std::iter;
use std::ops::RangeInclusive;

use super::lock::Control;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::ProbeId;
use crate::engine::sites::{Access, Mode, Report, TextPolicy, Visibility};

/// How an attachment or a hold patches.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PatchPolicy {
    pub(super) text: TextPolicy,
    pub(super) visibility: Visibility,
    pub(super) strict: bool,
    /// Whether a forked child leaves the attachment behind in its parent.
    pub(super) stays_in_parent: bool,
}

impl PatchPolicy {
    pub(super) fn access(self) -> Access {
        Access::under(self.text, self.strict)
    }

    /// Returns whether text stays writable, and is written by single writes.
    pub(super) fn is_open(self) -> bool {
        self.text == TextPolicy::Open && !self.strict
    }
}

/// A range of neighbouring probes. Their sites are neighbours in the registry's table.
pub(super) type IdRange = RangeInclusive<usize>;

/// Groups ascending ids into ranges.
pub(super) fn id_ranges(ids: &[ProbeId]) -> Vec<IdRange> {
    let mut ranges = Vec::new();
    ids.iter().for_each(|id| push_id(&mut ranges, *id));
    ranges
}

/// Adds a probe, greater than all before, to ranges.
#[inline]
pub(super) fn push_id(ranges: &mut Vec<IdRange>, id: ProbeId) {
    let id = id.index();
    match ranges.last_mut() {
        Some(range) if *range.end() + 1 == id => *range = *range.start()..=id,
        _ => ranges.push(id..=id),
    }
}

/// How an operation switches sites, and the result.
pub(super) struct Switching<'a> {
    pub(super) access: Access,
    pub(super) report: &'a mut Report,
    /// The objects of all sites stay loaded.
    pub(super) loaded: KeptLoaded<'a>,
}

impl Control {
    /// Returns whether an attachment of this policy can be switched while objects come and go: its
    /// text is open, and all sites are the executable's.
    #[inline(always)]
    pub(super) fn needs_no_freeze(&self, policy: PatchPolicy) -> bool {
        policy.is_open() && self.registry.is_main_only()
    }

    /// Returns the access to the sites of an attachment that has opened their text if its policy
    /// says so. Discovered call sites may lie in text that it has not opened.
    #[inline(always)]
    pub(super) fn access_to_open(&self, policy: PatchPolicy) -> Access {
        let is_held = self.needs_no_freeze(policy) && !self.registry.has_discovered();
        if is_held { Access::Held } else { policy.access() }
    }

    /// Returns the access to new copies, which no attachment has opened.
    pub(super) fn access_to_new(&self) -> Access {
        let is_strict = self.attachments.policies().any(|policy| policy.strict);
        Access::under(self.attachments.common_text_policy(), is_strict)
    }

    /// Switches the sites of each of these probes to the mode that its attachments want. Returns
    /// whether hits of all these probes are only counted now.
    ///
    /// `left` holds the mode in which the sites of each probe were left, if that is known. The
    /// report notes sites that differ from it: code outside this runtime has changed them.
    pub(super) fn switch_probes(
        &mut self,
        ids: &[ProbeId],
        left: &[Option<Mode>],
        mut switching: Switching<'_>,
    ) -> bool {
        // One batch for each pair of the mode that the sites were left in and the mode they get.
        let mut batches: Vec<(Option<Mode>, Mode, Vec<IdRange>)> = Vec::new();
        for (id, left) in ids.iter().zip(left.iter().copied().chain(iter::repeat(None))) {
            let mode = self.attachments.mode_of(*id);
            let same = batches.iter_mut().find(|(of, wanted, _)| (*of, *wanted) == (left, mode));
            match same {
                Some((.., ranges)) => push_id(ranges, *id),
                None => batches.push((left, mode, id_ranges(&[*id]))),
            }
        }
        // This reads the kernel's table of mappings and their rights, which `Alias` must avoid:
        // access may be denied.
        #[cfg(probe_backend = "patched")]
        if switching.access != Access::Alias {
            let counting = batches.iter().filter(|(_, mode, _)| *mode == Mode::Counting);
            let ranges = counting.flat_map(|(.., ranges)| ranges).cloned();
            self.registry.add_blocks(ranges.flatten().map(ProbeId::new), switching.loaded);
        }
        for (left, mode, ranges) in &batches {
            self.switch_ranges(ranges, *mode, *left, &mut switching);
        }
        batches.iter().all(|(_, mode, _)| *mode == Mode::Counting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_make_a_range() {
        let ids: Vec<_> = [1, 2, 3, 7, 9, 10].into_iter().map(ProbeId::new).collect();
        assert_eq!(id_ranges(&ids), [1..=3, 7..=7, 9..=10]);
        assert_eq!(id_ranges(&[]), []);
    }
}
