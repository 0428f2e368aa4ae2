//! Linux.

pub(crate) mod fork;
pub(crate) mod maps;
pub(crate) mod mem;
pub(crate) mod memory;
pub(crate) mod objects;
pub(crate) mod text;
pub(crate) mod thread;
pub(crate) mod trap;

mod barrier;

pub(crate) use barrier::{has_membarrier, heavy_barrier};
