//! Opening the text of an attachment or a hold, and sealing it again. Its objects stay loaded
//! meanwhile, since the program may map pages of its own in the place of one that is gone.

use std::io;
use std::ops::Range;

use super::policy::Policy;
use super::runs::runs;
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::provider::CallSite;
use crate::engine::registry::{ProbeId, Registry};
use crate::engine::sites::{self, OpenText, Report, Site, TextError, TextPolicy};

/// The text that an attachment or a hold keeps open.
pub(super) type HeldText = Vec<OpenText>;

/// Opens the text of these probes, if the policy asks for it.
pub(super) fn open_text(
    registry: &Registry,
    ids: &[ProbeId],
    policy: Policy,
    _loaded: KeptLoaded<'_>,
) -> Result<HeldText, Error> {
    if policy.text != TextPolicy::Open {
        return Ok(Vec::new());
    }
    let runs = runs(ids);
    let calls = runs.iter().flat_map(|run| registry.calls_of_run(run.clone()));
    let calls: Vec<Site> = calls.filter_map(CallSite::site).collect();
    let sites = || runs.iter().flat_map(|run| registry.sites_of_run(run)).chain(&calls);
    let open = |text: Range<usize>| {
        OpenText::new(text.clone()).map_err(|error| {
            let is_policy = matches!(error, TextError::Protected { errno: libc::EPERM | libc::EACCES, .. });
            let alternative = (is_policy && sites::alias_works()).then_some(TextPolicy::Alias);
            Error::TextProtected { text, error: io::Error::from(error), alternative }
        })
    };
    // If one can't be opened, those before it are dropped, which seals them.
    registry.text_of(sites).into_iter().map(open).collect()
}

/// Returns whether the text is still writable. Another copy of this crate may have sealed it.
pub(super) fn is_still_open(text: &HeldText, _loaded: KeptLoaded<'_>) -> bool {
    text.iter().all(|segment| sites::renew(segment).is_ok())
}

/// Seals text that no other attachment holds open.
pub(super) fn close_text(text: HeldText, report: &mut Report, _loaded: KeptLoaded<'_>) {
    for segment in text {
        if segment.close().is_err() {
            report.add_unsealed();
        }
    }
}

/// Forgets that these address ranges were open. The same object may have been loaded there again,
/// sealed, or the program may use the range for something else by now.
pub(super) fn forget_unloaded_text(unloaded: &[Range<usize>]) {
    sites::forget_gone(unloaded);
}
