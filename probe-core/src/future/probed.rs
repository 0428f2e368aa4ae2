//! Wraps a future with probes.

// Safety: relies on structural pinning: `future` is never moved once it is pinned, and is not
// accessible in any other way.
#![expect(unsafe_code, reason = "see above")]

use core::future::Future;
use core::marker::PhantomData;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::context::Entered;
use super::{Sites, Stage};

/// A future whose polls pass probes. It is as large as `F` if `G` and `E` have size 0. `E` always
/// has; `G` has for the future of an `async` block.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Probed<F, S, G, E>
where
    S: Sites,
    G: Stage<F>,
{
    future: F,
    stage: G,
    /// The exit's site. It gets no result after a panic.
    exit: E,
    sites: PhantomData<fn() -> S>,
}

impl<F, S, G, E> Probed<F, S, G, E>
where
    F: Future,
    S: Sites,
    G: Stage<F>,
    E: Fn(usize, Option<&F::Output>),
{
    /// Wraps a future that has not been polled.
    #[inline(always)]
    pub fn new(_: S, future: F, stage: G, exit: E) -> Self {
        Self { future, stage, exit, sites: PhantomData }
    }
}

/// A clone is a separate future: its first poll is its entry, however far the original is.
impl<F, S, G, E> Clone for Probed<F, S, G, E>
where
    F: Clone,
    S: Sites,
    G: Stage<F> + Clone,
    E: Clone,
{
    fn clone(&self) -> Self {
        Self {
            future: self.future.clone(),
            stage: self.stage.clone(),
            exit: self.exit.clone(),
            sites: PhantomData,
        }
    }
}

impl<F, S, G, E> Future for Probed<F, S, G, E>
where
    F: Future,
    S: Sites,
    G: Stage<F>,
    E: Fn(usize, Option<&F::Output>),
{
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: nothing is moved out of it; `future` is polled through its own pin.
        let Self { future, stage, exit, .. } = unsafe { self.get_unchecked_mut() };
        let at = stage.address(&raw const *future);
        if stage.is_fresh(future) {
            stage.begin();
            S::entry(at);
        } else {
            S::resume(at);
        }
        let mut entered;
        // Each poll gets the context, not only the first: the future's read must not depend on the
        // stage.
        let context = if S::ENTERS_INSIDE {
            entered = Entered::new(context, at);
            entered.lend()
        } else {
            context
        };
        let panicked = Panicked { at, stage: &mut *stage, exit: &*exit, future: PhantomData::<F> };
        // SAFETY: it is pinned with the whole, and stays in place until it is dropped with the
        // whole.
        let polled = unsafe { Pin::new_unchecked(future) }.poll(context);
        // Before the exit's site: if a field panics there, the exit must not be hit a second time.
        mem::forget(panicked);
        match &polled {
            Poll::Ready(result) => {
                stage.end();
                exit(at, Some(result));
            }
            Poll::Pending => S::suspend(at),
        }
        polled
    }
}

/// Hits the exit without a result: dropped when a future's poll panics.
struct Panicked<'a, F, G, E>
where
    F: Future,
    G: Stage<F>,
    E: Fn(usize, Option<&F::Output>),
{
    at: usize,
    stage: &'a mut G,
    exit: &'a E,
    future: PhantomData<F>,
}

impl<F, G, E> Drop for Panicked<'_, F, G, E>
where
    F: Future,
    G: Stage<F>,
    E: Fn(usize, Option<&F::Output>),
{
    #[inline(always)]
    fn drop(&mut self) {
        self.stage.end();
        (self.exit)(self.at, None);
    }
}

impl<F, S, G, E> Drop for Probed<F, S, G, E>
where
    S: Sites,
    G: Stage<F>,
{
    #[inline(always)]
    fn drop(&mut self) {
        if self.stage.is_suspended(&self.future) {
            S::drop(self.stage.address(&raw const self.future));
        }
    }
}

/// Tests which sites the wrapper passes; the sites record their names.
#[cfg(test)]
mod tests {
    use core::future::{Future, ready};
    use core::pin::pin;
    use core::task::{Context, Waker};
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::Probed;
    use crate::future::{Noted, Sites};

    thread_local! {
        static PASSED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    fn passes(site: &'static str) {
        PASSED.with_borrow_mut(|passed| passed.push(site));
    }

    struct Names;

    impl Sites for Names {
        fn entry(_: usize) {
            passes("entry");
        }

        fn resume(_: usize) {
            passes("resume");
        }

        fn suspend(_: usize) {
            passes("suspend");
        }

        fn drop(_: usize) {
            passes("drop");
        }
    }

    /// As without `std`, where panics of fields are not caught.
    #[test]
    fn a_field_of_the_exit_that_panics_passes_it_once() {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let future = Probed::new(Names, ready(1), Noted::Fresh, |_, ended| {
                passes(if ended.is_some() { "exit" } else { "exit by a panic" });
                panic!("in a field");
            });
            let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
        }));
        assert!(polled.is_err());
        assert_eq!(PASSED.take(), ["entry", "exit"]);
    }
}
