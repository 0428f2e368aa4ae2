//! Calls of functions in another process.
//!
//! ```text
//! turn ▸ regions ─┬─▶ (the first time) mmap ▸ code is written ▸ mprotect
//!                 └─▶ words are written ▸ the stub is called ▸ its end is waited for
//! each call: threads, the likeliest first ▸ stop ▸ moment ▸ frame is written ▸ registers ▸ let go
//! ```
//! A call is a signal that the kernel did not send. The thread's stack gets the frame of a handler,
//! and then one request changes all registers: the handler is the function. Before that request
//! nothing has happened, as bytes below the red zone are nobody's. After it the thread makes the
//! call, and `rt_sigreturn` gives back registers, extended state and mask, whatever happens to the
//! caller. No text is written. A call whose caller has died is waited for by the next one.
//!
//! One thread is stopped, for as long as it takes to read and write its state. The others need not
//! stop: nothing that they execute is changed. Signals are blocked during the call, but those that
//! an instruction raises.

mod call_lock;
mod filtered;
mod gadgets;
mod hijack;
mod map;
mod remote_call;
mod restart;
mod safe_point;
mod scratch;
mod signal_frame;
mod stub;
mod target;
mod unwind;
mod wait;
mod xstate;

pub use remote_call::{Call, MemoryFile, Returned};
pub use safe_point::{Places, is_filtered, repeat, stop};
pub use target::Process;
