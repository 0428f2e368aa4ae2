//! A future with probes: one NOP where each poll begins, one where it ends.
//!
//! ```text
//! poll ──▶ entry | resume ──▶ the future's own poll ──▶ suspend | exit        drop, suspended ──▶ drop
//! ```
//!
//! Life: made by the function that `#[probe]` stands on; its first poll is an `entry`, each later
//! one a `resume`; a poll that ends without a result is a `suspend`, the one that ends with it (or
//! with a panic) the `exit`. Dropped after its entry and before its exit, it hits `drop`. So
//! between two hits of one future its thread is either in it (from `entry` or `resume` to `suspend`
//! or `exit`) or not: time on the processor and time awaited come apart, under any executor and
//! through any combinator, since nothing is asked of the awaits inside.
//!
//! Every hit carries an address in the future as the field `future`. What an `async` block makes
//! stays where it is from its first poll until it is dropped, so hits with one address belong
//! together, from `entry` to `exit` or `drop`, whatever threads they are on. Another future may be
//! `Unpin`, and be moved between two polls: its hits then carry another address from there on, and
//! the former one may become another future's. While both are where they are, two futures of one
//! probe have two addresses, one in the other, too.
//!
//! Cost: no byte in a future that an `async` block makes ([`Probed`] is as large as what it wraps:
//! [`stage`] asks the future itself whether it has begun), a byte and what aligns it beside
//! another; no allocation, no frame: `poll` is inlined into its caller, and the future's own into
//! it. Latent, a poll executes two NOPs and one comparison; where the entry has arguments, each
//! poll also makes a context, on the stack.

use core::future::Future;

mod context;
mod probed;
mod stage;

pub use context::address;
pub use probed::Probed;
pub use stage::{Noted, Stage, Told, Unfrozen};

/// The sites of a future's probes. Each is one NOP; `at` is the address that the future has in its
/// hits, which only an active site reads.
pub trait Sites {
    /// Whether the entry's site is inside the future, where its arguments are. It asks for the
    /// address with [`address`].
    const ENTERS_INSIDE: bool = false;

    /// The first poll begins.
    fn entry(at: usize);

    /// A later poll begins.
    fn resume(at: usize);

    /// A poll ends without a result.
    fn suspend(at: usize);

    /// The future is dropped, begun and not ended.
    fn drop(at: usize);
}

/// What an `async fn` returns, as the type of its first `return`, which never runs: without it the
/// compiler would have to guess the type from the body, and could not coerce to it.
pub fn returned<T>() -> T {
    unreachable!("no code calls it")
}

/// What a function pointer returns: the way to name `!`, which may only stand where a function's
/// result does.
pub trait Returning {
    /// The result.
    type Output;
}

impl<T> Returning for fn() -> T {
    type Output = T;
}

/// Calls a body that returns a future, whichever way. `FnOnce`, so that the future may hold what
/// the body was given by reference. `T` is what the signature says of the future, and the compiler
/// would have to guess.
#[inline(always)]
pub fn call_once<F: Future<Output = T>, T>(body: impl FnOnce() -> F) -> F {
    body()
}
