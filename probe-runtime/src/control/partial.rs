//! Switching some probes of an attachment off, and on again, while it stays attached.

use std::fmt;
use std::sync::{Arc, Weak};

use super::attached::Attached;
use super::lock::{Locked, lock};
use super::retired::Retired;
use super::state::Control;
use crate::dispatch::{Subscription, quiesce};
use crate::os;
use crate::os::cancel::Uncancellable;
use crate::patch::{Access, RefusalReason, Report, Visibility};
use crate::registry::ProbeId;

/// Switches probes of one attachment off and on, from any thread: for consumers that sample, or that have heard enough of a
/// probe. From [`Consumer::attached`](crate::Consumer::attached) or [`Attachment::switch`](crate::Attachment::switch). It does not keep
/// the attachment alive: of one that is gone, it switches nothing.
///
/// Which thread patches: the one that calls [`on`](Self::on) or [`off`](Self::off), before the call returns; never the thread of a hit,
/// which may not call them (they lock). A consumer whose hits decide leaves a mark, and has a thread of its own look at
/// it.
///
/// Others are not disturbed: probes that somebody else listens to as well stay active, and are only not delivered to this
/// attachment. [`Attachment::pause`](crate::Attachment::pause) and holds come on top: a probe is active if nothing switches it off.
///
/// Cost, of a batch whose text is open ([`TextPolicy::Open`](crate::TextPolicy::Open)) and [`Eventual`](Visibility::Eventual): one locked instruction for each
/// site and two on the control lock. [`Event::generation`](crate::Event::generation) does not change: who switches knows.
///
/// ```
/// use probe_runtime::{Count, Visibility, probe, select};
///
/// #[probe]
/// fn hot() {}
/// #[probe]
/// fn cold() {}
///
/// let hits = select("**::hot, **::cold")?.attach(Count::new())?;
/// let switch = hits.switch();
/// let ids: Vec<_> = hits.probes().iter().filter(|it| it.path().ends_with("::hot")).map(|it| it.id()).collect();
/// switch.off(&ids, Visibility::Synchronous);
/// hot_and_cold();
/// assert_eq!(hits.total(), 2);
/// switch.on(&ids, Visibility::Synchronous);
/// hot_and_cold();
/// assert_eq!(hits.total(), 6);
/// # fn hot_and_cold() { hot(); cold(); }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Switch {
    number: usize,
    subscription: Weak<Subscription>,
}

impl Switch {
    pub(super) fn new(number: usize, subscription: &Arc<Subscription>) -> Self {
        Self { number, subscription: Arc::downgrade(subscription) }
    }

    /// Switches these probes off: their sites become latent, unless others listen. Those that are not the attachment's are passed
    /// over.
    ///
    /// With [`Visibility::Synchronous`], no call that starts after it has returned is a hit; hits under way are not waited for.
    pub fn off(&self, probes: &[ProbeId], visibility: Visibility) -> Report {
        self.set_off(probes, true, visibility)
    }

    /// Switches these probes on again: with [`Visibility::Synchronous`], each call that starts after it has returned is a hit. Those of a
    /// consumer that has [failed](crate::Attachment::failure) are refused.
    pub fn on(&self, probes: &[ProbeId], visibility: Visibility) -> Report {
        self.set_off(probes, false, visibility)
    }

    fn set_off(&self, probes: &[ProbeId], is_off: bool, visibility: Visibility) -> Report {
        let mut report = Report::default();
        #[cfg(probe_discovers)]
        crate::finstrument::get_ready();
        let mut locked = lock();
        let retired = self.switch(&mut locked, probes, is_off, &mut report);
        drop(locked);
        // Others' retired things are left to them: a consumer is never dropped here, which may be on a thread of its own.
        let has_retired = !retired.hooks.is_empty();
        if has_retired {
            let _whole = Uncancellable::new();
            if quiesce() {
                drop(retired);
                return report;
            }
            lock().retired.push(retired);
        }
        if visibility == Visibility::Synchronous {
            os::heavy_barrier();
        }
        report
    }

    fn switch(&self, locked: &mut Locked, probes: &[ProbeId], is_off: bool, report: &mut Report) -> Retired {
        // As for pausing: in text that is open nothing can be in the way.
        if locked.registry.is_main_only() && self.find(locked).is_some_and(Attached::is_open) {
            return self.switch_known(locked, probes, is_off, Some(Access::Held), report);
        }
        let _whole = Uncancellable::new();
        #[cfg(probe_discovers)]
        locked.name_discovered();
        locked.with_objects(|control| self.switch_known(control, probes, is_off, None, report))
    }

    fn switch_known(
        &self,
        control: &mut Control,
        probes: &[ProbeId],
        is_off: bool,
        access: Option<Access>,
        report: &mut Report,
    ) -> Retired {
        match self.find(control) {
            Some(attached) => {
                let access = access.unwrap_or_else(|| attached.policy.access());
                control.set_off(self.number, probes, is_off, access, report)
            }
            None => Retired::default(),
        }
    }

    /// Its attachment, unless that is gone: another may have its number.
    fn find<'a>(&self, control: &'a Control) -> Option<&'a Attached> {
        let attached = control.attachments.get(self.number)?.as_ref()?;
        std::ptr::eq(Arc::as_ptr(&attached.subscription), self.subscription.as_ptr()).then_some(attached)
    }
}

impl Control {
    fn set_off(
        &mut self,
        attachment: usize,
        probes: &[ProbeId],
        is_off: bool,
        access: Access,
        report: &mut Report,
    ) -> Retired {
        let mut ids = probes.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let mut retired = Retired::default();
        let Some(attached) = self.attached(attachment) else { return retired };
        if !is_off && attached.subscription.has_failed() {
            self.refuse(&ids, &RefusalReason::Failed, report);
            return retired;
        }
        ids.retain(|id| {
            let changed = self.members.get_mut(id.index()).and_then(|it| it.set_off(attachment, is_off));
            if let (Some(true), Some(attached)) = (changed, &mut self.attachments[attachment]) {
                attached.off = if is_off { attached.off + 1 } else { attached.off - 1 };
            }
            // Where it listens alone, the hook stays, and only the sites change.
            if changed == Some(true) && self.members[id.index()].attachments().nth(1).is_some() {
                retired.hooks.extend(self.publish(*id));
            }
            changed.is_some()
        });
        self.switch_each(&ids, access, report);
        retired
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").finish_non_exhaustive()
    }
}
