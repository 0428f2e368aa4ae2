//! The definitions of probes that join a trace.
//!
//! They are a chain, which is read without a lock. So a thread that reads it while another one
//! forks leaves nothing locked in the child, and a drain waits for nobody.
//!
//! Cost: a load for each time that probes have joined.

use std::iter;
use std::sync::{Arc, OnceLock};

/// The definitions, by the times that probes have joined.
#[derive(Default)]
pub(super) struct Joined(OnceLock<Box<Link>>);

struct Link {
    definitions: Arc<[u8]>,
    next: Joined,
}

impl Joined {
    fn iter(&self) -> impl Iterator<Item = &Link> {
        iter::successors(self.0.get(), |link| link.next.0.get()).map(|link| &**link)
    }

    /// Returns the definitions, without the first ones.
    pub(super) fn after(&self, first: usize) -> Vec<Arc<[u8]>> {
        self.iter().skip(first).map(|link| Arc::clone(&link.definitions)).collect()
    }

    /// Adds definitions. One thread at a time calls it.
    pub(super) fn add(&self, definitions: Arc<[u8]>) {
        let end = self.iter().last().map_or(self, |link| &link.next);
        let _ = end.0.set(Box::new(Link { definitions, next: Self::default() }));
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // One after the other: a long chain would use up the stack.
        let mut next = self.0.take();
        while let Some(mut link) = next {
            next = link.next.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_get_what_they_lack() {
        let joined = Joined::default();
        assert!(joined.after(0).is_empty());
        (0..3).for_each(|number| joined.add(Arc::from([number])));
        let read = |first| joined.after(first).iter().map(|it| it[0]).collect::<Vec<_>>();
        assert_eq!([read(0), read(2), read(3), read(9)], [vec![0, 1, 2], vec![2], vec![], vec![]]);
    }

    #[test]
    fn a_long_chain_is_dropped() {
        const LENGTH: usize = if cfg!(miri) { 100 } else { 50_000 };
        let mut joined = Joined::default();
        for _ in 0..LENGTH {
            let next = std::mem::take(&mut joined);
            let _ = joined.0.set(Box::new(Link { definitions: Arc::default(), next }));
        }
        assert_eq!(joined.after(LENGTH - 1).len(), 1);
    }
}
