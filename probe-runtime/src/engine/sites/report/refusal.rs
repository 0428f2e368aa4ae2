//! One site that a batch left unchanged.

use std::fmt;

use super::RefusalReason;
use crate::engine::sites::SiteAddr;
#[cfg(probe_backend = "patched")]
use crate::engine::sites::{Instruction, Site};

/// One site that was left unchanged.
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
    pub(super) site: SiteAddr,
    pub(super) reason: RefusalReason,
}

impl Refusal {
    pub(crate) fn new(site: SiteAddr, reason: RefusalReason) -> Self {
        Self { site, reason }
    }

    #[cfg(probe_backend = "patched")]
    pub(crate) fn holds_own(&self, site: Site) -> bool {
        matches!(self.reason, RefusalReason::Foreign { found, .. }
            if site.owns(Instruction::from_bytes(found)))
    }

    /// Returns the site's address.
    pub fn site(&self) -> usize {
        self.site.0
    }

    /// Returns the reason for the refusal.
    pub fn reason(&self) -> &RefusalReason {
        &self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "site {}: ", self.site)?;
        self.reason.explain(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
