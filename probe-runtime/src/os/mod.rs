//! What is asked of the operating system, one folder a system, each with the same contract:
//!
//! - `memory::zeroed`: memory for a thread's slot, mapped lazily and never given back;
//! - `thread::{id, is_alive, tells_exit, on_exit, errno, set_errno}`: who is running, and a call when a thread ends;
//! - `fork::install`: hooks around `fork`;
//! - `heavy_barrier`: all threads have passed a full fence and, where code is patched, a serialising
//!   instruction when it returns;
//! - where code is patched: `text::protect`, `maps::Maps`, `mem::Alias`, `objects::loaded`.
//!
//! Nothing here knows about probes.

#[cfg(not(probe_backend = "x86_64"))]
mod generic;
#[cfg(not(probe_backend = "x86_64"))]
pub(crate) use generic::*;

#[cfg(probe_backend = "x86_64")]
mod linux;
#[cfg(probe_backend = "x86_64")]
pub(crate) use linux::*;
