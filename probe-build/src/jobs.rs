//! The units of a build, compiled in sequence, or in parallel with the feature `parallel`.
//!
//! Cargo limits the parallelism: this process may always do one thing at a time. Each further
//! thread takes a token of cargo's jobserver for each unit and returns it afterwards. A thread
//! without a token asks again from time to time, and stops when no work is left, so that no thread
//! waits for a useless token.

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

/// Further threads. Each holds a token of cargo's jobserver while it works.
#[cfg(feature = "parallel")]
mod server {
    // Safety: relies on cargo, which opens the descriptors whose numbers are in the environment,
    // and leaves them open. This process closes no descriptors that it has not opened.
    #![expect(unsafe_code, reason = "see above")]

    use std::num::NonZero;
    use std::sync::OnceLock;
    use std::time::Duration;
    use std::{env, thread};

    use jobserver::Client;

    /// The interval at which a thread without a token asks for one.
    const TOKEN_RETRY_INTERVAL: Duration = Duration::from_millis(10);

    /// Runs `own` on this thread and, in parallel, `step` on further ones as long as it returns
    /// true. There are at most `units` threads, and at most `NUM_JOBS`.
    pub(super) fn run_in_parallel(
        units: usize,
        is_done: &(dyn Fn() -> bool + Sync),
        step: &(dyn Fn() -> bool + Sync),
        own: impl FnOnce(),
    ) {
        let threads = units.min(limit());
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| {
                    while !is_done() {
                        match client().map(Client::try_acquire) {
                            // No jobserver: `NUM_JOBS` is the limit.
                            None => _ = step(),
                            Some(Ok(Some(_token))) => _ = step(),
                            Some(Ok(None)) => thread::sleep(TOKEN_RETRY_INTERVAL),
                            // The jobserver supports no query without waiting, so this thread ends.
                            Some(Err(_)) => return,
                        }
                    }
                });
            }
            own();
        });
    }

    fn limit() -> usize {
        let said = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok());
        said.or_else(|| thread::available_parallelism().ok().map(NonZero::get)).unwrap_or(1)
    }

    fn client() -> Option<&'static Client> {
        static CLIENT: OnceLock<Option<Client>> = OnceLock::new();
        // SAFETY: the descriptors in the environment are cargo's, see the module's documentation.
        CLIENT.get_or_init(|| unsafe { Client::from_env() }).as_ref()
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
