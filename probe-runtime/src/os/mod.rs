//! What is asked of the operating system, one folder a system, each with the same contract:
//!
//! - `memory::{zeroed, give_back}`: memory for a thread's slot, and for what consumers keep there,
//!   mapped lazily;
//! - `thread::{id, process, birth, name, is_alive, tells_exit, on_exit, errno, set_errno,
//!   errno_place, Errno}`: who is running, and a call when a thread ends;
//! - `cancel::Uncancellable`: this thread can't be cancelled meanwhile;
//! - `fork::{install, process}`: hooks around `fork`; what tells a child from its parent;
//! - `kept::Kept`: what a thread keeps across one;
//! - `caught::{Signal, Caught, Woken}`: signals that a thread is told of, where the program leaves
//!   them to their default action; a wait with a limit;
//! - `exit::install`: a call when the process exits by itself;
//! - `privilege::is_raised`: whether the program may do more than whoever has started it;
//! - `stderr::write`: what is said where a process ends;
//! - `stream::open`: a pipe or device to write to, without waiting for who reads;
//! - `cpu::{process, thread}`, and where code is patched `cpu::book`: CPU time;
//! - `masked::{Masked, wake_in_time}`: threads without the program's signals;
//! - `pin::{pin, pin_object}`: this code stays loaded, or another object;
//! - `room`: a room's locks across forks, and its installation, once;
//! - `objects::freeze`: no object is unloaded meanwhile;
//! - `heavy_barrier`: all threads have passed a full fence and, where code is patched, a
//!   serialising instruction when it returns;
//! - `perf::{Descriptor, Page, process}`: the kernel's events;
//! - where code is patched: `text::protect`, `maps::Maps`, `mem::Alias`, `objects::Frozen::loaded`.
//!
//! Nothing here knows about probes. `probe-patch` provides the services that patching and getting
//! ready need, too.

#[cfg(probe_backend = "off")]
pub(crate) use probe_patch::__runtime::os::generic::{cancel, pin};
#[cfg(not(probe_backend = "off"))]
pub(crate) use probe_patch::__runtime::os::{cancel, pin};
pub(crate) use probe_patch::__runtime::{
    AcrossForks, Rank, Ready,
    os::{fork, kept},
};

/// A room of this crate's, see `lifecycle` in `probe-patch`. With the feature `off`, no site leads
/// to this code, so nothing is kept loaded.
pub(crate) const fn room(rank: Rank, hooks: AcrossForks, install: fn()) -> Ready {
    let room = Ready::new(rank, hooks, install);
    if cfg!(probe_backend = "off") { room.unkept() } else { room }
}

#[cfg(all(unix, not(miri)))]
pub(crate) mod caught;
#[cfg(all(feature = "profiler", unix, not(miri)))]
pub(crate) mod cpu;
#[cfg(all(any(unix, windows), not(miri)))]
pub(crate) mod exit;
#[cfg(all(unix, not(miri)))]
pub(crate) mod masked;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub(crate) mod privilege;
#[cfg(all(unix, not(miri)))]
pub(crate) mod stderr;
#[cfg(all(unix, not(miri)))]
pub(crate) mod stream;

/// Where there are neither: the processor's time is the clock's.
#[cfg(all(feature = "profiler", not(all(unix, not(miri)))))]
pub(crate) mod cpu {
    use std::sync::LazyLock;
    use std::time::Instant;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// Nanoseconds since it was first asked.
    pub(crate) fn process() -> u64 {
        START.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
    }

    /// Not known.
    pub(crate) fn thread() -> u64 {
        0
    }
}

/// There are no signals.
#[cfg(not(all(unix, not(miri))))]
#[path = "caught/absent.rs"]
pub(crate) mod caught;

/// Nobody is told; nothing fails.
#[cfg(not(all(any(unix, windows), not(miri))))]
pub(crate) mod exit {
    pub(crate) fn install(_at_exit: extern "C" fn()) -> bool {
        true
    }
}

/// Not known.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
pub(crate) mod privilege {
    pub(crate) fn is_raised() -> bool {
        false
    }
}

/// With the standard library's lock.
#[cfg(not(all(unix, not(miri))))]
pub(crate) mod stderr {
    use std::io::{self, Write};

    pub(crate) fn write(text: &[u8]) -> io::Result<()> {
        io::stderr().write_all(text)
    }

    /// The columns of the terminal that it is: not asked here.
    pub(crate) fn columns() -> Option<usize> {
        None
    }
}

/// As any file.
#[cfg(not(all(unix, not(miri))))]
pub(crate) mod stream {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::path::Path;

    pub(crate) fn open(path: &Path) -> io::Result<File> {
        OpenOptions::new().append(true).open(path)
    }
}

/// Nothing to do.
#[cfg(not(all(unix, not(miri))))]
pub(crate) mod masked {
    /// While it lives, nothing is different.
    pub(crate) struct Masked(());

    impl Masked {
        pub(crate) fn new() -> Self {
            Self(())
        }
    }

    #[cfg(feature = "profiler")]
    pub(crate) fn wake_in_time() {}
}

/// The kernel's events, as far as their bindings go.
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
#[path = "perf/absent.rs"]
pub(crate) mod perf;

#[cfg(not(probe_backend = "x86_64"))]
mod generic;
#[cfg(not(probe_backend = "x86_64"))]
pub(crate) use generic::*;

#[cfg(probe_backend = "x86_64")]
mod linux;
#[cfg(probe_backend = "x86_64")]
pub(crate) use linux::*;
