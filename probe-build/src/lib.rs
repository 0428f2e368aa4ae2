//! Latent probes in C and C++: a build-script helper on top of the [`cc`] crate.
#![deny(unsafe_code)]

mod asm;
mod build;
mod command;
mod console;
mod dialect;
mod error;
mod filter;
mod flags;
mod jobs;
mod names;
mod outcome;
mod plain;
mod report;
mod sites;
mod text;
mod unit;

use std::path::PathBuf;

pub use build::Build;
pub use error::Error;
pub use outcome::{Cause, Exclusion, Outcome, Reason};
pub use plain::PlainReason;
pub use report::{FileReport, FunctionReport, Report};
pub use sites::Sites;

/// The directory of `probe.h`.
///
/// [`Build`] searches it after all other directories; this is for other build tools.
///
/// ```
/// println!("cargo::metadata=include={}", probe_build::include().display());
/// ```
pub fn include() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
}
