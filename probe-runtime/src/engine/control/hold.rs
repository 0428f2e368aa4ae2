//! Holds, which force probes off.

use std::fmt;
use std::sync::Arc;

use super::HeldText;
use super::lock::operate;
use super::policy::Policy;
use super::retired::settle;
use super::unsettled::Switched;
use crate::engine::registry::ProbeId;
use crate::engine::sites::Report;

/// A guard that keeps probes latent while it lives, even for attached consumers.
/// [`ProbeSet::hold`](super::ProbeSet::hold) returns it.
///
/// Holding probes and releasing them detaches no consumer, so neither waits for one: a hit that is
/// in a consumer goes on.
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

    /// Returns the result of making the sites latent.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Releases the probes, as dropping does, and returns the result. Sites become active if an
    /// attachment listens to them and no other hold remains.
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

    /// Releases the probes on the first call. `drop` calls it again after `release`; that does
    /// nothing.
    fn leave(&mut self) -> Report {
        if std::mem::replace(&mut self.is_over, true) {
            return Report::default();
        }
        let (policy, text) = (self.policy, std::mem::take(&mut self.text));
        let (unsettled, report) = operate(|control, loaded| {
            let unsettled = Switched::unsettle(&control.attachments, &self.ids);
            (unsettled, control.release(&self.ids, policy, text, loaded))
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
