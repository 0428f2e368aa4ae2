//! How a function is armed: its calls are counted, or timed as well. [`schedule`](super::schedule) says why there are both.

/// What is done with the calls of a function that is armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Each is counted, by its entry. Exits stay latent.
    Counting,
    /// Each is counted, and the first are timed.
    Timing,
}

impl Mode {
    /// Hits that a call makes.
    pub(super) const fn hits(self) -> f64 {
        match self {
            Self::Counting => 1.0,
            Self::Timing => 2.0,
        }
    }
}
