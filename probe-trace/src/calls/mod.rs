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

mod future;
mod pairing;
mod rule;
mod stack;
mod step;

#[cfg(test)]
mod tests;

pub use pairing::Pairing;
pub use step::{Begin, End, Ending, Fields, FutureId, Instant, Slice, Step, Track};

use crate::item::Item;

/// Makes steps of a trace's items. The first error ends the steps: it comes after the ends of all
/// open slices.
///
/// A thread has at most 4096 open slices. One more ends all of them, with [`Ending::Limit`]: a
/// program that is traced at its entries only would fill the memory otherwise.
///
/// ```
/// use std::convert::Infallible;
/// use probe_trace::{Item, calls};
/// let items: Vec<Result<Item, Infallible>> = Vec::new();
/// assert_eq!(calls::Calls::new(items).count(), 0);
/// ```
pub struct Calls<I, E> {
    items: I,
    pairing: Pairing,
    error: Option<E>,
    is_done: bool,
}

impl<I: Iterator<Item = Result<Item, E>>, E> Calls<I, E> {
    /// Pairs these items, which come in the order of time.
    pub fn new(items: impl IntoIterator<IntoIter = I>) -> Self {
        Self { items: items.into_iter(), pairing: Pairing::default(), error: None, is_done: false }
    }
}

impl<I: Iterator<Item = Result<Item, E>>, E> Iterator for Calls<I, E> {
    type Item = Result<Step, E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(step) = self.pairing.step() {
                return Some(Ok(step));
            }
            if self.is_done {
                return self.error.take().map(Err);
            }
            match self.items.next() {
                Some(Ok(item)) => self.pairing.take(item),
                end => {
                    self.error = end.and_then(Result::err);
                    self.is_done = true;
                    self.pairing.finish();
                }
            }
        }
    }
}
