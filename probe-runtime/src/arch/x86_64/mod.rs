//! x86-64 on Linux: sites are patched in place.

mod failed;
pub mod site;

pub use failed::failed;

#[cfg(feature = "std")]
pub(crate) mod enter;
#[cfg(feature = "std")]
pub(crate) mod stub;
#[cfg(feature = "std")]
mod vectors;

#[cfg(feature = "std")]
pub(crate) use enter::{bump, entry, light_barrier, set_slot, slot};
