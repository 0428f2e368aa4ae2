//! Turns: a right that one thread of a process has at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::fork::process;

/// The process whose thread has the turn; 0 if no thread has it. A forked child ignores a turn that
/// was taken in its parent.
pub(crate) struct Turns(AtomicU64);

/// A turn, until it drops.
pub(crate) struct Turn<'a>(&'a AtomicU64);

impl Turns {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes the turn, unless a thread of this process has it.
    pub(crate) fn take(&self) -> Option<Turn<'_>> {
        let (holder, own) = (self.0.load(Ordering::Relaxed), process());
        let taken = || self.0.compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Only where it was taken: one that is made and dropped gives back the turn of another.
        if holder != own && taken() { Some(Turn(&self.0)) } else { None }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let turns = Turns::new();
        let turn = turns.take();
        assert!(turn.is_some() && turns.take().is_none());
        assert!(turns.take().is_none(), "a refused attempt releases nothing");
        drop(turn);
        assert!(turns.take().is_some());
    }

    #[test]
    fn a_forked_child_ignores_its_parents_turn() {
        let turns = Turns(AtomicU64::new(process() ^ 1));
        assert!(turns.take().is_some());
    }
}
