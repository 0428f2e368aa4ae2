//! Findings of an audit.

use serde::Serialize;

/// Findings that are kept; the others are counted.
const SHOWN: usize = 1000;

/// Something that is wrong with a site, or with a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The site's address; `None` for a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<u64>,
    /// The problem and its consequence.
    pub problem: String,
}

/// The findings of a file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Findings {
    /// The first ones.
    pub shown: Vec<Finding>,
    /// The number of all.
    pub count: u64,
}

impl Findings {
    /// Adds a finding. Its description is made only if it is kept.
    pub(super) fn add(&mut self, site: Option<u64>, describe: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(Finding { site, problem: describe() });
        }
    }
}
