//! A reference model of instruction fetch, which the patch engine's plans are checked against.
//!
//! The model is that of "Living on the edge", section 3, stated as weakly as it can be:
//!
//! - Memory changes by atomic writes to aligned words ([`memory`]).
//! - A thread fetches an instruction unit by unit, a unit being an aligned granule of memory
//!   ([`fetch`]). Each read returns *any* value that its unit has held since the thread last
//!   serialised: reads are reordered, left out in favour of older ones ("elided"), and go back in
//!   time. A read never returns a value that was never written.
//! - A sync makes every thread serialise: no later read returns an older value. Staleness has no
//!   other bound. A sync stands for the barrier and for a wait of `T_max` alike.
//!
//! Within these rules every mix of bytes that can be fetched is enumerated: the spaces are small.
//! [`effect`] decodes the bytes that a thread fetches. The granule is 8 bytes where the engine
//! relies on aligned writes being atomic for fetch, and 1 byte where it relies on no such promise.
//!
//! `protocol` checks protocols in general, `sites` the three instructions of a probe's site, `word`
//! the plans of wordpatch, and `model` in `call` those of callpatch. Each claim has a counterpart,
//! in which the model gets a wrong protocol and must find the error.

mod fetch;
mod memory;
mod protocol;
mod word;

pub(super) use fetch::fetched;
pub(super) use memory::{History, LINE, Memory, ModelStep, write};
