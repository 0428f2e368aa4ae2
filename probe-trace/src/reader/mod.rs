//! Reads files, and merges them into one time line.
//!
//! - [`Trace`] reads whole files: each [`file`] has the places of its sub-buffers, and a [`stream`]
//!   reads those of one ring.
//! - [`Followed`] reads a file as it grows, and `export::Live` a program's own rings ([`rings`]).
//! - A [`clock`] turns time stamps into times.

mod clock;
mod decode;
mod file;
mod follow;
mod rings;
mod stream;
mod trace;

pub use file::ReadError;
pub use follow::Followed;
#[cfg(feature = "perfetto")]
pub(crate) use rings::RingReader;
pub use rings::Rings;
pub use stream::Part;
pub use trace::{Items, Totals, Trace};
