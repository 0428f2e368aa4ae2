//! Linux.

pub(crate) mod cancel;
pub(crate) mod maps;
pub(crate) mod masks;
pub(crate) mod mem;
pub(crate) mod memory;
pub(crate) mod objects;
#[cfg(probe_backend = "x86_64")]
pub(crate) mod peek;
pub(crate) mod pin;
#[cfg(probe_discovers)]
pub(crate) mod signals;
pub(crate) mod text;
pub(crate) mod thread;
pub(crate) mod tracer;
pub(crate) mod trap;

mod barrier;

pub(crate) use barrier::{has_membarrier, heavy_barrier};
