//! Switching the sites of probes, run by run, as a backend can.

use std::iter;
use std::ops::RangeInclusive;

use super::state::Control;
use crate::patch::{Access, Report, SiteState};
use crate::registry::{ProbeId, ProbeState};

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
    pub(super) fn left(&self, id: ProbeId) -> Option<SiteState> {
        match self.state_of(id) {
            ProbeState::Active => Some(SiteState::Active),
            ProbeState::Held => Some(SiteState::Latent),
            _ => None,
        }
    }

    /// The same of each of these probes.
    pub(super) fn left_each(&self, ids: &[ProbeId]) -> Vec<Option<SiteState>> {
        ids.iter().map(|id| self.left(*id)).collect()
    }

    /// Makes the sites of these probes what their members want, whatever that is for each.
    ///
    /// `left` tells how the sites of each were left, as far as that is known: the report notes
    /// those that somebody else has switched since.
    pub(super) fn switch_each(
        &self,
        ids: &[ProbeId],
        left: &[Option<SiteState>],
        access: Access,
        report: &mut Report,
    ) {
        // A batch for each pair of what the sites were left as and what they are to be.
        let mut batches: Vec<(Option<SiteState>, bool, Vec<Run>)> = Vec::new();
        for (id, left) in ids.iter().zip(left.iter().copied().chain(iter::repeat(None))) {
            let is_active = self.state_of(*id) == ProbeState::Active;
            let same = batches.iter_mut().find(|(of, wanted, _)| (*of, *wanted) == (left, is_active));
            match same {
                Some((.., runs)) => extend(runs, *id),
                None => batches.push((left, is_active, runs(&[*id]))),
            }
        }
        for (left, is_active, runs) in &batches {
            self.change_runs(runs, *is_active, access, *left, report);
        }
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
