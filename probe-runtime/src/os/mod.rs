//! What is asked of the operating system, one folder a system, each with the same contract:
//!
//! - `memory::{zeroed, give_back}`: memory for a thread's slot, and for what consumers keep there, mapped lazily;
//! - `thread::{id, birth, name, is_alive, tells_exit, on_exit, errno, set_errno, errno_place, Errno}`: who is running, and a call when a thread ends;
//! - `cancel::Uncancellable`: this thread can't be cancelled meanwhile;
//! - `fork::install`: hooks around `fork`;
//! - `pin::{pin, pin_object}`: this code stays loaded, or another object;
//! - `objects::freeze`: no object is unloaded meanwhile;
//! - `heavy_barrier`: all threads have passed a full fence and, where code is patched, a serialising
//!   instruction when it returns;
//! - where code is patched: `text::protect`, `maps::Maps`, `mem::Alias`, `objects::Frozen::loaded`.
//!
//! Nothing here knows about probes.

#[cfg(all(unix, any(not(miri), probe_in_place)))]
pub(crate) mod fork;

#[cfg(not(probe_backend = "x86_64"))]
mod generic;
#[cfg(not(probe_backend = "x86_64"))]
pub(crate) use generic::*;

#[cfg(probe_backend = "x86_64")]
mod linux;
#[cfg(probe_backend = "x86_64")]
pub(crate) use linux::*;
