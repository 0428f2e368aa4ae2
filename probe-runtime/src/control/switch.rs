//! Switching the sites of probes, one run of neighbours at a time.

use std::iter;

use super::runs::{Run, extend, runs};
use super::state::{Control, is_paused};
use crate::patch::{Access, Mode, Report};
use crate::registry::ProbeId;

impl Control {
    /// Returns the mode in which the last operation left the sites of a probe. Returns `None` if
    /// this copy of the crate has not switched them; another copy may have.
    #[inline]
    pub(super) fn left(&self, id: ProbeId) -> Option<Mode> {
        let members = self.members(id).filter(|members| members.has_parts())?;
        Some(members.mode(&self.parts, self.counters.of(id), is_paused(&self.attachments)))
    }

    /// Returns the mode that a probe's sites should have.
    #[inline]
    pub(super) fn mode_of(&self, id: ProbeId) -> Mode {
        self.left(id).unwrap_or(Mode::Latent)
    }

    /// Returns [`left`](Self::left) of each of these probes.
    pub(super) fn left_each(&self, ids: &[ProbeId]) -> Vec<Option<Mode>> {
        ids.iter().map(|id| self.left(*id)).collect()
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
    ) -> bool {
        // One batch for each pair of the mode that the sites were left in and the mode they get.
        let mut batches: Vec<(Option<Mode>, Mode, Vec<Run>)> = Vec::new();
        for (id, left) in ids.iter().zip(left.iter().copied().chain(iter::repeat(None))) {
            let mode = self.mode_of(*id);
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
            self.registry.add_blocks(runs.flatten().map(ProbeId::new));
        }
        for (left, mode, runs) in &batches {
            self.change_runs(runs, *mode, access, *left, report);
        }
        batches.iter().all(|(_, mode, _)| *mode == Mode::Counting)
    }
}
