//! Visibility of a change to other threads, and a batch's access to its text.

use super::TextPolicy;

/// A hint for users, if a trial has shown that this policy works.
pub(crate) const ALIAS_WORKS: &str = "TextPolicy::Alias works here: write `.text_policy(TextPolicy::Alias)` in code, or \
    `text=alias` in PROBES, as in `count(text=alias)`";

/// The time at which threads execute the instructions that a batch has written.
///
/// ```
/// use probe_runtime::patch::Visibility;
/// use probe_runtime::{Count, probe, select};
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
    /// All threads execute the new instructions when the call returns. Costs one system call.
    #[default]
    Synchronous,
    /// Each thread executes the new instructions soon after the call; measurements showed hundreds
    /// of cycles.
    Eventual,
}

/// A batch's way to write to its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The caller holds all text open.
    Held,
    /// The batch opens each run of pages, except pages that are already open.
    ByRun,
    /// Same as `ByRun`, but each site goes through `int3`.
    ByRunStrictly,
    /// The kernel writes, and each site goes through `int3`.
    Alias,
}

impl Access {
    /// Returns the access for a batch on any sites under this policy.
    pub(crate) fn under(policy: TextPolicy, strict: bool) -> Self {
        match policy {
            TextPolicy::Sealed | TextPolicy::Open if strict => Self::ByRunStrictly,
            TextPolicy::Sealed | TextPolicy::Open => Self::ByRun,
            TextPolicy::Alias => Self::Alias,
        }
    }
}
