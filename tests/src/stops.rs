//! The end of threads that a test starts.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a mark when dropped. Threads that continue until the mark is set end then, also if the test
/// fails: a scope waits for its threads before it hands on a panic.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
/// use std::thread;
///
/// use probe_tests::stops::Stops;
///
/// let stop = AtomicBool::new(false);
/// thread::scope(|scope| {
///     let _stops = Stops(&stop);
///     scope.spawn(|| while !stop.load(Relaxed) {});
///     assert_eq!(1 + 1, 2);
/// });
/// ```
#[derive(Debug)]
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
