//! The sites of probes, on backends that patch them.

use super::members::claim;
use super::runs::Run;
use super::strays::Unswitched;
use crate::engine::os::objects::{Frozen, KeptLoaded};
use crate::engine::registry::{ProbeId, Registry};
use crate::engine::sites::{Access, Batch, LastState, Mode, Refusal, RefusalReason, Report, Site};

/// All sites, and those of them that an operation could not switch.
pub(super) struct Sites<'a> {
    pub(super) registry: &'a Registry,
    pub(super) unswitched: &'a Unswitched,
    /// The objects of all sites stay loaded.
    pub(super) loaded: KeptLoaded<'a>,
}

impl Sites<'_> {
    /// Switches all sites of these runs to `mode`. `left` is the mode in which the last operation
    /// left them, if that is known.
    #[inline(always)]
    pub(super) fn switch(
        self,
        runs: &[Run],
        mode: Mode,
        access: Access,
        left: Option<Mode>,
        report: &mut Report,
    ) {
        let registry = self.registry;
        let refused_before = report.unswitched().len();
        let unswitched = self.unswitched.all();
        let has_unswitched = !unswitched.is_empty();
        let left = LastState { mode: left, but: has_unswitched.then_some(&*unswitched) };
        let mut batch = Batch::new(mode, report, self.loaded).last_state(left);
        match runs {
            _ if access == Access::Held => {
                runs.iter().for_each(|run| batch.switch(registry.sites_of_run(run), Access::Held));
            }
            [run] if registry.sites_of_run(run).is_sorted_by_key(|site| site.addr) => {
                batch.switch(registry.sites_of_run(run), access);
            }
            // Sites in ascending order let each run of pages be opened once. An inlined probe's
            // sites are scattered, and so are those of several runs.
            runs => {
                let mut sites: Vec<Site> =
                    runs.iter().flat_map(|run| registry.sites_of_run(run)).copied().collect();
                sites.sort_unstable_by_key(|site| site.addr);
                batch.switch(&sites, access);
            }
        }
        if registry.has_calls() {
            registry.switch_calls(runs, mode != Mode::Latent, access, report, self.loaded);
        }
        drop(unswitched);
        if has_unswitched || report.unswitched().len() != refused_before {
            let all = runs.iter().flat_map(|run| registry.sites_of_run(run));
            self.unswitched.remember(all, &report.unswitched()[refused_before..]);
        }
    }
}

/// Refuses these probes' sites.
pub(super) fn refuse(registry: &Registry, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
    for site in ids.iter().flat_map(|id| registry.sites(*id)) {
        report.refuse(Refusal::new(site.addr, reason.clone()));
    }
}

/// Excludes sites in new objects whose definitions another runtime has taken first.
pub(super) fn leave_taken(
    registry: &mut Registry,
    attached: &[ProbeId],
    frozen: &Frozen,
    loaded: KeptLoaded<'_>,
) {
    let definitions = |id: &ProbeId| {
        let id = *id;
        registry.definitions(id, loaded).map(move |definition| (id, definition))
    };
    let taken: Vec<_> =
        attached.iter().flat_map(definitions).filter(|(_, definition)| !claim(definition)).collect();
    if !taken.is_empty() {
        registry.cede(frozen, &taken);
    }
}

/// Reports the sites of other runtimes as refused.
pub(super) fn refuse_taken(registry: &Registry, ids: &[ProbeId], report: &mut Report) {
    for site in ids.iter().flat_map(|id| registry.owned_elsewhere(*id)) {
        report.refuse(Refusal::new(site.addr, RefusalReason::Taken));
    }
}
