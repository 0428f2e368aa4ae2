//! x86-64 on Linux: sites are patched in place.

pub(crate) mod block;
pub(crate) mod enter;
mod note;
mod record;
#[cfg(feature = "profiler")]
pub(crate) mod rehearsal;
pub(crate) mod stub;
mod vectors;

pub(crate) use enter::{bump, claim_slot, entry, light_barrier, set_slot, slot, values};
pub(crate) use note::announce;
