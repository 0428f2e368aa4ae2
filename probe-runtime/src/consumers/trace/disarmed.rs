//! Probes of a trace that are off until somebody arms them.
//!
//! They are the trace's from the beginning, so its files have their definitions, and arming only
//! switches their sites.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Trace;
use crate::engine::control::{Attachment, Start};
use crate::engine::registry::ProbeId;
use crate::engine::sites::{Report, Visibility};

/// The probes, and the number of times that each is armed.
#[derive(Default)]
pub(super) struct Disarmed {
    /// The number of times that each is armed. A leaf: nothing else is locked meanwhile.
    counts: Mutex<BTreeMap<ProbeId, usize>>,
    /// Held while probes are counted and their sites follow, so that the sites are as the last
    /// count says. Taken before the control lock.
    turns: Mutex<()>,
}

impl Disarmed {
    fn of(probes: &[ProbeId]) -> Self {
        let counts = probes.iter().map(|id| (*id, 0)).collect();
        Self { counts: Mutex::new(counts), turns: Mutex::default() }
    }

    pub(super) fn start(&self, probe: ProbeId) -> Start {
        if self.counts().contains_key(&probe) { Start::Off } else { Start::On }
    }

    /// Counts one more arming of each of these probes. Returns those for which it is the first.
    fn count_armed(&self, probes: &[ProbeId]) -> Vec<ProbeId> {
        self.count(probes, |armed| {
            *armed += 1;
            *armed == 1
        })
    }

    /// Counts one arming less. Returns the probes for which it was the last.
    fn count_disarmed(&self, probes: &[ProbeId]) -> Vec<ProbeId> {
        self.count(probes, |armed| std::mem::replace(armed, armed.saturating_sub(1)) == 1)
    }

    /// Returns the probes that a change of their counts switches.
    fn count(&self, probes: &[ProbeId], switches: impl Fn(&mut usize) -> bool) -> Vec<ProbeId> {
        let mut counts = self.counts();
        probes.iter().filter(|probe| counts.get_mut(probe).is_some_and(&switches)).copied().collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<ProbeId, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread arms or disarms.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trace {
    /// Leaves these probes out until somebody [arms](crate::Attachment::arm) them, such as the
    /// action of a [`Trigger`](crate::Trigger): so a trace records more for a while. The trace must
    /// be attached to them, too. Their sites are latent until then.
    ///
    /// ```
    /// use probe_runtime::{Trace, probe, select};
    ///
    /// #[probe]
    /// fn query() {
    ///     fetch();
    /// }
    /// #[probe]
    /// fn fetch() {}
    /// query();
    ///
    /// let more = select("**::fetch")?;
    /// let trace = select("**::query, **::fetch")?.attach(Trace::recorder().disarmed(more.ids()))?;
    /// query();
    /// trace.arm(more.ids());
    /// query();
    /// trace.disarm(more.ids());
    /// query();
    /// assert_eq!(trace.totals().written, 2 + 4 + 2);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn disarmed(mut self, probes: &[ProbeId]) -> Self {
        self.set_disarmed(probes);
        self
    }

    pub(crate) fn set_disarmed(&mut self, probes: &[ProbeId]) {
        self.disarmed = Disarmed::of(probes);
    }
}

impl Attachment<Trace> {
    /// Switches [disarmed](Trace::disarmed) probes on. Each call that starts after `arm` has
    /// returned is recorded, until as many calls of [`disarm`](Self::disarm). Probes that the trace
    /// does not have as disarmed ones are ignored. A forked child can arm only if no thread of its
    /// parent was arming or disarming probes of this trace at the moment of the fork.
    pub fn arm(&self, probes: &[ProbeId]) -> Report {
        let _turn = self.disarmed.turn();
        let first = self.disarmed.count_armed(probes);
        self.switch().on(&first, Visibility::Synchronous)
    }

    /// Switches armed probes off again, unless they were armed more than once. The trace shows
    /// where the probes were switched: calls that are under way then end there.
    pub fn disarm(&self, probes: &[ProbeId]) -> Report {
        let _turn = self.disarmed.turn();
        let last = self.disarmed.count_disarmed(probes);
        let report = self.switch().off(&last, Visibility::Synchronous);
        if !last.is_empty() {
            self.untyped().begin_generation();
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_switched_by_the_first_arming_and_the_end_of_the_last() {
        let [one, two, other] = [1, 2, 3].map(ProbeId::new);
        let disarmed = Disarmed::of(&[two, one, two]);
        let (arm, disarm) =
            (|probes: &[_]| disarmed.count_armed(probes), |probes: &[_]| disarmed.count_disarmed(probes));
        assert_eq!(disarm(&[one]), []);
        assert_eq!(arm(&[one, other]), [one]);
        assert_eq!(arm(&[one, two]), [two]);
        assert_eq!(disarm(&[one, other]), []);
        assert_eq!(disarm(&[one, two]), [one, two]);
        assert_eq!([one, two, other].map(|it| disarmed.start(it)), [Start::Off, Start::Off, Start::On]);
    }
}
