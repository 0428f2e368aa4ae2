//! Linux.

pub(crate) mod fork;
pub(crate) mod maps;
pub(crate) mod mem;
pub(crate) mod memory;
pub(crate) mod objects;
pub(crate) mod text;
pub(crate) mod thread;

mod barrier;

pub(crate) use barrier::heavy_barrier;
