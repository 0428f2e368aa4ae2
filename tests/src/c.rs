//! The C and C++ sources of `tests/c`, built into shared objects as a build script would build
//! them, and used.

mod build;
mod object;

pub use build::{Compiler, Language, Recipe, builds, is_there};
pub use object::{Counter, Function, Note, Notes, Object, Tally, hits_by_function};
