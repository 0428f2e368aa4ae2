//! The operating system's services, one folder a system, each with the same contract:
//!
//! - `memory::{zeroed, give_back}`: memory for a thread's slot and for the data that consumers keep
//!   there, mapped lazily;
//! - `thread::{id, process, birth, name, is_alive, tells_exit, on_exit, errno, set_errno,
//!   errno_place, Errno}`: the identity of the running thread, and a call when a thread ends;
//! - `cancel::Uncancellable`: a guard that keeps this thread from being cancelled;
//! - `fork::{install, process}`: hooks around `fork`, and a number that tells a child from its
//!   parent;
//! - `kept::Kept`: the state that a thread keeps across a fork;
//! - `caught::{Signal, Caught, Woken}`: signals for a thread, if the program leaves them to their
//!   default action; a wait with a limit;
//! - `exit::install`: a call when the process exits normally;
//! - `privilege::is_raised`: whether the program has more rights than the user who started it;
//! - `stderr::{say, write, columns}`: messages at the end of a process;
//! - `shared::Shared`: numbers that a process shares with its forked children;
//! - `stream::open`: a pipe or device to write to, opened without waiting for a reader;
//! - `cpu::{process, thread}`, and `cpu::book` if code is patched: CPU time;
//! - `time::{monotonic, real, since_boot}`: the system's clocks, and `time::boot_id`;
//! - `mapped::{Mapped, NewFile}`: a file as memory, beside private memory that a forked child finds
//!   empty;
//! - `turns::{Turns, Turn}`: a right that one thread of a process has at a time;
//! - `guarded_file::GuardedFile`: a file whose descriptor the program may close; on unix also
//!   `identity::{Identity, high}`, by which such a descriptor is known again;
//! - `masked::{Masked, unsignalled, wake_in_time}`: threads without the program's signals, and
//!   writes that raise none;
//! - `pin::{pin, pin_object}`: keeps this code, or another object, loaded;
//! - `room`: a room's locks across forks, and its installation, once;
//! - `objects::freeze`: runs a closure while no object is unloaded;
//! - `heavy_barrier`: when it returns, all threads have passed a full fence and, if code is
//!   patched, a serialising instruction;
//! - `perf::{Descriptor, Page, process}`: the kernel's events;
//! - with the feature `profiler`, if code is patched: `interrupted::{Interrupted, may_be_asked}`,
//!   where threads are as their CPU time passes; `objects::Frozen::functions_around`;
//! - if code is patched: `text::protect`, `maps::Maps`, `mem::Alias`, `objects::Frozen::loaded`.
//!
//! Nothing here knows about probes. `probe-patch` provides further services, which patching and
//! preparation also need.

#[cfg(probe_backend = "off")]
pub(crate) use probe_patch::__runtime::os::generic::{cancel, pin};
#[cfg(not(probe_backend = "off"))]
pub(crate) use probe_patch::__runtime::os::{cancel, pin};
pub(crate) use probe_patch::__runtime::{
    AcrossForks, Rank, Ready,
    os::{fork, kept},
};

/// Returns a room of this crate; see `lifecycle` in `probe-patch`. With the feature `off`, no site
/// leads to this code, so nothing is kept loaded.
pub(crate) const fn room(rank: Rank, hooks: AcrossForks, install: fn()) -> Ready {
    let room = Ready::new(rank, hooks, install);
    if cfg!(probe_backend = "off") { room.unkept() } else { room }
}

mod fallback;
pub(crate) mod guarded_file;
pub(crate) mod process;
pub(crate) mod stderr;
pub(crate) mod time;

#[cfg(all(unix, not(miri)))]
pub(crate) mod signal_catcher;
#[cfg(all(unix, not(miri)))]
pub(crate) mod signal_mask;
#[cfg(all(unix, not(miri)))]
mod wakeup;
#[cfg(not(all(unix, not(miri))))]
pub(crate) use fallback::{signal_catcher, signal_mask};

/// Files as memory, on systems whose kernel tells a child from its parent.
#[cfg(all(feature = "trace", target_os = "linux", not(miri)))]
pub(crate) mod mapped_file;
#[cfg(all(feature = "trace", not(all(target_os = "linux", not(miri)))))]
pub(crate) use fallback::mapped_file;

/// The kernel's events, on systems that the bindings support.
#[cfg(all(
    feature = "perf",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
pub(crate) mod perf;
#[cfg(all(
    feature = "perf",
    not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))
))]
pub(crate) use fallback::perf;

#[cfg(not(probe_backend = "patched"))]
pub(crate) use fallback::unpatched::*;

#[cfg(probe_backend = "patched")]
mod linux;
#[cfg(probe_backend = "patched")]
pub(crate) use linux::*;
