//! The texts that people write to latent probes.
//!
//! ```text
//! selector      net::** kind=entry, !net::tls::**        which probes
//! expression    bytes > 1K && path == "/"                which hits
//! aggregation   sum(bytes) by(path)                      figures of groups of hits
//! spec          net::**[n > 1]=trace(flight), b=count    consumers, their options, triggers
//! rules         when p99(f) > 5ms for 2s then snapshot f
//! destination   /tmp/%e-%p-%c.json                       files of reports
//! units         5ms, 64K, 10K/s, 1%
//! ```
//! Everything here is pure. Each mistake is an error that knows its place in the text and says what
//! would be right.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The parts below are for the runtime and the tools of the same version. The re-exports are public.
#[doc(hidden)]
pub mod aggregation;
#[doc(hidden)]
pub mod brackets;
#[doc(hidden)]
pub mod cursor;
#[doc(hidden)]
pub mod destination;
mod endings;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod expression;
#[doc(hidden)]
pub mod format;
mod glob;
#[doc(hidden)]
pub mod modules;
#[doc(hidden)]
pub mod options;
#[doc(hidden)]
pub mod rules;
#[doc(hidden)]
pub mod selector;
#[doc(hidden)]
pub mod spec;
#[doc(hidden)]
pub mod units;

pub use error::ParseError;
pub use expression::Predicate;
pub use format::Format;
pub use options::Setting;
pub use selector::{Selectable, Selector, SelectorError, Suggestions};
