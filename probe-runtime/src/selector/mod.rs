//! Selectors: the text that names a set of probes. [`Selector`] has the grammar.
//!
//! ```text
//! text ──▶ words ▶ parse ──▶ terms ─┬─▶ paths (looked up) ──▶ matches a subject?
//!                                   └─▶ patterns (globs, conditions)
//! nothing matches ──▶ wider (a selector like it that does) | nearest (a name like it)
//! ```
//! Parsing and matching are pure. Parsing is linear in the text. Matching costs one look-up of the
//! path, and a comparison with each pattern until one matches; a selector has at most
//! [`MAX_PATTERNS`]. If the path lacks the common beginning of all terms, matching costs one
//! comparison.

mod assigned;
mod error;
mod glob;
mod nearest;
mod nesting;
mod parse;
mod parsed;
mod path;
mod pointed;
mod segment;
mod selectable;
mod suggest;
mod term;
mod wider;
mod words;

pub use error::SelectorError;
pub(crate) use parsed::NamedTerms;
pub use parsed::Selector;
pub use selectable::Selectable;
pub use suggest::Suggestions;

pub(crate) use assigned::{Assigned, assigned};
pub(crate) use nearest::nearest;
pub(crate) use nesting::ends_in_operator;
#[cfg(any(feature = "call-tree", feature = "tracing"))]
pub(crate) use nesting::split_last;
pub(crate) use pointed::{pointed, shortened};
pub(crate) use suggest::did_you_mean;
pub(crate) use words::TextWords;

use crate::syntax::floor;

/// Greatest length of a selector, in bytes.
pub(crate) const MAX_LEN: usize = 64 * 1024;
/// Greatest number of terms with wildcards or conditions. Terms that are only a path are looked up,
/// and their number is not limited.
const MAX_PATTERNS: usize = 1_000;

/// Returns the place where a text that is too long exceeds the limit; `None` for any other text.
pub(crate) fn too_long(text: &str) -> Option<usize> {
    (text.len() > MAX_LEN).then(|| floor(text, MAX_LEN))
}
