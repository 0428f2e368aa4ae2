//! Switching the sites of probes, run by run, as a backend can.

use std::iter;
use std::ops::RangeInclusive;

use super::state::{Control, is_paused};
use crate::patch::{Access, Mode, Report};
use crate::registry::ProbeId;

/// Neighbouring probes, whose sites lie side by side.
pub(super) type Run = RangeInclusive<usize>;

/// The runs that ascending ids make.
pub(super) fn runs(ids: &[ProbeId]) -> Vec<Run> {
    let mut runs = Vec::new();
    ids.iter().for_each(|id| extend(&mut runs, *id));
    runs
}

#[inline]
fn extend(runs: &mut Vec<Run>, id: ProbeId) {
    let id = id.index();
    match runs.last_mut() {
        Some(run) if *run.end() + 1 == id => *run = *run.start()..=id,
        _ => runs.push(id..=id),
    }
}

impl Control {
    /// How the last operation left the sites of a probe; `None` where nobody here has switched
    /// them: another copy of this crate may have.
    #[inline]
    pub(super) fn left(&self, id: ProbeId) -> Option<Mode> {
        let members = self.members(id).filter(|members| members.has_parts())?;
        Some(members.mode(&self.parts, self.tallies.of(id), is_paused(&self.attachments)))
    }

    /// What the sites of a probe are to be.
    #[inline]
    pub(super) fn mode_of(&self, id: ProbeId) -> Mode {
        self.left(id).unwrap_or(Mode::Latent)
    }

    /// The same of each of these probes.
    pub(super) fn left_each(&self, ids: &[ProbeId]) -> Vec<Option<Mode>> {
        ids.iter().map(|id| self.left(*id)).collect()
    }

    /// Makes the sites of these probes what their members want, whatever that is for each. Returns
    /// whether hits of all of them are only counted now.
    ///
    /// `left` tells how the sites of each were left, as far as that is known: the report notes
    /// those that somebody else has switched since.
    pub(super) fn switch_each(
        &mut self,
        ids: &[ProbeId],
        left: &[Option<Mode>],
        access: Access,
        report: &mut Report,
    ) -> bool {
        // A batch for each pair of what the sites were left as and what they are to be.
        let mut batches: Vec<(Option<Mode>, Mode, Vec<Run>)> = Vec::new();
        for (id, left) in ids.iter().zip(left.iter().copied().chain(iter::repeat(None))) {
            let mode = self.mode_of(*id);
            let same = batches.iter_mut().find(|(of, wanted, _)| (*of, *wanted) == (left, mode));
            match same {
                Some((.., runs)) => extend(runs, *id),
                None => batches.push((left, mode, runs(&[*id]))),
            }
        }
        // Through the kernel's table of mappings, and its rights: not where these may be denied.
        #[cfg(probe_backend = "x86_64")]
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
