//! Linux.

pub mod blocking;
pub mod cancel;
pub mod guarded_read;
pub mod maps;
pub mod mem;
pub mod pin;
pub mod text;
pub mod trap;

mod barrier;

pub use barrier::{has_membarrier, heavy_barrier};
