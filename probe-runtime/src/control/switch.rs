//! Switching the sites of probes, run by run, as a backend can.

use std::ops::RangeInclusive;

use super::state::Control;
use crate::patch::{Access, Report};
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
    /// Makes the sites of these probes what their members want, whatever that is for each.
    pub(super) fn switch_each(&self, ids: &[ProbeId], access: Access, report: &mut Report) {
        let (mut active, mut latent) = (Vec::new(), Vec::new());
        for id in ids {
            let is_active = self.state_of(*id) == ProbeState::Active;
            extend(if is_active { &mut active } else { &mut latent }, *id);
        }
        self.switch_runs(&active, true, access, report);
        self.switch_runs(&latent, false, access, report);
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
