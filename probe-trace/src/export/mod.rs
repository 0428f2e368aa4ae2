//! Exports: writes a trace in the formats of other tools.
//!
//! [`export`] pairs a trace's hits ([`calls`](crate::calls)) and writes each step at once, so it
//! never holds a trace in memory. It keeps threads, paths, and open calls and futures; folded
//! stacks also keep one sum for each distinct stack. Firefox Profiler's format is the exception: it
//! has no place for a part, so its export holds all of it.

#[cfg(feature = "chrome")]
mod chrome;
mod endings;
#[cfg(feature = "firefox")]
mod firefox;
mod folded;
mod format;
#[cfg(any(feature = "chrome", feature = "firefox", feature = "perfetto"))]
mod labels;
#[cfg(feature = "perfetto")]
mod live;
#[cfg(feature = "perfetto")]
mod perfetto;
mod sink;

pub use format::{Format, UnknownFormat};
#[cfg(feature = "perfetto")]
pub use live::Live;
pub use sink::{Error, export};
