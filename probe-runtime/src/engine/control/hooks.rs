//! The hooks that result from probes' members, and how definitions show them.

use super::attachments::{Attachments, is_paused};
use super::garbage::Garbage;
use super::parts::Part;
#[cfg(not(probe_backend = "patched"))]
use super::runs::Run;
use crate::engine::dispatch::{Action, HookBuilder, HookCapacity, Reclaimer, Unpublished};
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, ProbeState, Registry};
#[cfg(not(probe_backend = "patched"))]
use crate::engine::sites::{Mode, Report};

impl Attachments {
    /// Publishes new hooks of these probes' listeners, and retires the previous ones.
    pub(super) fn publish(
        &mut self,
        ids: &[ProbeId],
        registry: &Registry,
        reclaimer: &mut Reclaimer<Garbage>,
        loaded: KeptLoaded<'_>,
    ) {
        self.turn(ids);
        let (is_paused, now) = (is_paused(&self.all), reclaimer.now());
        let mut room = HookCapacity::default();
        for id in ids {
            let of_probe = &self.members[id.index()];
            // Most probes have one listener.
            match of_probe.sole_part(&self.parts) {
                Some(sole) => room.add(1, matches!(sole.action, Action::Wrap)),
                None => room.add(of_probe.hooked(&self.parts, &is_paused).count(), true),
            }
        }
        let mut old = Vec::new();
        let mut hooks = (room != HookCapacity::default()).then(|| HookBuilder::with_capacity(room, now));
        for &id in ids {
            let members = &mut self.members[id.index()];
            let (counter, attachments) = (self.counters.of(id), &self.all);
            let listening = |part: &Part| {
                let attached = attachments[part.attachment()].as_ref()?;
                Some((part.action, &attached.subscription, part.is_counting))
            };
            let sole = members.sole_part(&self.parts);
            let hook = if let Some(sole) = sole.filter(|sole| !matches!(sole.action, Action::Wrap)) {
                let sole = hooks.as_mut().zip(listening(sole));
                sole.map(|(hooks, sole)| hooks.add_one(id, counter, sole))
            } else {
                let parts = members.hooked(&self.parts, &is_paused);
                parts.clone().next().and_then(|_| {
                    hooks.as_mut().map(|hooks| hooks.add(id, counter, parts.filter_map(listening)))
                })
            };
            if let Some(hook) = members.publish(hook, registry.definitions(id, loaded)) {
                Unpublished::add(&mut old, hook);
            }
        }
        old.into_iter().for_each(|hooks| reclaimer.retire(hooks.since(), Garbage::Hooks(hooks)));
    }

    /// Points the definitions of these probes to their hooks.
    pub(super) fn show(&self, ids: &[ProbeId], registry: &Registry, loaded: KeptLoaded<'_>) {
        for id in ids {
            let is_visible = cfg!(probe_backend = "patched") || self.state_of(*id) == ProbeState::Active;
            self.members(*id).into_iter().for_each(|members| {
                members.show(registry.definitions(*id, loaded), is_visible);
            });
        }
    }

    /// Shows or hides the hooks of the probes in these runs, which switches them where no site is
    /// patched.
    #[cfg(not(probe_backend = "patched"))]
    pub(super) fn switch(
        &self,
        runs: &[Run],
        mode: Mode,
        registry: &Registry,
        report: &mut Report,
        loaded: KeptLoaded<'_>,
    ) {
        for id in runs.iter().cloned().flatten().map(ProbeId::new) {
            let Some(members) = self.members(id) else { continue };
            let (switched, unchanged) = members.show(registry.definitions(id, loaded), mode != Mode::Latent);
            report.add_patched(switched);
            report.add_unchanged(unchanged);
        }
    }
}
