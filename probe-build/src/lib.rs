//! Latent probes in C and C++: a build-script helper on top of the [`cc`] crate.
#![deny(unsafe_code)]

mod asm;
mod outcome;
mod sites;

pub use outcome::{Cause, Exclusion, Outcome, Reason};
pub use sites::Sites;
