//! How a future that is entered inside learns its own address: with the context of its polls.
//!
//! The context is one of our own, made for each poll, with the waker of the poll's: what else
//! nightly's `Context` carries (`ext`) does not reach the future. It is a field of an [`Entered`];
//! the address beside it is out of the bounds of the reference that the future gets, so [`address`]
//! goes there through exposed provenance, which Miri's `-Zmiri-strict-provenance` refuses.

// Safety: relies on `address` being awaited in a future that `Probed` polls, which lends an
// `Entered` to each poll.
#![expect(unsafe_code, reason = "see above")]

use core::future::Future;
use core::mem::offset_of;
use core::pin::Pin;
use core::ptr;
use core::task::{Context, Poll};

/// The context of a poll, and the address of what is polled.
#[repr(C)]
pub(super) struct Entered<'a> {
    context: Context<'a>,
    at: usize,
}

const _: () = assert!(offset_of!(Entered<'_>, context) == 0);

impl<'a> Entered<'a> {
    pub(super) fn new(outer: &'a Context<'_>, at: usize) -> Self {
        Self { context: Context::from_waker(outer.waker()), at }
    }

    /// The context to poll with; [`address`] finds the rest around it. It is gone when the poll
    /// ends.
    #[inline(always)]
    pub(super) fn lend<'y>(&mut self) -> &mut Context<'y> {
        let whole = &raw mut *self;
        whole.expose_provenance();
        // SAFETY: `Context` is its first field, borrowed for as long as the whole. Its waker lives
        // until the poll that it is lent to ends, which can't keep a reference of either lifetime.
        unsafe { &mut *whole.cast() }
    }
}

/// A future that is ready at once, with the address of the one that awaits it first of all.
#[derive(Debug)]
pub struct Address(());

/// The address of the future that this is awaited in.
///
/// # Safety
/// It is awaited in a future that [`Probed`](super::Probed) polls, whose sites enter inside, and by
/// itself: not through another future that polls with a context of its own.
#[inline(always)]
pub const unsafe fn address() -> Address {
    Address(())
}

impl Future for Address {
    type Output = usize;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<usize> {
        let entered = ptr::with_exposed_provenance::<Entered<'_>>((&raw const *context).addr());
        // SAFETY: `Probed` lends the context of an `Entered` to every poll (the caller's promise);
        // it has exposed it, and `at` is not borrowed.
        Poll::Ready(unsafe { (&raw const (*entered).at).read() })
    }
}
