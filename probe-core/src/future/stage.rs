//! The progress of a future: whether a poll is its first one, and whether a drop cancels it.
//!
//! The future of an `async` block has this state itself: its discriminant says at which await it
//! is, and [`mem::discriminant`] reads it. For types that are not enums, the value is unspecified,
//! but not undefined. The tests below check the values that rustc uses: 0 before the first poll, 1
//! after the end, 2 after a panic, and 3 or more at an await. Other futures have no such state, so
//! a byte of our own is stored next to them.
//!
//! Reading the discriminant takes a shared borrow of the whole future, while variables inside may
//! be borrowed mutably across an await. So each such block holds an [`Unfrozen`]: memory behind the
//! shared borrow may then change, and the future's inner borrows stay valid.

// Safety: `Unfrozen` holds no data that threads could share.
#![expect(unsafe_code, reason = "see above")]

use core::cell::UnsafeCell;
use core::hash::{Hash, Hasher};
use core::mem;
use core::panic::RefUnwindSafe;

/// The progress of a future of type `F`.
pub trait Stage<F: ?Sized> {
    /// Returns whether no poll has begun.
    fn is_fresh(&self, future: &F) -> bool;

    /// Returns whether a poll has begun, and none has ended the future.
    fn is_suspended(&self, future: &F) -> bool;

    /// Returns an address that differs from that of every other future of this probe, while neither
    /// is moved.
    fn address(&self, future: *const F) -> usize;

    /// Notes that the first poll begins.
    fn begin(&mut self);

    /// Notes that the future has ended.
    fn end(&mut self);
}

/// The future itself has its state: it is the future of an `async` block.
#[derive(Clone, Copy, Debug)]
pub struct Told;

impl<F> Stage<F> for Told {
    #[inline(always)]
    fn is_fresh(&self, future: &F) -> bool {
        discriminant(future) == 0
    }

    #[inline(always)]
    fn is_suspended(&self, future: &F) -> bool {
        discriminant(future) >= 3
    }

    /// Returns the future's own address. Its size is at least one byte, for the discriminant.
    #[inline(always)]
    fn address(&self, future: *const F) -> usize {
        future.addr()
    }

    #[inline(always)]
    fn begin(&mut self) {}

    #[inline(always)]
    fn end(&mut self) {}
}

/// A variable in the future of an `async` block, from its first statement on. It gives the future's
/// type interior mutability, without taking space. It is borrowed, so that the compiler keeps it
/// across awaits.
#[derive(Debug)]
pub struct Unfrozen(UnsafeCell<()>);

impl Unfrozen {
    /// Creates the variable.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "only expansions call it")]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(()))
    }
}

// SAFETY: its size is 0, so no access touches memory.
unsafe impl Sync for Unfrozen {}

impl RefUnwindSafe for Unfrozen {}

/// The state is stored next to the future.
#[derive(PartialEq, Eq, Debug)]
pub enum Noted {
    /// No poll has begun.
    Fresh,
    /// The first poll has begun.
    Begun,
    /// A poll has ended the future.
    Ended,
}

/// A clone is a separate future that has not been polled.
impl Clone for Noted {
    fn clone(&self) -> Self {
        Self::Fresh
    }
}

impl<F> Stage<F> for Noted {
    #[inline(always)]
    fn is_fresh(&self, _: &F) -> bool {
        *self == Self::Fresh
    }

    #[inline(always)]
    fn is_suspended(&self, _: &F) -> bool {
        *self == Self::Begun
    }

    /// Returns the address of the byte: the future may begin with another future of this probe, and
    /// may have size 0.
    #[inline(always)]
    fn address(&self, _: *const F) -> usize {
        (&raw const *self).addr()
    }

    #[inline(always)]
    fn begin(&mut self) {
        *self = Self::Begun;
    }

    #[inline(always)]
    fn end(&mut self) {
        *self = Self::Ended;
    }
}

#[inline(always)]
fn discriminant<F>(future: &F) -> u64 {
    /// Receives the one integer that a discriminant hashes.
    struct Number(u64);

    impl Hasher for Number {
        #[inline(always)]
        fn write(&mut self, bytes: &[u8]) {
            let mut whole = [0; 8];
            let len = bytes.len().min(8);
            whole[..len].copy_from_slice(&bytes[..len]);
            self.0 = u64::from_le_bytes(whole);
        }

        #[inline(always)]
        fn write_u32(&mut self, number: u32) {
            self.0 = number.into();
        }

        #[inline(always)]
        fn finish(&self) -> u64 {
            self.0
        }
    }

    let mut number = Number(0);
    mem::discriminant(future).hash(&mut number);
    number.0
}

#[cfg(test)]
mod tests {
    use core::future::{Future, poll_fn};
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    async fn yield_now() {
        let mut is_second = false;
        poll_fn(|_| if mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn stages<F: Future>(future: F) -> [Vec<bool>; 2] {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        let mut stages = [Vec::new(), Vec::new()];
        loop {
            stages[0].push(Told.is_fresh(&*future));
            stages[1].push(Told.is_suspended(&*future));
            if stages[0].len() > 1 && !stages[1].last().unwrap() {
                return stages;
            }
            let _ = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a shared reference to a future that refers to itself: rust-lang/rust#137750")]
    fn an_async_block_has_its_stage() {
        assert_eq!(stages(async {}), [vec![true, false], vec![false, false]]);
        assert_eq!(stages(yield_now()), [vec![true, false, false], vec![false, true, false]]);
        let three = async {
            let text = String::from("held");
            yield_now().await;
            yield_now().await;
            text.len()
        };
        assert_eq!(stages(three), [vec![true, false, false, false], vec![false, true, true, false]]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a shared reference to a future that refers to itself: rust-lang/rust#137750")]
    fn a_future_that_panicked_has_ended() {
        let panics = async {
            yield_now().await;
            panic!("on purpose");
        };
        assert_eq!(stages(panics), [vec![true, false, false], vec![false, true, false]]);
    }
}
