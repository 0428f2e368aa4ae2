//! What a batch did, and what it refused to do.

use std::fmt;
use std::sync::Arc;

use super::text::ALIAS_WORKS;
use super::{Instruction, SITE_LEN, SiteAddr, TextPolicy};

/// How many refusals are kept in full; the rest is counted.
const KEPT: usize = 64;

/// How many terms that name nothing are shown.
const SHOWN_TERMS: usize = 8;

/// Said once, however many sites there are.
const POLICY: &str =
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
    refused: usize,
    unsealed: usize,
    refusals: Vec<Refusal>,
    /// Once that was tried.
    alias_works: Option<bool>,
    // No empty one: making such, and dropping it, is a locked instruction each, on a counter that all threads share.
    unmatched: Option<Arc<[UnmatchedTerm]>>,
    foreign: Vec<Refusal>,
    /// Sites that are not as wanted, though nobody else holds them.
    #[cfg(probe_backend = "x86_64")]
    unswitched: Vec<SiteAddr>,
}

/// A term of a selector that named nothing, where others did.
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

    /// The term, as it was written, without its `!`.
    pub fn term(&self) -> &str {
        &self.term
    }
}

/// Why it names nothing, and of the first three of a selector, what was probably meant.
impl fmt::Display for UnmatchedTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Some(problem) => f.write_str(problem),
            None => write!(f, "no probe matches `{}`", self.term),
        }
    }
}

impl Report {
    /// Sites that were switched.
    pub fn patched(&self) -> usize {
        self.patched
    }

    /// Sites that were as wanted.
    pub fn unchanged(&self) -> usize {
        self.unchanged
    }

    /// Sites that were left as they are, though they should have been switched.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Why: the first 64 of the refusals.
    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    /// Runs of pages that the system let be opened, but not be sealed again: their text is still writable.
    pub fn unsealed(&self) -> usize {
        self.unsealed
    }

    /// The terms of the selector that named no probe when the set was selected, in their order; excluding terms, too. Only in
    /// [`Attachment::report`](crate::Attachment::report).
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
        self.unmatched.as_deref().unwrap_or_default()
    }

    pub(crate) fn set_unmatched(&mut self, unmatched: &Arc<[UnmatchedTerm]>) {
        self.unmatched = (!unmatched.is_empty()).then(|| Arc::clone(unmatched));
    }

    /// The text policy to ask for instead, where the system does not let pages be written, and this one was tried and found to work:
    /// [`TextPolicy::Alias`].
    pub fn alternative(&self) -> Option<TextPolicy> {
        self.alias_works.is_some_and(|works| works).then_some(TextPolicy::Alias)
    }

    /// Sites that were not as they were left: somebody else has written there since, and hits may have been lost. Those that hold
    /// neither their NOP nor their jump or call are [refused](Self::refusals), too; the others are as wanted by now.
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
        &self.foreign
    }

    /// Whether every site is as wanted, and all text is sealed as it should be.
    pub fn is_complete(&self) -> bool {
        self.refused == 0 && self.unsealed == 0
    }

    /// Tries, once, whether there is an alternative, if one may be needed.
    #[cfg(probe_backend = "x86_64")]
    #[cold]
    pub(crate) fn seek_alternative(&mut self, alias_works: impl FnOnce() -> bool) {
        if self.alias_works.is_none() && self.names_a_policy() {
            self.alias_works = Some(alias_works());
        }
    }

    fn names_a_policy(&self) -> bool {
        self.refusals.iter().any(|refusal| refusal.reason.is_policy())
    }

    #[cfg(probe_backend = "x86_64")]
    pub(crate) fn add_unsealed(&mut self) {
        self.unsealed += 1;
    }

    pub(crate) fn add_patched(&mut self, sites: usize) {
        self.patched += sites;
    }

    pub(crate) fn add_unchanged(&mut self, sites: usize) {
        self.unchanged += sites;
    }

    #[cfg(probe_backend = "x86_64")]
    pub(crate) fn add_foreign(&mut self, strays: impl IntoIterator<Item = Refusal>) {
        let room = KEPT - self.foreign.len();
        self.foreign.extend(strays.into_iter().take(room));
    }

    #[cfg(probe_backend = "x86_64")]
    pub(crate) fn unswitched(&self) -> &[SiteAddr] {
        &self.unswitched
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.refused += 1;
        #[cfg(probe_backend = "x86_64")]
        if !matches!(refusal.reason, RefusalReason::Foreign { .. }) {
            self.unswitched.push(refusal.site);
        }
        if self.refusals.len() < KEPT {
            self.refusals.push(refusal);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} patched, {} unchanged, {} refused", self.patched, self.unchanged, self.refused)?;
        if self.unsealed != 0 {
            write!(f, ", {} runs of pages left writable", self.unsealed)?;
        }
        for refusal in &self.refusals {
            write!(f, "\n  {refusal}")?;
        }
        let refused = |stray: &&Refusal| self.refusals.iter().any(|refusal| refusal.site == stray.site);
        for stray in self.foreign.iter().filter(|stray| !refused(stray)) {
            write!(f, "\n  {stray}; it is as wanted now")?;
        }
        let more = self.refused - self.refusals.len();
        if more != 0 {
            write!(f, "\n  and {more} more")?;
        }
        if self.names_a_policy() {
            f.write_str(POLICY)?;
        }
        if self.alternative().is_some() {
            write!(f, "; {ALIAS_WORKS}")?;
        }
        unmatched_lines(self.unmatched()).try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The first of these terms, a line each, and how many more there are.
pub(crate) fn unmatched_lines(terms: &[UnmatchedTerm]) -> impl Iterator<Item = String> {
    let more = terms.len().saturating_sub(SHOWN_TERMS);
    let more = (more != 0).then(|| format!("and {more} more terms match no probe"));
    terms.iter().take(SHOWN_TERMS).map(ToString::to_string).chain(more)
}

/// One site that was left as it is.
///
/// ```
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn respond() {}
///
/// let hits = select("**::respond")?.attach(Count::new())?;
/// for refusal in hits.report().refusals() {
///     println!("site {:#x} was left alone: {:?}", refusal.site(), refusal.reason());
/// }
/// respond();
/// assert_eq!((hits.report().refused(), hits.total()), (0, 2));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    site: SiteAddr,
    reason: RefusalReason,
}

/// Why a site was left as it is.
///
/// ```
/// use probe_runtime::{Count, RefusalReason, probe, select};
///
/// #[probe]
/// fn archive() {}
///
/// let hits = select("**::archive")?.attach(Count::new())?;
/// for refusal in hits.report().refusals() {
///     match refusal.reason() {
///         RefusalReason::Foreign { found, .. } => println!("somebody has written {found:02x?}"),
///         RefusalReason::Protected { errno } => println!("its page can't be written: error {errno}"),
///         reason => println!("{reason:?}"),
///     }
/// }
/// archive();
/// assert_eq!((hits.report().refusals().len(), hits.total()), (0, 2));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The site holds neither its NOP nor its jump or call: a breakpoint, or somebody else's patch.
    Foreign {
        /// What should be there.
        expected: [u8; SITE_LEN],
        /// What is there.
        found: [u8; SITE_LEN],
    },
    /// The system does not let the page be written.
    Protected {
        /// The system's error number.
        errno: i32,
    },
    /// The system does not say which rights the page has, so they could not be given back, and the site was not looked at:
    /// `/proc` is not mounted, or no descriptor is free.
    Unknown {
        /// The system's error number.
        errno: i32,
    },
    /// The system does not let text be written through `/proc/self/mem`, as [`TextPolicy::Alias`](super::TextPolicy) asks.
    NoAlias {
        /// The system's error number.
        errno: i32,
    },
    /// Somebody else, a [`word`](super::word) patch say, is replacing the site's instruction.
    Busy,
    /// The site can't be switched through `int3`, as [`TextPolicy::Alias`](super::TextPolicy), strict patching, and sites of
    /// records that lie across two aligned words need it.
    NoTrap {
        /// What is in the way, and what to do about it.
        problem: String,
    },
    /// It is a discovered call that lies across two aligned words: it is switched by writing a word at once, which the kernel,
    /// through which [`TextPolicy::Alias`](super::TextPolicy) writes, does not promise to do.
    Straddles,
    /// The site's page is not mapped, or may not be read.
    Unreadable,
    /// Another copy of this crate in the same process, a plugin's say, was the first to attach to the probe.
    Taken,
    /// The attachment's consumer is called no more, see [`Attachment::failure`](crate::Attachment::failure).
    Failed,
}

impl RefusalReason {
    /// Whether it is a policy that forbids to make code writable.
    fn is_policy(&self) -> bool {
        matches!(self, Self::Protected { errno } if matches!(std::io::Error::from_raw_os_error(*errno).kind(), std::io::ErrorKind::PermissionDenied))
    }
}

impl Refusal {
    pub(crate) fn new(site: SiteAddr, reason: RefusalReason) -> Self {
        Self { site, reason }
    }

    /// Whether what was found is one of a site's own two instructions.
    #[cfg(probe_backend = "x86_64")]
    pub(crate) fn holds_own(&self, site: super::Site) -> bool {
        matches!(self.reason, RefusalReason::Foreign { found, .. }
            if [Instruction::NOP5, site.active].contains(&Instruction::from_bytes(found)))
    }

    /// The site's address.
    pub fn site(&self) -> usize {
        self.site.0
    }

    /// Why it was refused.
    pub fn reason(&self) -> &RefusalReason {
        &self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "site {}: ", self.site)?;
        match &self.reason {
            RefusalReason::Foreign { expected, found } => {
                write!(f, "expected {expected:02x?}, found {found:02x?}: {}", whose(*expected, *found))
            }
            RefusalReason::Protected { errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "the system does not let its page be written: {error}")
            }
            RefusalReason::Unknown { errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(
                    f,
                    "the rights of its page can't be read from /proc/thread-self/maps: {error}; mount /proc, or leave \
                     a descriptor free"
                )
            }
            RefusalReason::NoAlias { errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(
                    f,
                    "its text can't be written through /proc/self/mem: {error}; that needs /proc, a dumpable process, \
                     and a kernel without proc_mem.force_override=never or =ptrace"
                )
            }
            RefusalReason::Busy => write!(f, "somebody else is replacing its instruction"),
            RefusalReason::NoTrap { problem } => write!(f, "it can't be switched through int3: {problem}"),
            RefusalReason::Straddles => write!(
                f,
                "it lies across two aligned words, which TextPolicy::Alias can't switch without int3; attach with another"
            ),
            RefusalReason::Unreadable => write!(f, "its page is not mapped, or may not be read"),
            RefusalReason::Taken => write!(f, "another copy of probe-runtime in this process owns its probe"),
            RefusalReason::Failed => {
                write!(f, "its consumer has failed: see `Attachment::failure`; attach anew")
            }
        }
    }
}

/// Who has probably written what a site holds, and what to do about it.
fn whose(expected: [u8; SITE_LEN], found: [u8; SITE_LEN]) -> &'static str {
    const NOP: [u8; SITE_LEN] = Instruction::NOP5.bytes();
    match found {
        [0xcc, ..] => "a debugger's breakpoint, or a tracer's (a uprobe): remove it",
        NOP => {
            "somebody has written the file's NOP back, and hits are lost: switch the site off and on again"
        }
        [0x0f, tail @ ..] if tail == expected[1..] || expected == NOP => {
            "torn: a tracer (a uprobe) was put on the active site, and has written one byte of the file back. Who executes it may \
             crash; patch::word::patch can write the NOP there"
        }
        [0xe8, ..] => "a tracer's call (a uprobe): remove it",
        _ => "a debugger or another patcher holds it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_first_refusals_and_counts_the_rest() {
        let mut report = Report::default();
        report.add_patched(2);
        for site in 0..100 {
            report.refuse(Refusal::new(SiteAddr(site), RefusalReason::Busy));
        }
        assert_eq!((report.refused(), report.refusals().len()), (100, KEPT));
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
    #[cfg(probe_backend = "x86_64")]
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
            said.contains("`.text(TextPolicy::Alias)`") && said.contains("`count(text=alias)`"),
            "{said}"
        );
        assert!(!fails.to_string().contains("TextPolicy::Alias"), "{fails}");
    }

    #[test]
    fn a_foreign_patch_is_shown_with_its_bytes() {
        let reason =
            RefusalReason::Foreign { expected: [0x0f, 0x1f, 0x44, 0, 8], found: [0xcc, 0x1f, 0x44, 0, 8] };
        assert_eq!(
            Refusal::new(SiteAddr(0x40), reason).to_string(),
            "site 0x40: expected [0f, 1f, 44, 00, 08], found [cc, 1f, 44, 00, 08]: \
             a debugger's breakpoint, or a tracer's (a uprobe): remove it"
        );
    }
}
