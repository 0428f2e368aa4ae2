//! Sets whose hits have values of C functions.

use std::sync::Arc;

use super::ProbeSet;
use super::lock::{Control, operate};
use crate::engine::c_values::{CProbe, CSite, ValueTable, WantedFields};
use crate::engine::dispatch::{SiteValues, Subscription};
use crate::engine::registry::{ProbeId, ProbeInfo};
use crate::engine::sites::SITE_LEN;
use probe_core::abi::{Convention, Kind, Type};

impl Control {
    /// Adds the fields of a probe whose sites know their values.
    pub(super) fn with_own_fields(&self, info: ProbeInfo) -> ProbeInfo {
        let own = self.registry.calls(info.id()).iter().find_map(|call| call.own_values());
        let fields = own.iter().flat_map(|own| own.values);
        let fields: Vec<_> = fields.map(|(name, reading)| (name.clone(), Some(reading.kind.ty()))).collect();
        info.with_fields(&fields)
    }

    /// Leaves attachments no values of libraries: one has gone, and another build of it may come to
    /// the same addresses.
    pub(super) fn forget_values(&self) {
        for id in self.attachments.probes.known_probes().filter(|id| !self.registry.is_in_main(*id)) {
            for slot in self.attachments.probes.slots(id) {
                if let Some(record) = self.attachments.record(slot.attachment()) {
                    record.subscription.forget_values(id);
                }
            }
        }
    }
}

impl ProbeSet {
    /// Returns the set with the values that a consumer wants; `None` if it wants none, or no probe
    /// has any. They are looked up.
    pub(super) fn with_values(&self, wanted: WantedFields) -> Option<Self> {
        let wanted = if self.has_all_values { WantedFields::all().and(wanted) } else { wanted };
        if wanted.is_none() {
            return None;
        }
        let probes = self.c_probes();
        // Others may join.
        if probes.is_empty() && self.room == 0 {
            return None;
        }
        let table = ValueTable::new(wanted, self.numbers());
        table.add(&probes);
        Some(Self { values: Some(Arc::new(table)), ..self.clone() })
    }

    /// Looks up the values of probes that join.
    pub(super) fn read_values(&self) {
        if let Some(values) = &self.values {
            values.add(&self.c_probes());
        }
    }

    /// Lets an attachment's hits read the values. Must come before its first hook is made.
    pub(super) fn give_values(&self, subscription: &Subscription) {
        if let Some(values) = &self.values {
            subscription.set_values(Arc::clone(values) as Arc<dyn SiteValues>);
        }
    }

    /// Returns the fields that hits of a probe have, although its sites pass none.
    pub(crate) fn site_fields(&self, probe: ProbeId) -> &[(String, Option<Type>)] {
        self.values.as_ref().map_or(&[], |values| values.fields(probe))
    }

    pub(super) fn with_site_fields(&self, info: ProbeInfo) -> ProbeInfo {
        let id = info.id();
        info.with_fields(self.site_fields(id))
    }

    /// Returns the entries and exits of C functions without fields.
    fn c_probes(&self) -> Vec<CProbe> {
        operate(|control, loaded| {
            let probe = |id: &ProbeId| {
                let definition = control.registry.definition(*id, loaded)?;
                let (kind, convention) = (definition.kind(), definition.convention());
                let is_of_c =
                    matches!(convention, Convention::Hidden | Convention::Call | Convention::Wrapped)
                        && matches!(kind, Kind::Entry | Kind::Exit)
                        && definition.field_count() == 0;
                let is_hook = convention == Convention::Call;
                let sites = || {
                    let own = [*id];
                    let calls = control.registry.calls_of(&own);
                    let calls = calls
                        .filter_map(|call| Some(CSite { addr: call.site()?.addr.0, after: call.after()? }));
                    let sites = control.registry.sites(*id).iter().map(|site| site.addr.0);
                    sites.map(|addr| CSite { addr, after: addr + SITE_LEN }).chain(calls).collect()
                };
                let own = || control.registry.calls(*id).iter().find_map(|call| call.own_values());
                is_of_c.then(|| CProbe { id: *id, kind, is_hook, sites: sites(), own: own() })
            };
            self.ids.iter().filter_map(probe).collect()
        })
    }
}
