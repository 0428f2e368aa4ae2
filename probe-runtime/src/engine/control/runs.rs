//! Runs of neighbouring probes.

use std::ops::RangeInclusive;

use crate::engine::registry::ProbeId;

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
