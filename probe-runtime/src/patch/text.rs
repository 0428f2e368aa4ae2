//! Policies: for how long text is writable, and when a change is seen.

/// For how long text is writable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TextPolicy {
    /// Text is writable during a batch only, and only the pages that the batch touches. Two system calls for
    /// each run of pages.
    #[default]
    Sealed,
    /// The text of the objects concerned stays writable (and executable) while the attachment or hold lives:
    /// for rapid toggling, without a system call.
    Open,
}

/// When threads execute what a batch has written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Visibility {
    /// All of them, when the call returns. One system call.
    #[default]
    Synchronous,
    /// Each of them, soon after the call: hundreds of cycles where it was measured.
    Eventual,
}
