//! Captures turn the user's expressions into the fields of a site: each becomes a
//! [`Value`](crate::abi::Value) that a consumer sees.
//!
//! ```text
//! id, x = expr    Field                                     the type says how
//! ?x, %x          kept ▸ Debug or Display                   formatted when a consumer asks for it
//! args(*), ret    by_type: Field ▸ Debug ▸ the type's name  decided where the function is compiled
//! ```
//! Life cycle: all code here is inlined into cold blocks, runs only while a probe is active, and
//! keeps nothing after the hit. If the user's code panics there, [`contain`] catches the panic and
//! counts it.
//!
//! Cost on the hot path: none. A small value whose address a consumer may get is copied in the cold
//! block (`kept`), so the variable itself stays in a register.

use core::mem::ManuallyDrop;

/// Leads the compiler to the type whose methods it tries next.
macro_rules! next {
    ($($this:ident => $next:ident),*) => { $(
        impl<'a, T: ?Sized> core::ops::Deref for $this<'a, T> {
            type Target = $next<'a, T>;

            #[inline(always)]
            fn deref(&self) -> &$next<'a, T> {
                &self.0
            }
        }
    )* };
}

mod by_type;
mod contain;
mod kept;

pub use by_type::{Captured, Capturing, Returned};
pub use contain::contain;
pub(crate) use contain::contained;
#[cfg(feature = "std")]
pub use contain::failed_captures;
pub use kept::{Kept, Resulting, shown_as_debug, shown_as_display, shown_as_it_is};

/// Takes its argument by value and does not return. When a function's body becomes a closure, this
/// makes the closure own arguments that it would otherwise only borrow.
#[cold]
pub fn moved<T>(_argument: T) -> ! {
    unreachable!("called behind `if false` only")
}

/// Ends the guard of an exit that was not taken. This is not called as `core::mem::forget`, because
/// users may enable a lint that looks for that name.
#[inline(always)]
pub fn forget<T>(guard: T) {
    let _ = ManuallyDrop::new(guard);
}

/// Calls the body of a function. The `FnOnce` bound lets the closure return values that it has
/// borrowed mutably.
#[inline(always)]
pub fn run<R>(body: impl FnOnce() -> R) -> R {
    body()
}
