//! The state that the control lock guards, and how sites are brought into the mode that listeners
//! want.

use std::collections::HashMap;
use std::iter;

use super::Unswitched;
use super::attachments::Attachments;
use super::first_hits::FirstHits;
use super::garbage::Garbage;
use super::policy::Policy;
use super::runs::{Run, extend, runs};
#[cfg(probe_backend = "patched")]
use super::sites::Sites;
use crate::engine::dispatch::Reclaimer;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, ProbeInfo, Registry};
use crate::engine::sites::{Access, Mode, Report};

/// All of the control's state.
#[derive(Default)]
pub(super) struct Control {
    pub(super) registry: Registry,
    /// The number of times that probes came or went.
    pub(super) changes: u64,
    pub(super) attachments: Attachments,
    /// Memory that hits may still be reading.
    pub(super) reclaimer: Reclaimer<Garbage>,
    /// Whether `reclaimer` holds places of unloaded call sites that others could use.
    pub(super) has_unloaded: bool,
    pub(super) unswitched: Unswitched,
    /// Copies of the data of attached probes that may be unloaded.
    pub(super) remembered: HashMap<ProbeId, ProbeInfo>,
    /// Counts first hits of discovered probes.
    pub(super) first_hits: FirstHits,
}

impl Control {
    /// Returns whether an attachment of this policy can be switched while objects come and go: its
    /// text is open, and all sites are the executable's.
    #[inline(always)]
    pub(super) fn is_fixed(&self, policy: Policy) -> bool {
        policy.is_open() && self.registry.is_main_only()
    }

    /// Calls `run` with the proof that all objects stay loaded, if the executable alone is known.
    /// Returns whether it did.
    pub(super) fn with_executable(&mut self, run: &mut dyn FnMut(&mut Self, KeptLoaded<'_>)) -> bool {
        Registry::with_kept_loaded(self, |control| &control.registry, run).is_some()
    }

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

    /// Publishes new hooks of these probes' listeners, and retires the previous ones.
    pub(super) fn publish(&mut self, ids: &[ProbeId], loaded: KeptLoaded<'_>) {
        self.attachments.publish(ids, &self.registry, &mut self.reclaimer, loaded);
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
