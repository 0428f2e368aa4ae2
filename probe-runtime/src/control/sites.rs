//! The part of the control that knows of sites, where they are patched.

use std::io;
use std::ops::Range;

use super::attached::Policy;
use super::members::claim;
use super::state::Control;
use super::switch::{Run, runs};
use crate::error::Error;
use crate::os::objects::Frozen;
use crate::patch::{
    self, Access, Batch, Left, Mode, OpenText, Refusal, RefusalReason, Report, Site, TextError, TextPolicy,
};
use crate::registry::ProbeId;
use crate::registry::provider::CallSite;

/// The text that an attachment or a hold keeps open.
pub(super) type HeldText = Vec<OpenText>;

impl Control {
    /// Makes all sites of these runs what the mode says. `left` is how the last operation left them,
    /// if that is known.
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
        let left = Left { mode: left, but: has_unswitched.then_some(&*unswitched) };
        let mut batch = Batch::new(mode, report).left(left);
        match runs {
            _ if access == Access::Held => {
                runs.iter().for_each(|run| batch.switch(self.sites_of_run(run), Access::Held));
            }
            [run] if self.sites_of_run(run).is_sorted_by_key(|site| site.addr) => {
                batch.switch(self.sites_of_run(run), access);
            }
            // Each run of pages is opened once if its sites stand together. Those of one probe lie
            // apart where it was inlined, those of several runs wherever they are.
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

    /// Lets the text of these probes stay writable, where the policy asks for it.
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
        // Where one can't be opened, those before it are dropped, and so sealed.
        self.registry.text_of(sites).into_iter().map(open).collect()
    }

    pub(super) fn refuse(&self, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
        for site in ids.iter().flat_map(|id| self.registry.sites(*id)) {
            report.refuse(Refusal::new(site.addr, reason.clone()));
        }
    }

    /// Leaves sites in new objects alone whose definitions another runtime was the first to take.
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

    /// Refuses the sites that are left to other runtimes.
    pub(super) fn refuse_taken(&self, ids: &[ProbeId], report: &mut Report) {
        for site in ids.iter().flat_map(|id| self.registry.taken(*id)) {
            report.refuse(Refusal::new(site.addr, RefusalReason::Taken));
        }
    }
}

/// Whether it can be written, as when it was opened: another copy of this crate may have sealed it.
pub(super) fn is_still_open(text: &HeldText) -> bool {
    text.iter().all(|segment| patch::renew(segment).is_ok())
}

/// Seals text, as far as nobody else holds it open.
pub(super) fn close_text(text: HeldText, report: &mut Report) {
    for segment in text {
        if segment.close().is_err() {
            report.add_unsealed();
        }
    }
}

/// What was unloaded may have been loaded again at the same place, sealed, or its place may be the
/// program's own by now.
pub(super) fn forget_unloaded_text(unloaded: &[Range<usize>]) {
    patch::forget_gone(unloaded);
}
