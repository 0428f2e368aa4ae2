//! One consumer of a text, and its attachment.

use std::fmt;
use std::sync::Arc;

use super::made::{Made, made_of};
use super::reported::Reported;
use super::table::ConsumerRow;
use super::writes::Writes;
use crate::engine::control::standing;
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;
use crate::engine::sites::{TextPolicy, UnmatchedTerm};
use probe_lang::expression::Predicate;

/// A consumer for the probes of a selector.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) selector: &'a str,
    pub(crate) row: &'static ConsumerRow,
    /// The text in parentheses after the consumer's name.
    pub(crate) options: Option<&'a str>,
    /// The byte where the consumer stands.
    #[cfg_attr(not(probe_agent), expect(dead_code, reason = "what a client may not ask for points there"))]
    pub(super) at: usize,
    /// Whether triggers may take snapshots of it.
    pub(super) is_recorder: bool,
    /// The text in brackets after the selector.
    pub(super) predicate: Option<&'a str>,
    /// The text of the consumer, if it is an aggregation.
    pub(super) aggregation: Option<&'a str>,
}

/// A consumer that is attached.
pub(crate) struct Listening {
    pub(crate) reported: Arc<dyn Reported>,
    /// Terms of the selector that match no probe.
    pub(crate) unmatched: Arc<[UnmatchedTerm]>,
    /// Whether the selector matches any probe yet.
    pub(crate) has_probes: bool,
    /// How its sites are written.
    #[cfg_attr(not(feature = "trace"), expect(dead_code, reason = "triggers have it, too"))]
    pub(super) text: TextPolicy,
}

impl Request<'_> {
    fn made(&self) -> Result<(Made, TextPolicy), Error> {
        // `asked` has read them, but a consumer may change its mind.
        let made = match self.aggregation {
            Some(aggregation) => made_of(aggregation).map(|made| (made, TextPolicy::default())),
            None => self.row.read(self.options),
        };
        made.map_err(|error| Error::Consumer(error.into()))
    }

    /// Checks that a client may attach it without a file.
    #[cfg(probe_agent)]
    pub(super) fn check_confined(&self) -> Result<(), Error> {
        self.made()?.0.confined
    }

    /// Attaches the consumer to the probes. Its reports go to the file, if one is given. A recorder
    /// also has the probes that triggers attach for a while, which are off at first.
    pub(super) fn attach(&self, writes: Writes<'_>, more: &[ProbeId]) -> Result<Listening, Error> {
        let (made, text) = self.made()?;
        let set = standing(self.selector)?;
        #[cfg(probe_agent)]
        let set = if matches!(writes, Writes::Only(_)) { set.of_parent() } else { set };
        let (unmatched, has_probes) = (set.unmatched(), !set.is_empty());
        let predicate = self.predicate.map(str::parse::<Predicate>).transpose();
        let predicate = predicate.map_err(|error| Error::Consumer(error.into()))?;
        let reported = (made.attach)(&set.text_policy(text), writes, more, predicate.as_ref())?;
        Ok(Listening { reported, unmatched, has_probes, text })
    }
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.selector)?;
        if let Some(predicate) = self.predicate {
            write!(f, "[{predicate}]")?;
        }
        if let Some(aggregation) = self.aggregation {
            return write!(f, "={aggregation}");
        }
        write!(f, "={}", self.row.name)?;
        self.options.map_or(Ok(()), |options| write!(f, "({options})"))
    }
}
