//! A process as it is seen from outside: its state, its mappings, and its threads, which can be
//! stopped one by one.

mod access;
mod maps;
mod seccomp;
mod seize;
mod status;
mod tracee;

pub use access::check;
pub use maps::{Mapping, maps};
pub use seccomp::{Filters, RESTART, RETURN, all_survive, passes, survives};
pub use seize::{Reason, briefly, seize};
pub use status::{Activity, Status, System, activity, threads, worker};
pub use tracee::{LOOK, Registers, Stopped, Thread};
