//! `top`: a running program's functions on the whole terminal.
//!
//! A thread asks the program four times a second about the functions on the screen, and less often
//! about all if those answers take the program long ([`Poller`]). Another one draws and takes keys,
//! so that a program that is slow or stopped delays no key. All functions of the selector are
//! estimated by a profiler, within a budget of the program's CPU time. Those that somebody chooses
//! are measured: each of their calls, by a histogram.
//!
//! Threads are read from the kernel, not from the program.
//!
//! Flow: reports (JSON) ▶ functions, with rates between two of them ▶ view (rows, by keys) ▶ drawn.

mod callers;
mod draw;
mod figure;
mod functions;
mod pace;
mod poller;
mod reports;
mod terminal;
mod threads;
mod view;
mod worker;

pub use draw::draw;
pub use poller::{Poller, Query};
pub use terminal::FullScreen;
pub use view::{Key, View};

#[cfg(test)]
mod tests;
