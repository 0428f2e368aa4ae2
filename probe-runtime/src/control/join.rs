//! Lets probes that appear join standing attachments.
//!
//! Life: a set keeps the [`Rule`](super::standing::Rule) that made it ▸ attaching keeps the rule
//! with the attachment ▸ an operation that finds new probes notes those that the rule names ▸ once
//! its lock is free, it takes the [turn](super::turn), asks the consumer to
//! [`join`](super::Consumer::join) them, and then adds parts, hooks and sites, as attaching does ▸
//! the operation's own work follows, and sees them joined.
//!
//! Cost: without a standing attachment, a look at each attachment where probes came or went. With
//! one, the rule is tried on new probes alone; after an unload, on all.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::attachments::Attachments;
use super::lock::{lock, operate};
use super::parts::Part;
use super::retired::settle;
use super::runs::runs;
use super::standing::Standing;
use super::state::Control;
use super::{Consumer, ProbeSet, Start, Wants, turn};
use crate::dispatch::{Action, CounterAt, Subscription, UnsettledSwitch};
use crate::error::Error;
use crate::os::objects::KeptLoaded;
use crate::patch::{Report, Visibility};
use crate::registry::{ProbeId, Registry};

/// Lets all probes join that wait, in this thread's turn.
fn join_all() {
    loop {
        let late = lock().attachments.take_late();
        match late {
            Some(late) => late.join(),
            None => return,
        }
    }
}

/// Probes that are about to join an attachment.
struct Late {
    number: usize,
    subscription: Arc<Subscription>,
    consumer: Arc<dyn Consumer>,
    /// All probes of the attachment, with these.
    all: ProbeSet,
    ids: Vec<ProbeId>,
}

impl Late {
    fn join(self) {
        let Self { number, subscription, consumer, all, ids } = self;
        // It is its own code, and the operation another's. The panic's message was printed.
        let joined = catch_unwind(AssertUnwindSafe(|| {
            consumer.join(&all)?;
            let starts = ids.iter().map(|id| (*id, consumer.start(*id)));
            Ok::<Vec<_>, Error>(starts.collect())
        }));
        let joined = joined.unwrap_or_else(|_| Err(Error::Consumer("the consumer panicked".into())));
        let unsettled = operate(|control, loaded| {
            let attached = control.attachments.attached_mut(number);
            let attached = attached.filter(|attached| Arc::ptr_eq(&attached.subscription, &subscription))?;
            match joined {
                Ok(starts) => control.join(number, &starts, loaded),
                Err(error) => {
                    let standing = attached.standing.as_mut()?;
                    standing.leave_out(&ids, &error);
                    None
                }
            }
        });
        if let Some(unsettled) = unsettled {
            settle(Visibility::Synchronous, None);
            subscription.settle(unsettled);
        }
    }
}

impl Attachments {
    /// Notes the probes among these that join standing attachments. `found` are those of a
    /// provider. Both ascend.
    pub(super) fn note_late(&mut self, ids: &[ProbeId], found: &[ProbeId], registry: &Registry) {
        let Self { all, members, parts, .. } = self;
        for (number, attached) in all.iter_mut().enumerate() {
            let Some(standing) = attached.as_mut().and_then(|attached| attached.standing.as_mut()) else {
                continue;
            };
            for &id in ids.iter().filter(|id| standing.rule.matches(**id, registry, found)) {
                let has_part = members.get(id.index()).is_some_and(|it| it.part(parts, number).is_some());
                if !has_part {
                    standing.waiting.push(id);
                }
            }
            standing.waiting.sort_unstable();
            standing.waiting.dedup();
            if !standing.waiting.is_empty() && standing.has_begun {
                turn::note();
            }
        }
    }

    /// Lets probes join an attachment from now on.
    pub(super) fn begin_joining(&mut self, number: usize) {
        let attached = self.attached_mut(number);
        if let Some(standing) = attached.and_then(|attached| attached.standing.as_mut()) {
            standing.has_begun = true;
            if !standing.waiting.is_empty() {
                turn::note();
            }
        }
    }

    fn take_late(&mut self) -> Option<Late> {
        self.numbers().find_map(|number| {
            let attached = self.attached_mut(number)?;
            let standing = attached.standing.as_mut().filter(|it| it.has_begun && !it.waiting.is_empty())?;
            let ids = mem::take(&mut standing.waiting);
            if attached.subscription.has_failed() {
                return None;
            }
            let mut all = [&*attached.ids, &ids].concat();
            all.sort_unstable();
            Some(Late {
                number,
                subscription: Arc::clone(&attached.subscription),
                consumer: standing.consumer.downcast_ref::<Weak<dyn Consumer>>()?.upgrade()?,
                all: ProbeSet {
                    ids: all.into(),
                    policy: attached.policy,
                    unmatched: Arc::default(),
                    rule: None,
                    as_of: 0,
                    room: standing.room,
                },
                ids,
            })
        })
    }
}

impl Control {
    /// Lets probes join an attachment, those included that have appeared since its set was made.
    pub(super) fn stand(&mut self, number: usize, set: &ProbeSet, consumer: &Arc<dyn Consumer>) {
        let attached = self.attachments.attached_mut(number);
        let Some((attached, rule)) = attached.zip(set.standing_rule()) else { return };
        turn::set_work(join_all);
        let consumer = Box::new(Arc::downgrade(consumer));
        attached.standing = Some(Box::new(Standing::new(rule, set.room, consumer)));
        if set.as_of != self.changes {
            let all: Vec<_> = (0..self.registry.len()).map(ProbeId::new).collect();
            let mut found: Vec<_> = self.registry.discovered_ids().collect();
            found.sort_unstable();
            self.attachments.note_late(&all, &found, &self.registry);
        }
    }

    /// Adds probes to an attachment, whose consumer is ready for them, and switches their sites.
    fn join(
        &mut self,
        number: usize,
        starts: &[(ProbeId, Start)],
        loaded: KeptLoaded<'_>,
    ) -> Option<UnsettledSwitch> {
        let mut report = Report::default();
        let ids: Vec<_> = starts.iter().map(|(id, _)| *id).collect();
        let ids = self.exclude_taken(&ids, &mut report);
        let attached = self.attachments.attached(number)?;
        let (wants, first) = (attached.wants, attached.counters.start);
        let wanted = if wants == Wants::Hits { 0 } else { ids.len() };
        let pool = &mut self.attachments.counters;
        let has_room = wants == Wants::Hits || ids.last().is_none_or(|last| pool.reserve(*last));
        let Some(own) = has_room.then(|| pool.take(wanted)).flatten() else {
            let standing = self.attachments.attached_mut(number)?.standing.as_mut()?;
            standing.leave_out(&ids, &Error::OutOfCounters { wanted });
            return None;
        };
        let left = self.attachments.left_each(&ids);
        self.attachments.reserve(&ids);
        for (at, id) in ids.iter().enumerate() {
            // Counts have no counter of suppressed hits, and hits none of their own.
            let (suppressed, counter) = (|| CounterAt::new(first), || CounterAt::new(own.start + at));
            let action = match wants {
                Wants::Counts => Action::Count(counter()),
                Wants::Hits => Action::Call { suppressed: suppressed(), counted: None },
                Wants::Switchable => Action::Call { suppressed: suppressed(), counted: Some(counter()) },
            };
            let start = starts.binary_search_by_key(id, |(id, _)| *id).map_or(Start::On, |at| starts[at].1);
            self.attachments.add(*id, Part::starting(number, action, start));
        }
        let attached = self.attachments.attached_mut(number)?;
        let mut all = [&*attached.ids, &ids].concat();
        all.sort_unstable();
        attached.runs = runs(&all);
        attached.ids = all.into();
        attached.standing.iter_mut().for_each(|standing| standing.counters.push(own.clone()));
        let unsettled = attached.subscription.unsettle();
        self.publish(&ids);
        self.remember(&ids);
        let is_counted = self.switch_each(&ids, &left, self.access_to_new(), &mut report, loaded);
        let attached = self.attachments.attached_mut(number)?;
        if wants == Wants::Counts {
            attached.mode = attached.mode.filter(|_| is_counted);
        }
        self.attachments.keep_late(number, report);
        Some(unsettled)
    }
}
