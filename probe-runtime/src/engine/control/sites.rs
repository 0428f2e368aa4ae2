//! The policy of an attachment or a hold.
//!
//! Runs of neighbouring probes.

use std::iter;
use std::ops::RangeInclusive;

use super::lock::Control;
#[cfg(probe_backend = "patched")]
use super::site_backend::Sites;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::ProbeId;
use crate::engine::sites::{Access, Mode, Report, TextPolicy, Visibility};

/// How an attachment or a hold patches.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Policy {
    pub(super) text: TextPolicy,
    pub(super) visibility: Visibility,
    pub(super) strict: bool,
    /// Whether a forked child leaves the attachment behind in its parent.
    pub(super) is_of_parent: bool,
}

impl Policy {
    pub(super) fn access(self) -> Access {
        Access::under(self.text, self.strict)
    }

    /// Returns whether text stays writable, and is written by single writes.
    pub(super) fn is_open(self) -> bool {
        self.text == TextPolicy::Open && !self.strict
    }
}

/// A range of neighbouring probes. Their sites are neighbours in the registry's table.
pub(super) type Run = RangeInclusive<usize>;

/// Groups ascending ids into runs.
pub(super) fn runs(ids: &[ProbeId]) -> Vec<Run> {
    let mut runs = Vec::new();
    ids.iter().for_each(|id| extend(&mut runs, *id));
    runs
}

/// Adds a probe, greater than all before, to runs.
#[inline]
pub(super) fn extend(runs: &mut Vec<Run>, id: ProbeId) {
    let id = id.index();
    match runs.last_mut() {
        Some(run) if *run.end() + 1 == id => *run = *run.start()..=id,
        _ => runs.push(id..=id),
    }
}

impl Control {
    /// Returns the access to the sites of an attachment that has opened their text if its policy
    /// says so. Discovered call sites may lie in text that it has not opened.
    #[inline(always)]
    pub(super) fn access_to_open(&self, policy: Policy) -> Access {
        let is_held = self.is_fixed(policy) && !self.registry.has_discovered();
        if is_held { Access::Held } else { policy.access() }
    }

    /// Returns the access to new copies, which no attachment has opened.
    pub(super) fn access_to_new(&self) -> Access {
        let is_strict = self.attachments.policies().any(|policy| policy.strict);
        Access::under(self.attachments.common_text_policy(), is_strict)
    }

    #[cfg(probe_backend = "patched")]
    #[inline(always)]
    fn sites<'a>(&'a self, loaded: KeptLoaded<'a>) -> Sites<'a> {
        Sites { registry: &self.registry, unswitched: &self.unswitched, loaded }
    }

    /// Switches all sites of these runs to `mode`. `left` is the mode in which the last operation
    /// left them, if that is known.
    #[inline(always)]
    pub(super) fn switch_runs(
        &self,
        runs: &[Run],
        mode: Mode,
        access: Access,
        left: Option<Mode>,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) {
        #[cfg(probe_backend = "patched")]
        self.sites(loaded).switch(runs, mode, access, left, report);
        #[cfg(not(probe_backend = "patched"))]
        {
            let _ = (access, left);
            self.attachments.switch(runs, mode, &self.registry, report, loaded);
        }
    }

    /// Switches the sites of each of these probes to the mode that its members want. Returns
    /// whether hits of all these probes are only counted now.
    ///
    /// `left` holds the mode in which the sites of each probe were left, if that is known. The
    /// report notes sites that differ from it: code outside this runtime has changed them.
    pub(super) fn switch_each(
        &mut self,
        ids: &[ProbeId],
        left: &[Option<Mode>],
        access: Access,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) -> bool {
        // One batch for each pair of the mode that the sites were left in and the mode they get.
        let mut batches: Vec<(Option<Mode>, Mode, Vec<Run>)> = Vec::new();
        for (id, left) in ids.iter().zip(left.iter().copied().chain(iter::repeat(None))) {
            let mode = self.attachments.mode_of(*id);
            let same = batches.iter_mut().find(|(of, wanted, _)| (*of, *wanted) == (left, mode));
            match same {
                Some((.., runs)) => extend(runs, *id),
                None => batches.push((left, mode, runs(&[*id]))),
            }
        }
        // This reads the kernel's table of mappings and their rights, which `Alias` must avoid:
        // access may be denied.
        #[cfg(probe_backend = "patched")]
        if access != Access::Alias {
            let counting = batches.iter().filter(|(_, mode, _)| *mode == Mode::Counting);
            let runs = counting.flat_map(|(.., runs)| runs).cloned();
            self.registry.add_blocks(runs.flatten().map(ProbeId::new), loaded);
        }
        for (left, mode, runs) in &batches {
            self.switch_runs(runs, *mode, access, *left, report, loaded);
        }
        batches.iter().all(|(_, mode, _)| *mode == Mode::Counting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_make_a_run() {
        let ids: Vec<_> = [1, 2, 3, 7, 9, 10].into_iter().map(ProbeId::new).collect();
        assert_eq!(runs(&ids), [1..=3, 7..=7, 9..=10]);
        assert_eq!(runs(&[]), []);
    }
}
