//! A panic in a capture ends in its cold block: the program goes on, the hit is delivered without
//! the values, and the panic is counted.
//!
//! Captures are the user's code, run because somebody listens; they must not change what the
//! program does. Without the feature `std` nothing can end a panic, and it passes through.

#[cfg(feature = "std")]
use {
    core::sync::atomic::{AtomicU64, Ordering},
    std::panic::{AssertUnwindSafe, catch_unwind},
};

#[cfg(feature = "std")]
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Captures that panicked, in this process so far: the expression of a field, or its `Debug` or
/// `Display` while a consumer had it formatted.
///
/// The program has not noticed, apart from the panic hook's message. Where an expression panicked,
/// all fields of that hit are [`ValueRef::Failed`](crate::ValueRef::Failed), and the hit is
/// delivered and counted like any other. Where formatting did, its text goes on with `(panicked)`.
///
/// Each copy of this crate counts what its own sites capture; a plugin may have one of its own. A
/// site of a library without the feature `std`, in a program where nobody asks for it, contains
/// nothing.
///
/// ```
/// use probe_runtime::{Count, failed_captures, probe, select};
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

/// Runs a site's captures and its hit, which sets the flag; returns whether the hit is still to be
/// made, because a capture panicked before.
#[inline(always)]
pub fn contain(capture: impl FnOnce(&mut bool)) -> bool {
    let mut is_hit = false;
    let went_through = contained(|| capture(&mut is_hit)).is_some();
    !went_through && !is_hit
}

/// What `capture` returns; `None` if it panicked, which is counted.
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

/// What `capture` returns.
#[cfg(not(feature = "std"))]
#[inline(always)]
#[expect(clippy::unnecessary_wraps, reason = "the same call as where panics can be caught")]
pub(crate) fn contained<R>(capture: impl FnOnce() -> R) -> Option<R> {
    Some(capture())
}
