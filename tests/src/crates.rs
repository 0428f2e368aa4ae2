//! Crates that others wrote, with `#[probe]` on every function, or on every block of them: copies
//! of what cargo's registry holds, patched as text.
//!
//! ```text
//! crates::folder ▶ patch (each file of `src`) ▶ copy (and its manifest) ▶ nested::cargo
//!     ▶ warnings, tests, hits
//! ```
//! Nothing of theirs is in this repository; `tests/Cargo.toml` pins the versions (see
//! [`sources`](crate::sources)). The attribute goes before each function as text, on the function's
//! own line: everything else, macros too, stays as its author wrote it. Functions that can't take
//! it are counted by reason, none is passed over in silence.

mod copy;
mod driver;
mod manifest;
mod patch;
mod programs;
mod warnings;

pub use copy::{Copy, Dependency};
pub use driver::Driver;
pub use patch::{Left, Places, Tally, patched};
pub use programs::{TestRun, armed_hits};
pub use warnings::{Warnings, warnings};

/// A crate, and what of its manifest the copies do without.
#[derive(Clone, Copy, Debug)]
pub struct Crate {
    /// The package's name.
    pub name: &'static str,
    /// Dependencies of its tests that only its benchmarks, or features that are not built, use.
    pub unused: &'static [&'static str],
    /// Tests that need a feature which is not built.
    pub without: &'static [&'static str],
}

/// `async`: a pool of connections; `async fn`, futures from trait methods, timeouts, under tokio.
pub const BB8: Crate = Crate { name: "bb8", unused: &[], without: &[] };

/// Generics: adaptors over adaptors, closures through all of them.
pub const ITERTOOLS: Crate = Crate { name: "itertools", unused: &["criterion"], without: &[] };

/// `unsafe`: a vector with room inside, made of raw pointers.
pub const SMALLVEC: Crate = Crate { name: "smallvec", unused: &["bincode1"], without: &[] };

/// `unsafe` and generic: the hash table of the standard library.
pub const HASHBROWN: Crate =
    Crate { name: "hashbrown", unused: &["bumpalo", "criterion"], without: &["serde", "rayon"] };

/// Hot loops over bytes: DEFLATE, both ways. Its package has no tests.
pub const MINIZ_OXIDE: Crate = Crate { name: "miniz_oxide", unused: &[], without: &[] };

/// Regular expressions, by six engines. Its dependencies are patched with it.
pub const REGEX_AUTOMATA: Crate = Crate { name: "regex-automata", unused: &[], without: &[] };
/// A dependency of [`REGEX_AUTOMATA`]: the parser.
pub const REGEX_SYNTAX: Crate = Crate { name: "regex-syntax", unused: &[], without: &[] };
/// A dependency of [`REGEX_AUTOMATA`]: many words at once.
pub const AHO_CORASICK: Crate = Crate { name: "aho-corasick", unused: &[], without: &[] };

/// Visitors and traits: JSON, both ways.
pub const SERDE_JSON: Crate = Crate { name: "serde_json", unused: &[], without: &[] };

/// Another compressor: LZ4.
pub const LZ4_FLEX: Crate = Crate { name: "lz4_flex", unused: &[], without: &[] };

/// A parser of Markdown.
pub const PULLDOWN_CMARK: Crate = Crate { name: "pulldown-cmark", unused: &[], without: &[] };

/// Recursion: layouts of nested boxes.
pub const TAFFY: Crate = Crate { name: "taffy", unused: &[], without: &[] };

/// Animated pictures, both ways. Its dependency is patched with it.
pub const GIF: Crate = Crate { name: "gif", unused: &[], without: &[] };
/// A dependency of [`GIF`]: LZW.
pub const WEEZL: Crate = Crate { name: "weezl", unused: &[], without: &[] };

/// An interpreter: templates, compiled to instructions, with values of any type.
pub const MINIJINJA: Crate = Crate { name: "minijinja", unused: &[], without: &[] };

/// Arithmetic, in as few instructions as it takes: hashes of bytes.
pub const TWOX_HASH: Crate = Crate { name: "twox-hash", unused: &[], without: &[] };

/// Those that come with tests.
pub const CRATES: [Crate; 4] = [BB8, ITERTOOLS, SMALLVEC, HASHBROWN];
