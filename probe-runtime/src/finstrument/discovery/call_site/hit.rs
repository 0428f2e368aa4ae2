//! The arguments of a hook: a function, entered or left.

use probe_core::abi::Kind;

/// A function that was entered or left, as the hook was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::finstrument) struct Hit {
    pub(in crate::finstrument) function: usize,
    pub(in crate::finstrument) kind: Kind,
}

impl Hit {
    /// Returns the key of a function whose call is not known. Its highest bit tells it from return
    /// addresses.
    pub(in crate::finstrument) fn key(self) -> usize {
        1 << 63 | self.function << 1 | usize::from(self.kind == Kind::Exit)
    }
}
