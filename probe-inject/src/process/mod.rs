//! A process as it is seen from outside: its state, its mappings, and its threads, which can be
//! stopped one by one.

mod access;
mod proc;
mod seccomp;
mod tracee;

pub use access::{SkipReason, check_access, seize, with_seized};
pub use proc::{Activity, Mapping, Memory, Syscall, TaskStatus, activity, is_io_worker, maps, threads};
pub use seccomp::{Filters, RESTART_SYSCALL, RT_SIGRETURN, all_allow, none_ever_kills, none_kills};
#[cfg(test)]
pub use tracee::zeroed_registers;
pub use tracee::{POLL_INTERVAL, Registers, Tracee, TraceeState};
