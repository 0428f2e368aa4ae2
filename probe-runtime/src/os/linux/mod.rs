//! Linux.

pub(crate) mod cancel;
pub(crate) mod memory;
pub(crate) mod objects;
pub(crate) mod pin;
pub(crate) mod text;
pub(crate) mod thread;

mod barrier;

pub(crate) use barrier::heavy_barrier;
