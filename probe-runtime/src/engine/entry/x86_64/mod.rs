//! x86-64 on Linux: sites are patched in place.

pub(crate) mod block;
#[cfg(feature = "profiler")]
pub(crate) mod calibration;
pub(crate) mod enter;
mod note;
mod record;
pub(crate) mod stub;
mod vectors;

pub(crate) use enter::{bump, claim_slot, entry, light_barrier, set_slot, slot, values};
pub(crate) use note::announce;
