//! Attaches all that a text asks for: the consumers, and then the triggers.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use super::Format;
use super::parse::Asked;
use super::request::Listening;
use super::trigger::{Selected, Triggers};
use super::writes::Writes;
use crate::engine::error::Error;
use crate::engine::sites::UnmatchedTerm;

/// The attached consumers and triggers of a text.
pub(crate) struct AttachedText {
    /// The consumers, each with its place among the requests.
    pub(crate) consumers: Vec<(usize, Listening)>,
    pub(crate) triggers: Triggers,
    /// Terms of the triggers' selectors that match no probe.
    pub(crate) unmatched: Vec<UnmatchedTerm>,
}

pub(crate) struct ReportFiles {
    /// In the order of the requests, each with an ending.
    pub(crate) files: Vec<PathBuf>,
    #[cfg_attr(not(feature = "trace"), expect(dead_code, reason = "snapshots have it"))]
    pub(crate) format: Format,
}

/// Takes a request that can't be attached, and the reason.
pub(super) type Failed<'a> = &'a mut dyn FnMut(&dyn Display, Error) -> Result<(), Error>;

/// Returns the name of a consumer's report where nobody has chosen one.
pub(crate) fn own_file(program: &str, process: u32, number: usize, consumer: &str) -> String {
    format!("{program}-{process}-{number}-{consumer}.txt")
}

impl Asked<'_> {
    /// Attaches all. `writes` returns the further files that a consumer may write, by the file of
    /// its report. Calls `failed` with each request that can't be attached; if that returns an
    /// error, nothing stays attached.
    pub(crate) fn attach(
        &self,
        reports: &ReportFiles,
        writes: &dyn Fn(&Path) -> Writes<'_>,
        failed: Failed<'_>,
    ) -> Result<AttachedText, Error> {
        let mut attached =
            AttachedText { consumers: Vec::new(), triggers: Triggers::default(), unmatched: Vec::new() };
        let selected = self.selected(failed)?;
        let more: Vec<_> = selected.iter().flat_map(Selected::more).copied().collect();
        for ((at, request), report) in self.requests.iter().enumerate().zip(&reports.files) {
            match request.attach(writes(report), &more) {
                Ok(listening) => attached.consumers.push((at, listening)),
                Err(error) => failed(request, error)?,
            }
        }
        self.arm(selected, reports, &mut attached, failed)?;
        Ok(attached)
    }
}

impl Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<_> = self.requests.iter().map(ToString::to_string).collect();
        parts.extend(self.triggers.iter().map(ToString::to_string));
        f.write_str(&parts.join(", "))
    }
}
