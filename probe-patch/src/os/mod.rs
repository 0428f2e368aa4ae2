//! Services of the operating system for patching and for getting ready:
//!
//! - `cancel::Uncancellable`: this thread can't be cancelled meanwhile;
//! - `chained::Chained`: a handler on top of a program's own;
//! - `fork::{install, process}`: hooks around `fork`, and a number that tells a child from its
//!   parent;
//! - `kept::Kept`: a value that a thread keeps across a fork;
//! - `pin::{pin, pin_object}`: keep this code, or another object, loaded;
//! - on Linux: `memory`, straight from the kernel; `thread`;
//! - where code is patched: `guarded_read`, for texts that may not be readable; `text::protect`,
//!   `maps::Maps`, `mem::Alias`, `trap`; `masks` and `tracer`, which find obstacles to a trap;
//!   `objects`; `heavy_barrier`: when it returns, all threads have passed a full fence and a
//!   serialising instruction.

#[cfg(all(any(target_os = "linux", target_os = "android"), any(not(miri), probe_in_place)))]
pub mod chained;
#[cfg(all(unix, any(not(miri), probe_in_place)))]
pub mod fork;
pub mod kept;
#[cfg(probe_system = "linux")]
pub mod memory;
#[cfg(probe_system = "linux")]
pub mod thread;

pub mod generic;
#[cfg(not(probe_backend = "patched"))]
pub use generic::*;

#[cfg(probe_backend = "patched")]
mod linux;
#[cfg(probe_backend = "patched")]
pub use linux::*;
