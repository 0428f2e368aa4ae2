//! The texts that people write to latent probes.
//!
//! ```text
//! selector      net::** kind=entry, !net::tls::**        which probes
//! expression    bytes > 1K && path == "/"                which hits
//! syntax        budget=1%, 5ms                           options, spans of time; mistakes, and their places
//! ```
//! Everything here is pure. Each mistake is an error that knows its place in the text and says what
//! would be right.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The parts below are for the runtime and the tools of the same version. The re-exports are public.
#[doc(hidden)]
pub mod expression;
#[doc(hidden)]
pub mod selector;
#[doc(hidden)]
pub mod syntax;

pub use expression::Predicate;
pub use selector::{Selectable, Selector, SelectorError, Suggestions};
pub use syntax::{ParseError, Setting};
