//! x86-64 on Linux: sites are patched in place.

pub(crate) mod block;
pub(crate) mod calibration;
#[cfg(probe_values)]
pub(crate) mod diversion;
pub(crate) mod enter;
pub(crate) mod hooks;
pub(crate) mod note;
mod record;
#[cfg(probe_values)]
pub(crate) mod registers;
pub(crate) mod stub;
mod vectors;
#[cfg(probe_modules)]
pub(crate) mod wrapper;

pub(crate) use enter::{
    claim_slot, entry, increment, light_barrier, prefetch_for_write, set_slot, slot, values,
};

/// The size of a thread's slot, in bytes. Only touched pages take memory.
pub(crate) const SLOT_SIZE: usize = 32 << 20;

/// Whether hits bring their stack pointer.
pub(crate) const HAS_STACK_POINTER: bool = true;
pub(crate) use note::announce;
