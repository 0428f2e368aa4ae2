//! The operating system's services, with the same contract on each system:
//!
//! - `memory::{zeroed, give_back}`: memory for a thread's slot and for the data that consumers keep
//!   there, mapped lazily;
//! - `thread::{id, process, birth, name, is_alive, tells_exit, on_exit, errno, set_errno,
//!   errno_place, Errno}`: the identity of the running thread, and a call when a thread ends;
//! - `cancel::Uncancellable`: a guard that keeps this thread from being cancelled;
//! - `fork::{install, process}`: hooks around `fork`, and a number that tells a child from its
//!   parent;
//! - `kept::Kept`: the state that a thread keeps across a fork;
//! - `pin::{pin, pin_object}`: keeps this code, or another object, loaded;
//! - `room`: a room's locks across forks, and its installation, once;
//! - `signal_catcher::{Signal, SignalCatcher, WakeReason}`: signals for a thread, if the program
//!   leaves them to their default action; a wait with a limit;
//! - `signal_mask::{SignalsBlocked, without_write_signals, minimise_timer_slack}`: threads without
//!   the program's signals, and writes that raise none;
//! - `process::{at_exit, has_raised_rights, SharedWords, TryLock}`: what concerns the whole
//!   process;
//! - `stderr::{print_line, print, columns}`: messages at the end of a process;
//! - `time`: the system's clocks, and CPU time;
//! - `guarded_file::{GuardedFile, Identity, high}`: a file or stream whose descriptor the program
//!   may close, and how such a descriptor is known again;
//! - `mapped_file::{MappedFile, NewFile}`: a file as memory, beside private memory that a forked
//!   child finds empty;
//! - `objects::freeze`: runs a closure while no object is unloaded;
//! - `heavy_barrier`: when it returns, all threads have passed a full fence and, if code is
//!   patched, a serialising instruction;
//! - `perf::{Descriptor, Page, process}`: the kernel's events;
//! - with the feature `profiler`, if code is patched: `cpu_samples::{CpuSamples, is_unfiltered}`,
//!   where threads are as their CPU time passes; `objects::Frozen::functions_around`;
//! - if code is patched: `text::protect`, `maps::Maps`, `mem::Alias`, `objects::Frozen::loaded`.
//!
//! [`fallback`] has each service for the systems that lack it. Nothing here knows about probes.
//! `probe-patch` provides further services, which patching and preparation also need, and says
//! which of them handlers may call.
//!
//! They are `libc`'s functions, and not those of `rustix`: hits and handlers make these calls by
//! number where a program may have replaced the C library's function by one with a probe in it, and
//! write from memory that other threads store into. `rustix` lacks signal masks and handlers, and
//! would come into builds that have no `agent`. Of `/proc`, three files are read here, one or two
//! lines each, so the crate `procfs` would be longer.

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
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) mod mapped_file;
#[cfg(not(all(target_os = "linux", not(miri))))]
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

/// Linux: the services that only this crate needs, beside those of `probe-patch`.
#[cfg(probe_backend = "patched")]
mod linux {
    #[cfg(probe_modules)]
    pub(crate) mod allocator;
    #[cfg(all(feature = "profiler", not(miri)))]
    pub(crate) mod cpu_samples;
    mod function_bounds;
    pub(crate) mod imports;
    #[cfg(any(probe_discovers, probe_values))]
    pub(crate) mod object_file;
    pub(crate) mod objects;
    #[cfg(probe_values)]
    pub(crate) mod unwind_tables;

    pub(crate) use probe_patch::__runtime::os::{
        blocking::tracer, guarded_read, heavy_barrier, maps, mem, memory, pin::iterate, text, thread,
    };
}
#[cfg(probe_backend = "patched")]
pub(crate) use linux::*;
