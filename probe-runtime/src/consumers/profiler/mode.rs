//! The mode of an armed function: its calls are counted, or also timed.
//! [`schedule`](super::schedule) explains why there are both.

/// What happens to the calls of an armed function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// The runtime counts each call, at its entry. Exits are latent.
    Counting,
    /// Each call is delivered, at entry and exit, and counted. The first ones are timed.
    Timing,
}
