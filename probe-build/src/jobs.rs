//! The units of a build, compiled in sequence, or in parallel with the feature `parallel`.
//!
//! Cargo limits the parallelism: this process may always do one thing at a time. Each further
//! thread takes a token of cargo's jobserver for each unit and returns it afterwards. A thread
//! without a token asks again from time to time, and stops when no work is left, so that no thread
//! waits for a useless token.

#[cfg(feature = "parallel")]
mod server;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does `work` for each item. The results are in the order of the items. After an error no further
/// item is started, and the first error in that order is returned.
pub(crate) fn run<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let queue = Queue {
        items,
        next: AtomicUsize::new(0),
        has_failed: AtomicBool::new(false),
        results: Mutex::new(Vec::new()),
    };
    #[cfg(feature = "parallel")]
    server::run_in_parallel(items.len(), &|| queue.is_empty(), &|| queue.step(&work), || {
        while queue.step(&work) {}
    });
    #[cfg(not(feature = "parallel"))]
    while queue.step(&work) {}
    let mut results = queue.results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

struct Queue<'a, T, R, E> {
    items: &'a [T],
    next: AtomicUsize,
    has_failed: AtomicBool,
    results: Mutex<Vec<(usize, Result<R, E>)>>,
}

impl<T, R, E> Queue<'_, T, R, E> {
    #[cfg_attr(not(feature = "parallel"), expect(dead_code, reason = "only further threads ask"))]
    fn is_empty(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) || self.next.load(Ordering::Relaxed) >= self.items.len()
    }

    /// Takes one item, if one is left, and does the work.
    fn step(&self, work: &(impl Fn(&T) -> Result<R, E> + Sync)) -> bool {
        if self.has_failed.load(Ordering::Relaxed) {
            return false;
        }
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = self.items.get(at) else { return false };
        let result = work(item);
        if result.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_each_item_is_done_once() {
        let items: Vec<usize> = (0..100).collect();
        let count = AtomicUsize::new(0);
        let results = run(&items, |item| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ()>(item * 2)
        });
        assert_eq!(results, Ok((0..100).map(|item| item * 2).collect()));
        assert_eq!(count.into_inner(), 100);
    }

    #[test]
    fn the_first_error_is_returned() {
        let items = [1, 2, 3];
        let results = run(&items, |item| if *item >= 2 { Err(*item) } else { Ok(()) });
        assert_eq!(results, Err(2));
    }
}
