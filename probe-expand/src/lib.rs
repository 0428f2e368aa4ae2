//! The expansion of `#[probe]` and `probe!()`, as a library.
//!
//! [`probe_macros`](https://docs.rs/probe-macros) is its face for compilers: it documents the
//! attribute. With the feature `find`, tools that place probes in sources find functions by the
//! same rules.
//!
//! ```text
//! #[probe(…)] fn … ──▶ args ─┐                              ┌▶ replace ▶ what can be replaced
//!                      parse ┴▶ model ▶ check ▶ expand ──▶ runtime::__private::v1::function!(…)
//! probe!(…) ─────────▶ parse ──▶ model ▶ check ▶ expand ──▶ runtime::__private::v1::point!(…)
//!                                           └▶ fallback ──▶ errors, and the item as it was
//! a file ────────────▶ parse ──▶ functions ──▶ names, places, and reasons against a probe
//! ```
#![forbid(unsafe_code)]

mod args;
mod asynchronous;
mod check;
mod expand;
mod fallback;
#[cfg(feature = "find")]
mod functions;
mod model;
mod parse;
mod replace;
mod signature;
mod tokens;

pub use expand::{attribute, point};
#[cfg(feature = "find")]
pub use functions::{Found, FoundAllocator, FoundFunction, FoundInclude, FoundModule, find, in_module_path};
