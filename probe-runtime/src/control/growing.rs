//! The attachment that newly discovered probes are added to.

use super::garbage::Garbage;
use super::parts::Part;
use super::state::Control;
use crate::dispatch::{Action, CounterAt, Era};
use crate::os::objects::KeptLoaded;
use crate::patch::Report;
use crate::registry::ProbeId;
use crate::registry::provider::{self, CallSite};

impl Control {
    /// Adds discovered call sites to the growing attachment, and gives them the control's own
    /// hooks.
    pub(super) fn adopt(
        &mut self,
        found: &[(ProbeId, &'static dyn CallSite)],
        loaded: KeptLoaded<'_>,
    ) -> Report {
        let mut report = Report::default();
        if !provider::IS_POSSIBLE {
            return report;
        }
        let growing = self.attachments.growing();
        let (mut adopted, mut hooked) = (Vec::new(), Vec::new());
        for &(id, call) in found {
            let inline = call.counter();
            let is_part = growing.is_some_and(|at| self.attachments.attachments_of(id).any(|of| of == at));
            let wants_counter = inline.is_none() && growing.is_some() && !is_part;
            let provider = self.registry.provider().filter(|_| wants_counter);
            let Some(counter) = inline.or_else(|| provider?.take_counter(call)) else { continue };
            // A hook is published even if no attachment has a part.
            self.attachments.make_room(id);
            if let Some(attachment) = growing {
                self.grow(attachment, id, counter);
                if !is_part {
                    self.attachments.counters.reserve(id);
                    self.attachments.add(id, Part::new(attachment, Action::Count(CounterAt::new(counter))));
                }
            }
            self.publish(&[id]);
            if inline.is_some() {
                hooked.push(call);
            }
            adopted.push(id);
        }
        if adopted.is_empty() {
            return report;
        }
        // Definitions do not refer to these hooks any more.
        if let Some(hooks) = self.registry.provider().and_then(|it| it.take_hooks(&hooked)) {
            self.limbo.retire(Era::UNKNOWN, Garbage::Provider(hooks));
        }
        adopted.sort_unstable();
        adopted.dedup();
        self.remember(&adopted);
        let access = self.access_to_new();
        self.switch_each(&adopted, &[], access, &mut report, loaded);
        report
    }

    /// Pauses or resumes probes that are discovered from now on, if this is the growing attachment.
    /// Returns whether it is.
    pub(super) fn pause_growing(&mut self, attachment: usize, is_paused: bool) -> bool {
        let is_growing = self.attachments.growing() == Some(attachment);
        let provider = self.registry.provider().filter(|_| is_growing);
        provider.into_iter().for_each(|it| it.pause_growing(is_paused));
        is_growing
    }

    fn grow(&mut self, attachment: usize, id: ProbeId, counter: usize) {
        let attached = self.attachments.attached_mut(attachment);
        if let Some(growth) = attached.and_then(|attached| attached.growth.as_mut()) {
            growth.counters.push((id, counter));
            growth.is_settled = false;
        }
    }
}
