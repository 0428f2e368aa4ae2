//! Checks of this machine and this process, with a remedy for each one that fails.

mod check;
mod checks;
mod machine;

pub use check::{Check, Verdict};
pub use checks::checks;
pub use machine::Machine;
