//! The author's part of latent probes: what a program with probes compiles, and nothing of what
//! attaches to them.
//!
//! ```text
//! expansion ▸ macros ▸ site/{x86_64,portable,off}    the NOP, its cold block, its record and stub
//!                    ▸ capture, future               the fields' values; polls of futures
//!                    ▸ abi                           definition, record, note, values: docs/abi.md
//! ```
//! Consumers in the program and readers of its traces share the rule of [`pairing`], so it is here.
//!
//! Use `probe-runtime`, which re-exports all that is public here, and has the attribute and the
//! macro. `__private` is for expansions, and [`abi`] for the runtime and for tools: both change
//! only with the version of the format.
//!
//! Cost: a program that never attaches runs its NOPs, and nothing of this crate.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod abi;
mod capture;
mod future;
mod macros;
#[doc(hidden)]
pub mod pairing;
#[doc(hidden)]
pub mod site;
#[cfg(feature = "usdt")]
mod usdt;

pub use abi::{Field, Kind, Type, ValueRef};
#[cfg(feature = "std")]
pub use {abi::unreadable_texts, capture::failed_captures};

/// The items that macro expansions name. Not public API: it changes only with the ABI's version.
#[doc(hidden)]
pub mod __private {
    pub mod v1;
}
