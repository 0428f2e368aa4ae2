//! How a function is armed: its calls are counted, or timed as well. [`schedule`](super::schedule)
//! says why there are both.

/// What is done with the calls of a function that is armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Each is counted, by the runtime, at its entry. Exits are latent.
    Counting,
    /// Each is delivered, at entry and exit, and counted; the first are timed.
    Timing,
}
