//! Calls: pairs of an entry and an exit.
//!
//! A consumer that measures has to know when each call began, which part of it was spent in inner
//! calls, and whether it ended. [`Calls`] keeps a stack of the calls under way for each thread. It
//! hands each call that ends to a [`Meter`], with the differences of the meter's readings: a
//! clock's ticks, a processor's counters, several at once.
//!
//! ```text
//! entry              ▶ a frame on the thread's stack            (what the meter read)
//! exit               ▶ the frame is popped: elapsed, inner   ▶ Meter::end, and the caller's inner
//! a future's polls   ▶ frames as well; entry to exit lies in the table of pending futures
//! ```
//!
//! # Pairing
//! - **Recursion**: the innermost call ends first.
//! - **Unwinding**: in Rust, the exit's site is in the drop of a guard, so a panic passes it.
//! - **C code**: a call left by `longjmp` or an exception passes no exit. Its stack pointer
//!   decides: when a hit comes from further up in the stack, the call is over, and is counted as
//!   [without an exit](Unpaired::without_exit).
//! - **Several stacks** (stackful coroutines, `sigaltstack`): an exit ends a call whose entry had
//!   about its stack pointer, on any stack, in any order. Calls of C code may be counted as without
//!   an exit although they continue. Their exits are then without an entry. So may calls in Rust
//!   whose stacks lie less than 16 KiB apart. Calls that begin and end on another stack while a
//!   call waits are inside of that call, as if it had made them.
//! - **Switching**: attaching, pausing and holding hide hits. Only hits of one
//!   [generation](crate::Event::generation) are paired. A call that spans two generations is
//!   counted as without an exit, or without an entry, or both.
//! - **Futures**: a poll is a frame, from entry or resume to suspend or exit, on any thread. The
//!   sum of a future's polls is its time on a processor. The rest of the time from entry to exit
//!   was awaited. A future that is dropped before its exit was cancelled.
//!
//! Nothing is guessed: a hit that finds no partner is counted.
//!
//! # Cost
//! On a hit: no lock, no locked instruction, no heap, no system call. The thread's first hit maps
//! its memory: half a megabyte of addresses for frames, less for pending futures, and the meter's
//! part for each function. Only the touched pages take memory. If a future ends on another thread
//! than it began on, it is looked for in the memory of all threads.

mod frames;
mod functions;
mod futures;
mod hit;
mod meter;
mod thread;

pub use frames::add_single_writer;
pub(crate) use frames::{BASE, PASSED_BY, goes_on_after, key, place_of, surely_fits};
pub(crate) use functions::{AttachedFunctions, CallEffect, HitAction, PackedAction, SelectedFunctions};
pub(crate) use hit::place;
pub use hit::{Calls, LazyCalls};
pub use meter::{CallEnd, CompletedCall, Meter, Unpaired};
pub use probe_report::source::{Function, LeftOut};
