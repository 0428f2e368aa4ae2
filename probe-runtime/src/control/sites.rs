//! The part of the control that deals with sites, on backends that patch them.

use std::io;
use std::ops::Range;

use super::attached::Policy;
use super::members::claim;
use super::runs::{Run, runs};
use super::state::Control;
use crate::error::Error;
use crate::os::objects::Frozen;
use crate::patch::{
    self, Access, Batch, LastState, Mode, OpenText, Refusal, RefusalReason, Report, Site, TextError,
    TextPolicy,
};
use crate::registry::ProbeId;
use crate::registry::provider::CallSite;

/// The text that an attachment or a hold keeps open.
pub(super) type HeldText = Vec<OpenText>;

impl Control {
    /// Switches all sites of these runs to `mode`. `left` is the mode in which the last operation
    /// left them, if that is known.
    #[inline(always)]
    pub(super) fn change_runs(
        &self,
        runs: &[Run],
        mode: Mode,
        access: Access,
        left: Option<Mode>,
        report: &mut Report,
    ) {
        let refused_before = report.unswitched().len();
        let unswitched = self.unswitched.borrow();
        let has_unswitched = !unswitched.is_empty();
        let left = LastState { mode: left, but: has_unswitched.then_some(&*unswitched) };
        let mut batch = Batch::new(mode, report).left(left);
        match runs {
            _ if access == Access::Held => {
                runs.iter().for_each(|run| batch.switch(self.sites_of_run(run), Access::Held));
            }
            [run] if self.sites_of_run(run).is_sorted_by_key(|site| site.addr) => {
                batch.switch(self.sites_of_run(run), access);
            }
            // Sites in ascending order let each run of pages be opened once. An inlined probe's
            // sites are scattered, and so are those of several runs.
            runs => {
                let mut sites: Vec<Site> =
                    runs.iter().flat_map(|run| self.sites_of_run(run)).copied().collect();
                sites.sort_unstable_by_key(|site| site.addr);
                batch.switch(&sites, access);
            }
        }
        if self.registry.has_calls() {
            self.registry.switch_calls(runs, mode != Mode::Latent, access, report);
        }
        drop(unswitched);
        if has_unswitched || report.unswitched().len() != refused_before {
            self.remember_unswitched(runs, &report.unswitched()[refused_before..]);
        }
    }

    #[inline]
    pub(super) fn sites_of_run(&self, run: &Run) -> &[Site] {
        self.registry.sites_of_run(ProbeId::new(*run.start()), ProbeId::new(*run.end()))
    }

    /// Opens the text of these probes, if the policy asks for it.
    pub(super) fn open_text(&self, ids: &[ProbeId], policy: Policy) -> Result<HeldText, Error> {
        if policy.text != TextPolicy::Open {
            return Ok(Vec::new());
        }
        let runs = runs(ids);
        let calls = runs.iter().flat_map(|run| self.registry.calls_of_run(run.clone()));
        let calls: Vec<Site> = calls.filter_map(CallSite::site).collect();
        let sites = || runs.iter().flat_map(|run| self.sites_of_run(run)).chain(&calls);
        let open = |text: Range<usize>| {
            OpenText::new(text.clone()).map_err(|error| {
                let is_policy =
                    matches!(error, TextError::Protected { errno: libc::EPERM | libc::EACCES, .. });
                let alternative = (is_policy && patch::alias_works()).then_some(TextPolicy::Alias);
                Error::TextProtected { text, error: io::Error::from(error), alternative }
            })
        };
        // If one can't be opened, those before it are dropped, which seals them.
        self.registry.text_of(sites).into_iter().map(open).collect()
    }

    pub(super) fn refuse(&self, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
        for site in ids.iter().flat_map(|id| self.registry.sites(*id)) {
            report.refuse(Refusal::new(site.addr, reason.clone()));
        }
    }

    /// Excludes sites in new objects whose definitions another runtime has taken first.
    pub(super) fn leave_taken(&mut self, frozen: &Frozen, attached: &[ProbeId]) {
        let definitions = |id: &ProbeId| {
            let id = *id;
            self.registry.definitions(id).map(move |definition| (id, definition))
        };
        let taken: Vec<_> =
            attached.iter().flat_map(definitions).filter(|(_, definition)| !claim(definition)).collect();
        if !taken.is_empty() {
            self.registry.leave_out(frozen, &taken);
        }
    }

    /// Reports the sites of other runtimes as refused.
    pub(super) fn refuse_taken(&self, ids: &[ProbeId], report: &mut Report) {
        for site in ids.iter().flat_map(|id| self.registry.taken(*id)) {
            report.refuse(Refusal::new(site.addr, RefusalReason::Taken));
        }
    }
}

/// Returns whether the text is still writable. Another copy of this crate may have sealed it.
pub(super) fn is_still_open(text: &HeldText) -> bool {
    text.iter().all(|segment| patch::renew(segment).is_ok())
}

/// Seals text that no other attachment holds open.
pub(super) fn close_text(text: HeldText, report: &mut Report) {
    for segment in text {
        if segment.close().is_err() {
            report.add_unsealed();
        }
    }
}

/// Forgets that these address ranges were open. The same object may have been loaded there again,
/// sealed, or the program may use the range for something else by now.
pub(super) fn forget_unloaded_text(unloaded: &[Range<usize>]) {
    patch::forget_gone(unloaded);
}
