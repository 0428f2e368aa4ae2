//! Selector terms that named no probe.

use std::fmt;

/// The number of unmatched terms that are printed; the others are only counted.
const SHOWN_TERMS: usize = 8;

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
    let more = terms.len().saturating_sub(SHOWN_TERMS);
    let more = (more != 0).then(|| format!("and {more} more terms match no probe"));
    terms.iter().take(SHOWN_TERMS).map(ToString::to_string).chain(more)
}
