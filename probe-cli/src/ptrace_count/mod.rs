//! Counting in a program that runs no code of ours, and gets none: static programs, other C
//! libraries, sandboxes. `count --ptrace`, `enable --ptrace`, `disable --ptrace`.
//!
//! The sites are switched from here while all threads stand, and calls of the hooks of
//! `-finstrument-functions`, which still reach their hook then. An active site leads to a stub that
//! increments a counter, in memory that a system call of the program's own has mapped. That is all
//! that can be had without a runtime: no fields, no times, no threads.

mod counter_page;
mod counting;
mod detach_stub;
mod instruction;
mod select;
mod switch;

pub use counting::{Counters, Counting, waiting};
