//! x86-64 on Linux: sites are patched in place.

mod announced;
pub(crate) mod block;
pub(crate) mod enter;
mod record;
#[cfg(feature = "profiler")]
pub(crate) mod rehearsal;
mod saved;
pub(crate) mod stub;
mod vectors;

pub(crate) use announced::announce;
pub(crate) use enter::{bump, claim_slot, entry, light_barrier, set_slot, slot, values};
