//! A future with probes: one NOP at the beginning of each poll, and one at its end.
//!
//! ```text
//! poll ──▶ entry | resume ──▶ the future's own poll ──▶ suspend | exit        drop, suspended ──▶ drop
//! ```
//!
//! Life cycle: a function with `#[probe]` creates it. Its first poll hits `entry`, and each later
//! one `resume`. A poll that ends without a result hits `suspend`; the poll that ends with it (or
//! with a panic) hits `exit`. If the future is dropped after its entry and before its exit, it hits
//! `drop`.
//!
//! Between two hits of one future, a thread is either in it (from `entry` or `resume` to `suspend`
//! or `exit`) or not. So its time on the processor and its awaited time can be measured separately.
//! This works under any executor and through any combinator, since the awaits inside are not
//! involved.
//!
//! Every hit has an address in the future as the field `future`. The future of an `async` block
//! stays at its place from its first poll until it is dropped. So hits with one address belong
//! together, from `entry` to `exit` or `drop`, on any threads. Another future may be `Unpin`, and
//! may be moved between two polls. Its hits then have another address, and its former address may
//! become another future's. While two futures of one probe stay at their places, they have two
//! addresses, even if one is inside of the other.
//!
//! Cost: the future of an `async` block does not grow. ([`Probed`] is as large as the wrapped
//! future, since [`stage`] asks that one whether it has begun.) Any other future grows by one byte
//! and by padding to its alignment. There is no allocation and no frame: `poll` is inlined into its
//! caller, and the wrapped future's `poll` into it. While latent, a poll executes two NOPs and one
//! comparison. If the entry has arguments, each poll also makes a context, on the stack.

use core::future::Future;

mod context;
mod probed;
mod stage;

pub use context::address;
pub use probed::Probed;
pub use stage::{Noted, Stage, Told, Unfrozen};

/// The sites of a future's probes, one NOP each. `at` is the address that the future has in its
/// hits; only an active site reads it.
pub trait Sites {
    /// Whether the entry's site is inside the future, where its arguments are. That site gets the
    /// address from [`address`].
    const ENTERS_INSIDE: bool = false;

    /// The first poll begins.
    fn entry(at: usize);

    /// A later poll begins.
    fn resume(at: usize);

    /// A poll ends without a result.
    fn suspend(at: usize);

    /// The future is dropped after its beginning and before its end.
    fn drop(at: usize);
}

/// Returns the result of an `async fn`, as the type of its first `return`, which never runs.
/// Without it the compiler would have to infer the type from the body, and could not coerce to it.
pub fn returned<T>() -> T {
    unreachable!("no code calls it")
}

/// The result of a function pointer. This names `!`, which otherwise may stand only as the result
/// of a function.
pub trait Returning {
    /// The result.
    type Output;
}

impl<T> Returning for fn() -> T {
    type Output = T;
}

/// Calls a body that returns a future. It takes `FnOnce`, so that the future may hold values that
/// the body was given by reference. `T` is the signature's type of the future, which the compiler
/// would otherwise have to infer.
#[inline(always)]
pub fn call_once<F: Future<Output = T>, T>(body: impl FnOnce() -> F) -> F {
    body()
}
