//! Forcing probes off.

use std::fmt;
use std::sync::Arc;

use super::HeldText;
use super::attached::Policy;
use super::lock::operate;
use super::retired::settle;
use crate::patch::Report;
use crate::registry::ProbeId;

/// Keeps probes latent while it lives, whoever is attached to them. From
/// [`ProbeSet::hold`](super::ProbeSet::hold).
///
/// No consumer is taken away, so neither holding probes nor letting them go waits for one: a hit
/// that is in a consumer goes on.
#[must_use = "dropping the hold lets the probes go"]
pub struct Hold {
    ids: Arc<[ProbeId]>,
    policy: Policy,
    report: Report,
    text: HeldText,
    is_over: bool,
}

impl Hold {
    pub(super) fn new(ids: Arc<[ProbeId]>, policy: Policy, report: Report, text: HeldText) -> Self {
        Self { ids, policy, report, text, is_over: false }
    }

    /// What making the sites latent did.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Lets the probes go, as dropping does, and tells what that did: sites that somebody listens
    /// to, and nobody else holds, become active.
    ///
    /// ```
    /// # use probe_runtime::{Count, point, select};
    /// # fn work() { point!("held"); }
    /// # work();
    /// let set = select("**::held")?;
    /// let hits = set.attach(Count::new())?;
    /// let hold = set.hold()?;
    /// assert_eq!(hold.release().refused(), 0);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn release(mut self) -> Report {
        self.leave()
    }

    /// The second time, from `drop` after `release`, there is nothing left to do.
    fn leave(&mut self) -> Report {
        if std::mem::replace(&mut self.is_over, true) {
            return Report::default();
        }
        let (policy, text) = (self.policy, std::mem::take(&mut self.text));
        let (unsettled, report) = operate(|control| {
            let unsettled = control.unsettle(&self.ids);
            (unsettled, control.release(&self.ids, policy, text))
        });
        settle(policy.visibility, None);
        unsettled.settle();
        report
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("probes", &self.ids.len()).finish_non_exhaustive()
    }
}
