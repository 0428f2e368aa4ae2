//! The outcome of a batch: its switched sites, its refusals, and the selector's terms that named no
//! probe.

use std::fmt;
use std::sync::Arc;

use super::access::ALIAS_WORKS;
use super::{Refusal, TextPolicy};
#[cfg(probe_backend = "patched")]
use super::{RefusalReason, SiteAddr};

/// The number of refusals that are kept in full; the others are only counted.
const MAX_KEPT_REFUSALS: usize = 64;

/// A hint that is printed once, for any number of sites that a policy protects.
const POLICY_HINT: &str =
    "\n  the text may be sealed (mseal), or a policy forbids to change the protection of code";

/// The outcome of one batch.
///
/// ```
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn deliver() {}
///
/// let hits = select("**::deliver")?.attach(Count::new())?;
/// let report = hits.report();
/// deliver();
/// assert!(report.is_complete(), "{report}");
/// assert_eq!((report.patched() + report.unchanged(), report.refused()), (2, 0)); // entry and exit
/// assert_eq!(report.unsealed(), 0);
/// // Where a policy forbids writable code, this is how to attach instead.
/// if let Some(text) = report.alternative() {
///     println!("attach with {text:?}");
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Report {
    patched: usize,
    unchanged: usize,
    // Apart, so that the report of a toggle that succeeds is three words.
    details: Option<Box<ReportDetails>>,
}

/// The part of a report beyond the numbers of switched and unchanged sites.
#[derive(Clone, Default, Debug)]
struct ReportDetails {
    refused: usize,
    unsealed: usize,
    refusals: Vec<Refusal>,
    /// Whether [`TextPolicy::Alias`] works; `None` before a trial.
    alias_works: Option<bool>,
    unmatched: Arc<[UnmatchedTerm]>,
    foreign: Vec<Refusal>,
    /// Refused sites that no other writer has changed.
    #[cfg(probe_backend = "patched")]
    unswitched: Vec<SiteAddr>,
}

impl Report {
    /// Returns the number of sites that were switched.
    pub fn patched(&self) -> usize {
        self.patched
    }

    /// Returns the number of sites that already were as wanted.
    pub fn unchanged(&self) -> usize {
        self.unchanged
    }

    /// Returns the number of sites that should have been switched but were left unchanged.
    pub fn refused(&self) -> usize {
        self.details().map_or(0, |details| details.refused)
    }

    /// Returns the first 64 refusals, with their reasons.
    pub fn refusals(&self) -> &[Refusal] {
        self.details().map_or(&[], |details| &details.refusals)
    }

    /// Returns the number of runs of pages that were opened and that the system did not let this
    /// crate seal again. Their text is still writable.
    pub fn unsealed(&self) -> usize {
        self.details().map_or(0, |details| details.unsealed)
    }

    /// Returns the terms of the selector that named no probe when the set was selected, in their
    /// order. Excluding terms are among them. Only
    /// [`Attachment::report`](crate::Attachment::report) has these; other reports have none.
    ///
    /// ```
    /// use probe_runtime::{Count, select};
    /// #[probe_runtime::probe]
    /// fn handle() {}
    /// handle();
    /// let hits = select("**::handle, **::acept")?.attach(Count::new())?;
    /// assert_eq!(hits.report().unmatched().len(), 1);
    /// assert_eq!(hits.report().unmatched()[0].term(), "**::acept");
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn unmatched(&self) -> &[UnmatchedTerm] {
        self.details().map_or(&[], |details| &details.unmatched)
    }

    #[inline(always)]
    fn details(&self) -> Option<&ReportDetails> {
        self.details.as_deref()
    }

    fn details_mut(&mut self) -> &mut ReportDetails {
        self.details.get_or_insert_default()
    }

    pub(crate) fn set_unmatched(&mut self, unmatched: &Arc<[UnmatchedTerm]>) {
        if !unmatched.is_empty() {
            self.details_mut().unmatched = Arc::clone(unmatched);
        }
    }

    /// Returns the text policy to use instead: [`TextPolicy::Alias`], if the system forbids writing
    /// to pages and a trial has shown that this policy works; otherwise `None`.
    pub fn alternative(&self) -> Option<TextPolicy> {
        self.details().filter(|details| details.alias_works == Some(true)).map(|_| TextPolicy::Alias)
    }

    /// Returns the sites that another writer has changed since this crate left them. Hits may have
    /// been lost there. A site that holds neither its NOP nor its jump or call is also among the
    /// [refusals](Self::refusals). All other sites are as wanted by now.
    ///
    /// ```
    /// # use probe_runtime::{Count, point, select};
    /// # fn work() { point!("left"); }
    /// # work();
    /// let hits = select("**::left")?.attach(Count::new())?;
    /// let report = hits.pause();
    /// assert!(report.foreign().is_empty(), "{report}");
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn foreign(&self) -> &[Refusal] {
        self.details().map_or(&[], |details| &details.foreign)
    }

    /// Returns whether every site is as wanted, and all text is sealed again.
    pub fn is_complete(&self) -> bool {
        self.refused() == 0 && self.unsealed() == 0
    }

    fn names_a_policy(&self) -> bool {
        self.refusals().iter().any(|refusal| refusal.reason.is_policy())
    }

    pub(crate) fn add_patched(&mut self, sites: usize) {
        self.patched += sites;
    }

    pub(crate) fn add_unchanged(&mut self, sites: usize) {
        self.unchanged += sites;
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        #[cfg(probe_backend = "patched")]
        match refusal.reason {
            RefusalReason::Foreign { .. } => self.add_foreign(refusal.clone()),
            _ => self.details_mut().unswitched.push(refusal.site),
        }
        let details = self.details_mut();
        details.refused += 1;
        if details.refusals.len() < MAX_KEPT_REFUSALS {
            details.refusals.push(refusal);
        }
    }
}

#[cfg(probe_backend = "patched")]
impl Report {
    /// Tries once whether there is an alternative, if the refusals call for one.
    #[cold]
    pub(crate) fn seek_alternative(&mut self, alias_works: impl FnOnce() -> bool) {
        if self.names_a_policy() {
            self.details_mut().alias_works.get_or_insert_with(alias_works);
        }
    }

    pub(crate) fn add_unsealed(&mut self) {
        self.details_mut().unsealed += 1;
    }

    pub(crate) fn add_foreign(&mut self, stray: Refusal) {
        let foreign = &mut self.details_mut().foreign;
        if foreign.len() < MAX_KEPT_REFUSALS {
            foreign.push(stray);
        }
    }

    pub(crate) fn unswitched(&self) -> &[SiteAddr] {
        self.details().map_or(&[], |details| &details.unswitched)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unmatched = unmatched_lines(self.unmatched());
        if self.patched + self.unchanged + self.refused() == 0 {
            // Numbers of nothing tell nothing.
            return match unmatched.next() {
                Some(first) => {
                    write!(f, "{first}")?;
                    unmatched.try_for_each(|line| write!(f, "\n  {line}"))
                }
                None => f.write_str("no sites"),
            };
        }
        write!(f, "{} patched, {} unchanged, {} refused", self.patched, self.unchanged, self.refused())?;
        if self.unsealed() != 0 {
            write!(f, ", {} runs of pages left writable", self.unsealed())?;
        }
        for refusal in self.refusals() {
            write!(f, "\n  {refusal}")?;
        }
        let refused = |stray: &&Refusal| self.refusals().iter().any(|refusal| refusal.site == stray.site);
        for stray in self.foreign().iter().filter(|stray| !refused(stray)) {
            write!(f, "\n  {stray}; it is as wanted now")?;
        }
        let more = self.refused() - self.refusals().len();
        if more != 0 {
            write!(f, "\n  and {more} more")?;
        }
        if self.names_a_policy() {
            f.write_str(POLICY_HINT)?;
        }
        if self.alternative().is_some() {
            write!(f, "; {ALIAS_WORKS}")?;
        }
        unmatched.try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The number of unmatched terms that are printed; the others are only counted.
const MAX_SHOWN_TERMS: usize = 8;

/// A term that named no probe, while other terms of its selector did.
///
/// ```
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn dispatch() {}
///
/// let hits = select("**::dispatch, **::dispach")?.attach(Count::new())?;
/// let [unmatched] = hits.report().unmatched() else { panic!("one term has a typing error") };
/// assert_eq!(unmatched.term(), "**::dispach");
/// println!("{unmatched}"); // says what was probably meant
/// dispatch();
/// assert_eq!(hits.total(), 2);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnmatchedTerm {
    term: String,
    problem: Option<String>,
}

impl UnmatchedTerm {
    pub(crate) fn new(term: String, problem: Option<String>) -> Self {
        Self { term, problem }
    }

    /// Returns the term as it was written, without its `!`.
    pub fn term(&self) -> &str {
        &self.term
    }
}

/// Prints why the term names no probe. The first three terms of a selector also suggest a
/// correction.
impl fmt::Display for UnmatchedTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Some(problem) => f.write_str(problem),
            None => write!(f, "no probe matches `{}`", self.term),
        }
    }
}

/// Returns one line for each of the first terms, and one line that counts the others.
pub(crate) fn unmatched_lines(terms: &[UnmatchedTerm]) -> impl Iterator<Item = String> {
    let more = terms.len().saturating_sub(MAX_SHOWN_TERMS);
    let more = (more != 0).then(|| format!("and {more} more terms match no probe"));
    terms.iter().take(MAX_SHOWN_TERMS).map(ToString::to_string).chain(more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sites::{RefusalReason, SiteAddr};

    #[test]
    fn keeps_the_first_refusals_and_counts_the_rest() {
        let mut report = Report::default();
        report.add_patched(2);
        for site in 0..100 {
            report.refuse(Refusal::new(SiteAddr(site), RefusalReason::Busy));
        }
        assert_eq!((report.refused(), report.refusals().len()), (100, MAX_KEPT_REFUSALS));
        assert!(!report.is_complete());
        let text = report.to_string();
        assert!(text.starts_with("2 patched, 0 unchanged, 100 refused\n  site 0x0: somebody else"), "{text}");
        assert!(text.ends_with("and 36 more"), "{text}");
    }

    #[test]
    fn what_to_do_about_a_policy_is_said_once() {
        let mut report = Report::default();
        for site in 0..2 {
            report.refuse(Refusal::new(SiteAddr(site), RefusalReason::Protected { errno: 1 }));
        }
        assert_eq!(report.to_string().matches("may be sealed").count(), 1);
        let mut report = Report::default();
        report.refuse(Refusal::new(SiteAddr(0), RefusalReason::Protected { errno: 12 }));
        assert_eq!(report.to_string().matches("may be sealed").count(), 0);
    }

    #[test]
    #[cfg(probe_backend = "patched")]
    fn an_alternative_is_promised_only_where_it_was_found_to_work() {
        let refused = |errno| {
            let mut report = Report::default();
            report.refuse(Refusal::new(SiteAddr(0), RefusalReason::Protected { errno }));
            report
        };
        let (mut works, mut fails, mut needless) = (refused(1), refused(13), refused(12));
        assert_eq!((works.alternative(), works.to_string().contains("TextPolicy::Alias")), (None, false));
        works.seek_alternative(|| true);
        works.seek_alternative(|| unreachable!("tried once"));
        fails.seek_alternative(|| false);
        needless.seek_alternative(|| unreachable!("memory is short"));
        assert_eq!((works.alternative(), fails.alternative()), (Some(TextPolicy::Alias), None));
        let said = works.to_string();
        assert!(
            said.contains("`.text_policy(TextPolicy::Alias)`") && said.contains("`count(text=alias)`"),
            "{said}"
        );
        assert!(!fails.to_string().contains("TextPolicy::Alias"), "{fails}");
    }
}
