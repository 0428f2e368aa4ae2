//! Calls of functions in another process.
//!
//! ```text
//! call lock ▸ regions ─┬─▶ (the first time) mmap ▸ code is written ▸ mprotect
//!                      └─▶ words are written ▸ the stub is called ▸ wait for its end
//! each call: threads, the likeliest first ▸ stop ▸ safe point? ▸ frame is written ▸ registers ▸
//! detach
//! ```
//! A call is a signal that the kernel did not send. The thread's stack gets the frame of a handler.
//! Then one request changes all registers: the handler is the function. Before that request
//! nothing has happened, since nobody uses the bytes below the red zone. After it the thread makes
//! the call, and `rt_sigreturn` restores registers, extended state and mask, whatever happens to
//! the caller. No text is written. If the caller has died, the next one waits for the call's end.
//!
//! One thread is stopped, for as long as it takes to read and write its state. The others need not
//! stop: nothing that they execute changes. Signals are blocked during the call, but for those that
//! an instruction raises.

mod call_lock;
mod hijack;
mod remote_call;
mod restart;
mod safe_point;
mod scratch;
mod target;
mod unwind;

pub use remote_call::{CallResult, MemoryFile, RemoteCall};
pub use safe_point::{CriticalCode, has_filters, prepare_detach, stop};
pub use target::Process;
