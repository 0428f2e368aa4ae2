//! Operations of the control for the provider of call sites.

use super::lock::operate;
use crate::engine::registry::ProbeInfo;
use crate::engine::registry::provider::CallSite;

/// Returns the probe of a call site, as it is now.
pub(crate) fn probe_of(call: &'static dyn CallSite) -> Option<ProbeInfo> {
    operate(|control, loaded| control.info(call.probe()?, loaded))
}

/// Returns all discovered call sites of loaded objects, with their probes.
pub(crate) fn discovered() -> Vec<(&'static dyn CallSite, ProbeInfo)> {
    operate(|control, loaded| {
        let all = control.registry.discovered().iter();
        all.filter_map(|(id, call)| Some((*call, control.info(*id, loaded)?))).collect()
    })
}
