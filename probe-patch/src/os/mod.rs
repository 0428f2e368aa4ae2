//! Services of the operating system for patching and for getting ready:
//!
//! - `cancel::Uncancellable`: this thread can't be cancelled meanwhile;
//! - `chained_handler::ChainedHandler`: a handler on top of a program's own;
//! - `fork::{install, process}`: hooks around `fork`, and a number that tells a child from its
//!   parent;
//! - `pin::{pin, pin_object}`: keep this code, or another object, loaded;
//! - on Linux: `memory`, straight from the kernel; `thread`;
//! - where code is patched: `guarded_read`, for texts that may not be readable; `text::protect`,
//!   `maps::Maps`, `mem::Alias`, `trap`; `blocking`, which finds obstacles to a trap;
//!   `pin::iterate`; `heavy_barrier`: when it returns, all threads have passed a full fence and a
//!   serialising instruction.
//!
//! # Signal handlers
//! The handlers of this crate call these, which take neither a lock nor heap, and keep `errno`:
//! `ChainedHandler::pass_on`, `mem::Alias::{open, read, write}`, `heavy_barrier`, `Uncancellable`,
//! `memory` and `thread`. Each makes system calls by number, or calls a function that may be called
//! in a handler: `sigaction`, `pthread_sigmask`, `pthread_setcancelstate`, `raise`, `fstat`,
//! `getpid`, `mmap`.
//!
//! System calls are made by number where a program may have replaced the C library's function by
//! one with a probe in it. `rustix` does not promise that: with its feature `use-libc`, which any
//! crate of a program can turn on, it calls those functions. It lacks half of the calls, too
//! (`rt_sigaction`, `rt_sigprocmask`, `tgkill`, `process_vm_readv`).

#[cfg(all(any(target_os = "linux", target_os = "android"), any(not(miri), probe_in_place)))]
pub mod chained_handler;
#[cfg(all(unix, any(not(miri), probe_in_place)))]
pub mod fork;
#[cfg(probe_system = "linux")]
pub mod memory;
#[cfg(probe_system = "linux")]
pub mod thread;

#[cfg(not(probe_backend = "patched"))]
pub use generic::*;

/// Linux.
#[cfg(probe_backend = "patched")]
mod linux {
    pub mod blocking;
    pub mod cancel;
    pub mod guarded_read;
    pub mod maps;
    pub mod mem;
    pub mod pin;
    pub mod text;
    pub mod trap;

    mod barrier;

    pub use barrier::{has_membarrier, heavy_barrier};
}
#[cfg(probe_backend = "patched")]
pub use linux::*;

/// Other systems, where no code is patched; and Linux, for upper crates that patch no code.
pub mod generic {
    /// No process forks here.
    #[cfg(any(not(unix), miri))]
    pub mod fork {
        /// Returns 1, the number of the only process.
        pub fn process() -> u64 {
            1
        }

        /// Does nothing.
        pub fn install(_before: extern "C" fn(), _parent: extern "C" fn(), _child: extern "C" fn()) {}
    }

    /// Only the C library can cancel a thread; the standard library can't.
    pub mod cancel {
        /// Does nothing.
        pub struct Uncancellable(());

        impl Uncancellable {
            pub fn new() -> Self {
                Self(())
            }
        }
    }

    /// No code of one object leads into another. A thread that executes an object's code keeps it
    /// loaded.
    pub mod pin {
        /// The object that can't be kept, and the reason.
        pub struct Unpinned {
            pub object: String,
            pub reason: String,
        }

        /// Does nothing: no object needs to be kept.
        ///
        /// # Errors
        /// None.
        pub fn pin() -> Result<(), Unpinned> {
            Ok(())
        }

        /// Does nothing: no object needs to be kept.
        ///
        /// # Errors
        /// None.
        pub fn pin_object(_address: usize) -> Result<(), Unpinned> {
            Ok(())
        }
    }
}
