//! Estimates and durations as whole numbers.

use std::time::Duration;

/// The nearest whole number; 0 of a negative one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded; what is too large becomes the largest"
)]
pub(super) fn whole(number: f64) -> u64 {
    number.round() as u64
}

pub(super) fn in_nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
