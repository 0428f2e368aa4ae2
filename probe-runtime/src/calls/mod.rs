//! Calls: entries and exits, paired.
//!
//! What a consumer that measures has to know of each call: when it began, what of it were the calls
//! inside, whether it ended. [`Calls`] keeps a stack of the calls under way for each thread, and
//! hands each that ends to a [`Meter`], with the differences of whatever the meter reads: a clock's
//! ticks, a processor's counters, several at once.
//!
//! ```text
//! entry              ▶ a frame on the thread's stack            (what the meter read)
//! exit               ▶ the frame is taken off: elapsed, inner   ▶ Meter::end, and added to its caller's inner
//! a future's polls   ▶ frames as well; entry to exit lies in the table of pending futures
//! ```
//!
//! # What belongs together
//! - **Recursion**: the innermost call ends first.
//! - **Unwinding**: in Rust, the exit's site is a guard's drop, so a panic passes it.
//! - **C code**: a call left by `longjmp` or an exception passes no exit. Its stack pointer tells:
//!   once a hit comes from further up in the stack, the call is over, and counted as [without an
//!   exit](Unpaired::without_exit). Where code runs on another stack (`sigaltstack`,
//!   `swapcontext`), calls of C code may be counted so although they go on; their exits are then
//!   without an entry.
//! - **Switching**: attaching, pausing and holding hide hits. Only hits of one
//!   [generation](crate::Event::generation) are paired; a call that spans two is counted as without
//!   an exit, or an entry, or both.
//! - **Futures**: a poll is a frame, from entry or resume to suspend or exit, on whatever thread.
//!   The sum of a future's polls is the time that it was on a processor; from entry to exit, less
//!   that, it was awaited. One that is dropped before was cancelled.
//!
//! Nothing is guessed: a hit that finds no partner is counted.
//!
//! # Cost
//! On a hit: no lock, no locked instruction, no heap, no system call. The thread's first hit maps
//! its memory: half a megabyte of addresses for frames, less for pending futures, and what the
//! meter wants for each function, of which the touched pages are real. A future that ends on
//! another thread than it began on is looked for in the memory of all threads.

mod frames;
mod functions;
mod futures;
mod hit;
mod meter;
mod once;
mod thread;

pub use frames::add;
#[cfg(feature = "profiler")]
pub(crate) use functions::{Act, Selected, Step};
pub use functions::{Function, LeftOut};
pub use hit::Calls;
pub use meter::{Ended, Meter, Unpaired, Whole};
pub use once::OnceCalls;
