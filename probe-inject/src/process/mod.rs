//! A process as it is seen from outside: its state, its mappings, and its threads, which can be
//! stopped one by one.

mod filter;
mod maps;
mod rights;
mod seize;
mod status;
mod thread;

pub use filter::{Filters, RESTART, RETURN, all_survive, passes, survives};
pub use maps::{Mapping, maps};
pub use rights::check;
pub use seize::{Reason, briefly, seize};
pub use status::{Activity, Status, System, activity, threads, worker};
pub use thread::{LOOK, Registers, Stopped, Thread};
