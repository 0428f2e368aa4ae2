//! Selectors: the text that names a set of probes. [`Selector`] has the grammar.
//!
//! ```text
//! text ──▶ words ▶ parse ──▶ terms ─┬─▶ paths (looked up) ──▶ matches a subject?
//!                                   └─▶ patterns (globs, conditions)
//! nothing matches ──▶ broaden (a selector like it that does) | a name like one in it
//! ```
//! Parsing and matching are pure. Parsing is linear in the text. Matching costs one look-up of the
//! path, and a comparison with each pattern until one matches; a selector has at most
//! `MAX_PATTERNS`. If the path lacks the common beginning of all terms, matching costs one
//! comparison.

mod broaden;
mod glob;
mod nesting;
mod parse;
mod parsed;
mod path;
mod segment;
mod split_at_equals;
mod suggest;
mod term;
mod words;

pub use crate::error::SelectorError;
pub use broaden::Suggestions;
#[cfg(feature = "counted")]
pub use parsed::PARSED;
pub use parsed::{NamedTerms, Selector};
pub use term::Selectable;

pub use broaden::did_you_mean;
pub use nesting::split_last;
pub use split_at_equals::{SpecTerm, split_at_equals};
pub use suggest::{suggest, unknown};
pub use words::{TextWords, is_key};

use crate::error::floor_char_boundary;

/// Greatest length of a selector, in bytes.
pub const MAX_LEN: usize = 64 * 1024;
/// Greatest number of terms with wildcards or conditions. Terms that are only a path are looked up,
/// and their number is not limited.
const MAX_PATTERNS: usize = 1_000;

/// Returns the place where a text that is too long exceeds the limit; `None` for any other text.
pub fn too_long(text: &str) -> Option<usize> {
    (text.len() > MAX_LEN).then(|| floor_char_boundary(text, MAX_LEN))
}
