//! The policy of an attachment or a hold.

use crate::engine::sites::{Access, TextPolicy, Visibility};

/// How an attachment or a hold patches.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Policy {
    pub(super) text: TextPolicy,
    pub(super) visibility: Visibility,
    pub(super) strict: bool,
    /// Whether a forked child leaves the attachment behind in its parent.
    pub(super) is_of_parent: bool,
}

impl Policy {
    pub(super) fn access(self) -> Access {
        Access::under(self.text, self.strict)
    }

    /// Returns whether text stays writable, and is written by single writes.
    pub(super) fn is_open(self) -> bool {
        self.text == TextPolicy::Open && !self.strict
    }
}
