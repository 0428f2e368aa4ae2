//! Tells a future whose entry is inside of it its own address, through the context of its polls.
//!
//! Each poll gets a context that is made for it, with the waker of the poll's own context. So the
//! extension data of nightly's `Context` (`ext`) does not reach the future. The context is a field
//! of an [`Entered`], which has the address next to it. The future gets a reference to the context
//! only, and the address is outside of its bounds. So [`address`] uses exposed provenance, which
//! Miri's `-Zmiri-strict-provenance` rejects.

// Safety: relies on `address` being awaited in a future that `Probed` polls, which lends an
// `Entered` to each poll.
#![expect(unsafe_code, reason = "see above")]

use core::future::Future;
use core::mem::offset_of;
use core::pin::Pin;
use core::ptr;
use core::task::{Context, Poll};

/// The context of a poll, and the address of the polled future.
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

    /// Returns the context to poll with; [`address`] finds the address next to it. It is valid
    /// until the poll ends.
    #[inline(always)]
    pub(super) fn lend<'y>(&mut self) -> &mut Context<'y> {
        let whole = &raw mut *self;
        whole.expose_provenance();
        // SAFETY: `Context` is the first field, borrowed for as long as the whole. Its waker lives
        // until the end of the poll that borrows it, which can't keep a reference of either
        // lifetime.
        unsafe { &mut *whole.cast() }
    }
}

/// A future that is ready at once. Its output is the address of the future that awaits it.
#[derive(Debug)]
pub struct Address(());

/// Returns the address of the future in which this is awaited.
///
/// # Safety
/// Await it directly in a future that [`Probed`](super::Probed) polls and whose sites enter inside;
/// not through another future that polls with its own context.
#[inline(always)]
pub const unsafe fn address() -> Address {
    Address(())
}

impl Future for Address {
    type Output = usize;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<usize> {
        let entered = ptr::with_exposed_provenance::<Entered<'_>>((&raw const *context).addr());
        // SAFETY: `Probed` lends the context of an `Entered` to every poll (the caller's promise).
        // It has exposed the provenance, and `at` is not borrowed.
        Poll::Ready(unsafe { (&raw const (*entered).at).read() })
    }
}
