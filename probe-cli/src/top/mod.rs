//! `top`: a running program's functions on the whole terminal.
//!
//! A thread asks the program four times a second about the functions on the screen, and less often
//! about all functions if those answers take the program long ([`Poller`]). Another thread draws
//! and takes keys, so that a slow or stopped program delays no key. A profiler estimates all
//! functions of the selector, within a budget of the program's CPU time. The functions that the
//! user chooses are measured: each of their calls, by a histogram.
//!
//! Threads are read from the kernel, not from the program.
//!
//! Flow: reports (JSON) ▶ functions, with rates between two reports ▶ view (rows, by keys) ▶ draw.

mod draw;
mod figure;
mod functions;
mod poller;
mod terminal;
mod threads;
mod view;

pub use draw::{draw, draw_last};
pub use poller::{Poller, Query};
pub use terminal::FullScreen;
pub use view::{Key, View};

#[cfg(test)]
mod tests;
