//! The probes of each function, by what their hits mean.

use crate::calls::Step;
use crate::registry::ProbeId;

/// The probes of a function.
#[derive(Clone, Default, Debug)]
pub(super) struct Probes {
    /// Probes where calls begin are first.
    pub(super) all: Vec<ProbeId>,
    pub(super) beginning: usize,
    /// Of these, probes where a future's later polls begin are first.
    pub(super) resuming: usize,
}

impl Probes {
    pub(super) fn add(&mut self, id: ProbeId, step: Step) {
        if step == Step::Resume {
            self.all.insert(0, id);
            self.resuming += 1;
            self.beginning += 1;
        } else if begins(step) {
            self.all.insert(self.beginning, id);
            self.beginning += 1;
        } else {
            self.all.push(id);
        }
    }
}

/// Whether a call or a poll begins; otherwise one ends.
#[inline(always)]
pub(super) fn begins(step: Step) -> bool {
    matches!(step, Step::Begin | Step::Enter | Step::Resume)
}

/// Whether a call or a poll begins or ends. Dropping a future is neither; its probe stays off, as
/// points do.
#[inline(always)]
pub(super) fn is_of_call(step: Step) -> bool {
    !matches!(step, Step::Nothing | Step::Cancel)
}
