//! The kill switch, `--cfg probe_off` or the feature `off`: sites are type-checked and compile to
//! nothing.

pub mod site;

#[cfg(feature = "profiler")]
pub(crate) use super::portable::rehearsal;
#[cfg(feature = "std")]
pub(crate) use super::portable::{bump, claim_slot, entry, light_barrier, set_slot, slot};
