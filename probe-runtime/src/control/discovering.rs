//! What the control does for a provider of call sites, on its behalf.

use std::sync::Arc;

use super::attached::{Attached, Growth, Policy};
use super::attachment::Attachment;
use super::lock::operate;
use super::ready;
use super::retired::{Garbage, settle};
use super::state::Control;
use super::untyped::Untyped;
use super::{Consumer, HeldText, Wants};
use crate::dispatch::{Awaited, Era, Subscription};
use crate::error::Error;
use crate::patch::{Report, Visibility};
use crate::registry::ProbeInfo;
use crate::registry::provider::{CallSite, Provider};

/// The probe of a call site, as it is now.
pub(crate) fn probe_of(call: &'static dyn CallSite) -> Option<ProbeInfo> {
    operate(|control| control.info(call.probe()?))
}

/// All discovered call sites that are in loaded objects, with their probes.
pub(crate) fn discovered() -> Vec<(&'static dyn CallSite, ProbeInfo)> {
    operate(|control| {
        let all = control.registry.discovered().iter();
        all.filter_map(|(id, call)| Some((*call, control.info(*id)?))).collect()
    })
}

/// Attaches to all discovered probes, and to each that will be.
pub(crate) fn attach_growing<C: Consumer>(consumer: C, capacity: usize) -> Result<Attachment<C>, Error> {
    ready::require()?;
    let consumer = Arc::new(consumer);
    let subscription = Arc::new(Subscription::new(Arc::clone(&consumer)));
    let (number, report) = operate(|control| control.begin_growing(capacity, &subscription))?;
    settle(Policy::default().visibility, None);
    let untyped = Untyped::new(number, subscription, report, Policy::default());
    Ok(Attachment::new(consumer, untyped))
}

/// Adds no more to it. Returns whether no thread can be about to give a probe one of its counters; not known inside a hit.
pub(crate) fn end_growing() -> bool {
    operate(|control| {
        if let Some(growing) = control.registry.provider().and_then(Provider::end_growing) {
            control.limbo.retire(Era::UNKNOWN, Garbage::Provider(growing));
        }
    });
    settle(Visibility::Synchronous, Some(Awaited::Passing)).is_some()
}

/// Looks for what is new, and nothing else.
pub(crate) fn look() {
    operate(|_| ());
}

impl Control {
    fn begin_growing(
        &mut self,
        capacity: usize,
        subscription: &Arc<Subscription>,
    ) -> Result<(usize, Report), Error> {
        if self.registry.provider().is_none_or(|it| it.is_growing()) {
            return Err(Error::Growing);
        }
        let tallies = self.tallies.take(capacity).ok_or(Error::OutOfCounters { wanted: capacity })?;
        let (none, policy, text) = (Arc::default(), Policy::default(), HeldText::new());
        let mut attached = Attached::new(none, Wants::Counts, tallies.clone(), subscription, policy, text);
        attached.growth = Some(Growth::default());
        let number = self.place(attached);
        self.growing = Some(number);
        if let Some(provider) = self.registry.provider() {
            provider.begin_growing(Arc::clone(subscription), tallies);
        }
        let all = self.registry.discovered().to_vec();
        Ok((number, self.adopt(&all)))
    }
}
