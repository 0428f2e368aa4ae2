//! The part of the control that knows of sites, where they are patched.

use std::ops::Range;

use super::state::{Control, Policy};
use super::switch::Run;
use crate::error::Error;
use crate::patch::{Batch, Refusal, RefusalReason, Report, Site, SiteState, TextPolicy};
use crate::registry::ProbeId;

impl Control {
    /// Makes all sites of these runs active or latent. `is_open` says that all their text is known to be open.
    pub(super) fn switch_runs(&self, runs: &[Run], active: bool, is_open: bool, report: &mut Report) {
        let wanted = if active { SiteState::Active } else { SiteState::Latent };
        let mut batch = Batch::new(wanted, &self.open, report);
        for run in runs {
            let sites = self.registry.sites_of_run(ProbeId::new(*run.start()), ProbeId::new(*run.end()));
            if is_open { batch.write(sites) } else { batch.switch(sites) }
        }
    }

    /// Lets the text of these probes stay writable, where the policy asks for it.
    pub(super) fn open_text(&mut self, ids: &[ProbeId], policy: Policy) -> Result<Vec<Range<usize>>, Error> {
        if policy.text == TextPolicy::Sealed {
            return Ok(Vec::new());
        }
        let sites: Vec<Site> = ids.iter().flat_map(|id| self.registry.sites(*id)).copied().collect();
        let text = self.registry.text_of(&sites);
        for (at, segment) in text.iter().enumerate() {
            if let Err(error) = self.open.open(segment) {
                self.close_text(&text[..at], &mut Report::default());
                return Err(Error::TextProtected { text: segment.clone(), error });
            }
        }
        Ok(text)
    }

    pub(super) fn close_text(&mut self, text: &[Range<usize>], report: &mut Report) {
        for segment in text {
            if self.open.close(segment).is_err() {
                report.add_unsealed();
            }
        }
    }

    pub(super) fn forget_unloaded_text(&mut self) {
        // What was unloaded may have been loaded again at the same place, sealed.
        self.open.retain(|pages| self.registry.is_main_text(pages));
    }

    pub(super) fn refuse(&self, ids: &[ProbeId], reason: &RefusalReason, report: &mut Report) {
        for site in ids.iter().flat_map(|id| self.registry.sites(*id)) {
            report.refuse(Refusal::new(site.addr, reason.clone()));
        }
    }
}
