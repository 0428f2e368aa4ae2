//! When threads see a change, and how a batch gets at its text.

use super::TextPolicy;

/// The hint to users where a trial has shown that this policy works.
pub(crate) const ALIAS_WORKS: &str = "TextPolicy::Alias works here: write `.text_policy(TextPolicy::Alias)` in code, or \
    `text=alias` in PROBES, as in `count(text=alias)`";

/// When threads execute what a batch has written.
///
/// ```
/// use probe_runtime::{Count, Visibility, probe, select};
///
/// #[probe]
/// fn seen_soon() {}
///
/// // No barrier: threads other than this one may miss the first hits.
/// let set = select("**::seen_soon kind=entry")?.visibility(Visibility::Eventual);
/// let hits = set.attach(Count::new())?;
/// seen_soon();
/// println!("{}", hits.total());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Visibility {
    /// All threads execute it when the call returns. One system call.
    #[default]
    Synchronous,
    /// Each thread executes it soon after the call: hundreds of cycles later, where it was
    /// measured.
    Eventual,
}

/// How a batch gets at its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The caller holds all of it open.
    Held,
    /// Each run of pages is opened by itself, unless it is held open.
    ByRun,
    /// The same as `ByRun`, and each site goes through `int3`.
    ByRunStrictly,
    /// Through the kernel, and `int3`.
    Alias,
}

impl Access {
    /// The access that a batch on any sites has under this policy.
    pub(crate) fn under(policy: TextPolicy, strict: bool) -> Self {
        match policy {
            TextPolicy::Sealed | TextPolicy::Open if strict => Self::ByRunStrictly,
            TextPolicy::Sealed | TextPolicy::Open => Self::ByRun,
            TextPolicy::Alias => Self::Alias,
        }
    }
}
