//! Operations of the control for the provider of call sites.

use std::sync::Arc;

use super::attached::{Attached, Growth};
use super::attachment::Attachment;
use super::garbage::Garbage;
use super::lock::operate;
use super::policy::Policy;
use super::ready;
use super::retired::settle;
use super::state::Control;
use super::untyped::Untyped;
use super::{Consumer, HeldText, Wants};
use crate::dispatch::{Awaited, Era, Subscription};
use crate::error::Error;
use crate::os::objects::KeptLoaded;
use crate::patch::{Report, Visibility};
use crate::registry::ProbeInfo;
use crate::registry::provider::{CallSite, Provider};

/// Returns the probe of a call site, as it is now.
pub(crate) fn probe_of(call: &'static dyn CallSite) -> Option<ProbeInfo> {
    operate(|control, _| control.info(call.probe()?))
}

/// Returns all discovered call sites of loaded objects, with their probes.
pub(crate) fn discovered() -> Vec<(&'static dyn CallSite, ProbeInfo)> {
    operate(|control, _| {
        let all = control.registry.discovered().iter();
        all.filter_map(|(id, call)| Some((*call, control.info(*id)?))).collect()
    })
}

/// Attaches to all discovered probes, and to each that is discovered later. The provider must be
/// registered and noted.
pub(crate) fn attach_growing<C: Consumer>(consumer: C, capacity: usize) -> Result<Attachment<C>, Error> {
    ready::require()?;
    let consumer = Arc::new(consumer);
    let subscription = Arc::new(Subscription::new(Arc::clone(&consumer)));
    let (number, report) = operate(|control, loaded| control.begin_growing(capacity, &subscription, loaded))?;
    settle(Policy::default().visibility, None);
    let untyped = Untyped::new(number, subscription, report, Policy::default());
    Ok(Attachment::new(consumer, untyped))
}

/// Stops adding probes to the growing attachment. Returns whether it is certain that no thread is
/// about to give a probe one of its counters; inside a hit it is not.
pub(crate) fn end_growing() -> bool {
    operate(|control, _| {
        if let Some(growing) = control.registry.provider().and_then(Provider::end_growing) {
            control.limbo.retire(Era::UNKNOWN, Garbage::Provider(growing));
        }
    });
    settle(Visibility::Synchronous, Some(Awaited::Passing)).is_some()
}

/// Lists new probes, as every operation does, and does nothing else.
pub(crate) fn list_discovered() {
    operate(|_, _| ());
}

impl Control {
    fn begin_growing(
        &mut self,
        capacity: usize,
        subscription: &Arc<Subscription>,
        loaded: KeptLoaded<'_>,
    ) -> Result<(usize, Report), Error> {
        let provider = self.registry.provider().expect("`start` has registered the provider");
        if provider.is_growing() {
            return Err(Error::Growing);
        }
        let counters =
            self.attachments.counters.take(capacity).ok_or(Error::OutOfCounters { wanted: capacity })?;
        provider.begin_growing(Arc::clone(subscription), counters.clone());
        let (none, policy, text) = (Arc::default(), Policy::default(), HeldText::new());
        let mut attached = Attached::new(none, Wants::Counts, counters, subscription, policy, text);
        attached.growth = Some(Growth::default());
        let number = self.attachments.place(attached, self.limbo.now());
        self.attachments.set_growing(number);
        let all = self.registry.discovered().to_vec();
        Ok((number, self.adopt(&all, loaded)))
    }
}
