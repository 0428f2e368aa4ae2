//! x86-64 on Linux: sites are patched in place.

mod call;
pub mod site;
mod typed;
#[cfg(feature = "usdt")]
mod usdt;

pub use call::{Stub, call, call_failed, call_with_all, call_with_one, call_with_two};
pub use typed::Typed;
#[cfg(feature = "usdt")]
pub use usdt::{Usdt, UsdtExit, usdt_note0, usdt_note1, usdt_note2, usdt_note3, usdt_note4};

#[cfg(feature = "std")]
mod announced;
#[cfg(feature = "std")]
pub(crate) mod block;
#[cfg(feature = "std")]
pub(crate) mod enter;
#[cfg(feature = "std")]
mod record;
#[cfg(feature = "profiler")]
pub(crate) mod rehearsal;
#[cfg(feature = "std")]
mod saved;
#[cfg(feature = "std")]
pub(crate) mod stub;
#[cfg(feature = "std")]
mod vectors;

#[cfg(feature = "std")]
pub(crate) use announced::announce;
#[cfg(feature = "std")]
pub(crate) use enter::{bump, claim_slot, entry, light_barrier, set_slot, slot, values};
