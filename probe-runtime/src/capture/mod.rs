//! Captures: what a site's fields are made of, between the user's expression and the
//! [`Value`](crate::abi::Value) that a consumer sees.
//!
//! ```text
//! id, x = expr    Field                                     the type says how
//! ?x, %x          kept ▸ Debug or Display                   formatted when a consumer asks for it
//! args(*), ret    by_type: Field ▸ Debug ▸ the type's name  decided where the function is compiled
//! ```
//! Life: everything here is inlined into cold blocks, runs only while a probe is active, and is
//! gone when its hit returns. What the user's code does there may panic: [`contain`] ends that, and
//! counts it.
//!
//! Cost on the hot path: none. A small value whose address a consumer may get is copied in the cold
//! block (`kept`), so the variable itself stays in a register.

use core::mem::ManuallyDrop;

mod by_type;
mod contain;
mod kept;

pub use by_type::{Captured, Capturing, Returned};
pub use contain::contain;
pub(crate) use contain::contained;
#[cfg(feature = "std")]
pub use contain::failed_captures;
pub use kept::{Kept, Resulting, shown_as_debug, shown_as_display, shown_as_it_is};

/// Takes its argument by value and does not return: the body of a function that is turned into a
/// closure gets so hold of arguments that it would otherwise only borrow.
#[cold]
pub fn moved<T>(_argument: T) -> ! {
    unreachable!("called behind `if false` only")
}

/// Ends the guard of a way out that was not taken. `core::mem::forget`, by that name, is what a
/// lint that users may have switched on looks for.
#[inline(always)]
pub fn forget<T>(guard: T) {
    let _ = ManuallyDrop::new(guard);
}

/// Calls the body of a function. The bound makes its closure one that is called once, which may
/// return what it has borrowed mutably.
#[inline(always)]
pub fn run<R>(body: impl FnOnce() -> R) -> R {
    body()
}
