//! Counting in a program that runs no code of ours, and gets none: static programs, other C
//! libraries, sandboxes. `count --ptrace`, `enable --ptrace`, `disable --ptrace`.
//!
//! The sites are switched from here while all threads stand. An active site leads to a stub that
//! increments a counter, in memory that a system call of the program's own has mapped. That is all
//! that can be had without a runtime: no fields, no times, no threads.

#[cfg(target_arch = "x86_64")]
mod counter_page;
#[cfg(target_arch = "x86_64")]
mod counting;
#[cfg(target_arch = "x86_64")]
mod detach_stub;
#[cfg(target_arch = "x86_64")]
mod raise_priority;
#[cfg(target_arch = "x86_64")]
mod select;
#[cfg(target_arch = "x86_64")]
mod stub;
#[cfg(target_arch = "x86_64")]
mod switch;

#[cfg(target_arch = "x86_64")]
pub use counting::{Counters, Counting};
