//! Stops a panic of a capture in the site's cold block. The program continues, the hit is delivered
//! without the values, and the panic is counted.
//!
//! Captures are the user's code, and run because a consumer listens, so they must not change the
//! program's behaviour. Without the feature `std`, panics can't be caught and pass through.

#[cfg(feature = "std")]
use {
    core::sync::atomic::{AtomicU64, Ordering},
    std::panic::{AssertUnwindSafe, catch_unwind},
};

#[cfg(feature = "std")]
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of captures that panicked in this process so far: in the expression of a
/// field, or in its `Debug` or `Display` while a consumer formatted it.
///
/// The program notices nothing but the panic hook's message. If an expression panicked, all fields
/// of that hit are [`ValueRef::Failed`](crate::ValueRef::Failed), and the hit is delivered and
/// counted like any other. If formatting panicked, the text ends with `(panicked)`.
///
/// Each copy of this crate counts the captures of its own sites; a plugin may have a copy of its
/// own. A library that is built without the feature `std` can't catch panics, unless another crate
/// of the program enables that feature.
///
/// ```
/// use probe_runtime::losses::failed_captures;
/// use probe_runtime::{Count, probe, select};
///
/// #[probe(args(first = bytes[0]))]
/// fn first_of(bytes: &[u8]) -> usize {
///     bytes.len()
/// }
///
/// let hits = select("**::first_of")?.attach(Count::new())?;
/// assert_eq!(first_of(b"x") + first_of(b""), 1);
/// assert_eq!((hits.total(), failed_captures()), (4, 1));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[cfg(feature = "std")]
pub fn failed_captures() -> u64 {
    FAILED.load(Ordering::Relaxed)
}

/// Runs a site's captures and its hit, which sets the flag. Returns whether a capture panicked
/// before the hit, so that the hit is still to be made.
#[inline(always)]
pub fn contain(capture: impl FnOnce(&mut bool)) -> bool {
    let mut is_hit = false;
    let went_through = contained(|| capture(&mut is_hit)).is_some();
    !went_through && !is_hit
}

/// Returns the result of `capture`; `None` if it panicked, which is counted.
#[cfg(feature = "std")]
#[inline(always)]
pub(crate) fn contained<R>(capture: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(capture)) {
        Ok(result) => Some(result),
        Err(payload) => {
            count(payload);
            None
        }
    }
}

#[cfg(feature = "std")]
#[cold]
#[inline(never)]
fn count(payload: Box<dyn core::any::Any + Send>) {
    FAILED.fetch_add(1, Ordering::Relaxed);
    // Dropping the payload could panic again.
    core::mem::forget(payload);
}

/// Returns the result of `capture`.
#[cfg(not(feature = "std"))]
#[inline(always)]
#[expect(clippy::unnecessary_wraps, reason = "the same call as where panics can be caught")]
pub(crate) fn contained<R>(capture: impl FnOnce() -> R) -> Option<R> {
    Some(capture())
}
