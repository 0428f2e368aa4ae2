//! A process as it is seen from outside: its state, its mappings, and its threads, which can be
//! stopped one by one.

mod access;
mod maps;
mod seccomp;
mod seize;
mod status;
mod tracee;

pub use access::check_access;
pub use maps::{Mapping, maps};
pub use seccomp::{Filters, RESTART_SYSCALL, RT_SIGRETURN, all_allow, none_ever_kills, none_kills};
pub use seize::{SkipReason, seize, with_seized};
pub use status::{Activity, Syscall, TaskStatus, activity, is_io_worker, threads};
pub use tracee::{POLL_INTERVAL, Registers, Tracee, TraceeState};
