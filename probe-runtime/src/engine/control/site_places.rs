//! Finds where the sites of an attachment's probes are in machine code.

use std::ops::Range;

use super::lock::lock;
use super::switch::Switch;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::objects::{self, Generation};
use crate::engine::registry::ProbeId;

/// A site in machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SitePlace {
    pub(crate) addr: usize,
    pub(crate) probe: ProbeId,
    /// The machine function around it.
    pub(crate) around: Range<usize>,
}

impl Switch {
    /// Returns the sites of these probes that lie in functions with tables for unwinding, by their
    /// addresses. They are as they are while no object is loaded or unloaded: as of this
    /// [generation](code_generation).
    pub(crate) fn places(probes: &[ProbeId]) -> (Generation, Vec<SitePlace>) {
        let mut probes = probes.to_vec();
        probes.sort_unstable();
        let mut locked = lock();
        let _whole = Uncancellable::new();
        locked.registry.name_pending();
        objects::freeze(|frozen| {
            locked.refresh(frozen);
            let registry = &locked.registry;
            let linked =
                probes.iter().flat_map(|id| registry.sites(*id).iter().map(move |site| (site.addr.0, *id)));
            let calls = registry.calls_of(&probes);
            let calls = calls.filter_map(|call| Some((call.site()?.addr.0, call.probe()?)));
            let mut sites: Vec<_> = linked.chain(calls).collect();
            sites.sort_unstable();
            sites.dedup();
            let addrs: Vec<_> = sites.iter().map(|(addr, _)| *addr).collect();
            let around = frozen.functions_around(&addrs);
            let place =
                |((addr, probe), around): (_, Option<_>)| Some(SitePlace { addr, probe, around: around? });
            (frozen.generation(), sites.into_iter().zip(around).filter_map(place).collect())
        })
    }
}

/// Returns how often objects were loaded and unloaded. Cost: some 50 ns.
pub(crate) fn code_generation() -> Generation {
    objects::freeze(objects::Frozen::generation)
}
