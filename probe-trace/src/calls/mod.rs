//! Calls and futures: pairs the entries with the exits of each thread.
//!
//! Hits become [steps](Step) that begin and end slices. A trace may lack some hits: it begins while
//! calls are open, it has gaps, probes are switched, `longjmp` leaves calls, the process is killed.
//! The steps nest in each case: slices that no hit ends get an end that [says why](Ending), and an
//! exit without an entry is an [instant](Instant) that is marked.
//!
//! - Calls of C code may end without an exit. Their stack pointers tell which calls the program has
//!   left. Consumers in the program pair by the same rule.
//! - A trace has no stack pointers of Rust functions. If one such function is under way in several
//!   coroutines of a thread, an exit ends the call that began last.
//! - A future has a [track](Track) of its own: a slice from its entry to its exit or drop, and
//!   inside of it a slice for each poll and each wait. Polls are on the track of their thread, too,
//!   where the calls inside of them nest.
//!
//! The pairing streams. It uses memory for each thread, each path, and each open call and future.

mod pairing;
mod step;
mod tracks;

#[cfg(test)]
mod tests;

pub use pairing::{Calls, Pairing};
pub use step::{Begin, End, Ending, Fields, FutureId, Instant, OffProcessor, Slice, Step, Track};
