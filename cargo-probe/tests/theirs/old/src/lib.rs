//! A crate of the edition 2015.
//!
//! ```
//! assert_eq!(old::sum(3), 6);
//! ```
mod inner;

/// Adds up.
pub fn sum(n: u32) -> u32 {
    let mut sum = 0;
    for i in 0..n + 1 {
        sum += i;
    }
    inner::at_most(sum)
}
