//! Expands `#[probe]` to bare NOPs: an aligned 5-byte NOP at each place of a site, without record,
//! definition, stub or cold block. It supports the same attribute on the same functions. This is
//! the baseline of latent code.
//!
//! A package that names this crate as its `probe-runtime` needs no change of its sources.

#![no_std]

pub use probe_macros::probe;

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// One NOP, placed like a site.
#[macro_export]
macro_rules! nop {
    () => {
        // SAFETY: a NOP has no effect on registers or memory.
        unsafe {
            $crate::__private::v1::asm!(
                ".p2align 3, , 4",
                ".byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
                options(nomem, nostack),
            )
        }
    };
}

/// Places NOPs at the entry and at each exit.
#[macro_export]
macro_rules! function {
    ($probe:tt) => {
        $crate::nop!();
        let __probe_exit = {
            struct __ProbeExit;
            impl $crate::__private::v1::Drop for __ProbeExit {
                #[inline(always)]
                fn drop(&mut self) {
                    $crate::nop!();
                }
            }
            __ProbeExit
        };
        const _: () = ();
    };
}

/// A function without sites stays unchanged.
#[macro_export]
macro_rules! skipped {
    ($probe:tt $(inside)?) => {};
}

/// A block's future is never borrowed.
#[macro_export]
macro_rules! unfrozen {
    () => {};
}

/// Places NOPs where each poll begins and ends.
#[macro_export]
macro_rules! future {
    ($probe:tt; $stage:expr; $future:expr) => {
        $crate::__private::v1::Bare($future)
    };
}

/// A future whose polls pass two NOPs.
pub struct Bare<F>(pub F);

impl<F: Future> Future for Bare<F> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the inner future is pinned with this one, and never moved.
        let future = unsafe { self.map_unchecked_mut(|it| &mut it.0) };
        nop!();
        let polled = future.poll(context);
        match &polled {
            Poll::Ready(_) => nop!(),
            Poll::Pending => nop!(),
        }
        polled
    }
}

/// The names that the expansion uses.
#[doc(hidden)]
pub mod __private {
    pub mod v1 {
        pub use core::arch::asm;
        pub use core::future::Future;
        pub use core::ops::Drop;

        pub use crate::{Bare, function, future, skipped, unfrozen};

        /// Has the type of an `async fn`'s first `return`.
        pub fn returned<T>() -> T {
            unreachable!("no code calls it")
        }

        /// The result type of a function pointer.
        pub trait Returning {
            type Output;
        }

        impl<T> Returning for fn() -> T {
            type Output = T;
        }

        /// Calls a body that returns a future.
        #[inline(always)]
        pub fn call_once<F: Future>(body: impl FnOnce() -> F) -> F {
            body()
        }
    }
}
