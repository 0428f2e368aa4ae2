#![doc = include_str!("../README.md")]
//!
//! ```text
//! file ▸ sections and segments ▸ room for program headers ▸ tables ▸ the same file, with an end of its own
//! ```
//! | in the file | becomes |
//! |---|---|
//! | `call hook` | NOP5 |
//! | `call *hook@GOTPCREL(%rip)` | `2e`, NOP5 |
//! | `jmp *hook@GOTPCREL(%rip)` | NOP5, `ret` |
//! | `jmp hook` | a jump to a NOP5 and a `ret` in the new code: no `ret` has room for a site |

#![forbid(unsafe_code)]

pub mod archive;
mod error;
mod file;
mod headers;
mod linked;
mod list;
mod patch;
mod relocatable;
mod tables;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use linked::{HAS_PROBES, bytes_behind, latent, linked};
pub use list::List;
pub use patch::{Call, Probe, Way};
pub use probe_core::abi::Kind;
pub use relocatable::Object;
