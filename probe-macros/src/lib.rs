//! The procedural macros of [`probe_runtime`](https://docs.rs/probe-runtime): use them through that crate,
//! which re-exports them.
//!
//! They parse, validate, and call macros of the runtime; they contain no machine code, for a procedural macro
//! sees the machine that compiles, not the one compiled for.
//!
//! ```text
//! #[probe(…)] fn … ──▶ args ─┐
//!                      parse ┴▶ model ▶ check ▶ expand ──▶ runtime::__private::v1::function!(…)
//! probe!(…) ─────────▶ parse ──▶ model ▶ check ▶ expand ──▶ runtime::__private::v1::point!(…)
//!                                           └▶ fallback ──▶ errors, and the item as it was
//! ```

mod args;
mod asynchronous;
mod body;
mod check;
mod errors;
mod expand;
mod fallback;
mod model;
mod parse;

use proc_macro::TokenStream;

/// Puts a latent probe on a function: one NOP at its entry, one at each of its exits.
///
/// While the probe is latent, the function does what it did without it. While it is active, consumers see
/// each entry and exit, whichever way the function is left: at its end, by `return`, by `?`, or by a panic.
///
/// ```ignore
/// use probe_runtime::probe;
///
/// #[probe]
/// fn handle(request: &Request) -> Response {
///     let route = find(request);
///     probe!("routed", id = route.id, ?request);
///     respond(route)
/// }
/// ```
///
/// # Arguments
/// - `name = "…"`: the last part of the probe's name, if it shall not be the function's. Letters, digits,
///   `_`, `-`, `.`, and `::` between segments.
/// - `crate = path`: where `probe_runtime` is, if not at `::probe_runtime`; for a crate that re-exports it,
///   or for the macros of such a crate.
///
/// # `probe!` in the body
/// All macros share one namespace, so `use probe_runtime::probe` imports this attribute, and no macro
/// `probe!` beside it. Therefore the attribute turns every unqualified `probe!(…)` in the body of its
/// function, however deep, into a call of `probe_runtime::point!(…)`; this includes calls of a `probe!` macro
/// that you defined yourself. A qualified `path::probe!(…)` is left alone. In functions without the attribute
/// write `probe_runtime::point!("name")`, or `use probe_runtime::point as probe;`.
///
/// # Futures
/// Of an `async fn`, of a function that returns `impl Future`, and of one that returns `Pin<Box<dyn Future>>` and ends with
/// `Box::pin(async …)`, the future is what is probed, not the call: `entry` when its first poll begins, `suspend` when a poll ends without a
/// result, `resume` when another begins, `exit` with the result or a panic, `drop` if it is dropped in between. Their field `future` is its
/// address, the same from entry to exit or drop on whatever threads. An `async` block has probes as `probe!("name", async { … })`.
///
/// An `async fn` becomes a function that returns `impl Future<Output = …>`, and is shown as that by rustdoc. A future that an `async` block
/// makes is not a byte larger; another one of `impl Future` has a byte beside it, and does not implement more than `Future` and auto traits.
/// Latent, a poll costs two NOPs and a comparison.
///
/// # What can be probed
/// Free functions, methods of `impl`s and of traits (with a body), generic ones, `unsafe` ones, those with an
/// `extern` ABI, nested ones. Not `const fn`, naked functions, and not closures; they are compile
/// errors. Outer attributes such as `#[inline]` stay as they are, before or after this one.
#[proc_macro_attribute]
pub fn probe(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(args.into(), item.into()).into()
}

/// The parser behind `probe_runtime::point!`, which calls it as `__point! { $crate; "name", field, … }`.
#[proc_macro]
#[doc(hidden)]
pub fn __point(input: TokenStream) -> TokenStream {
    expand::point(input.into()).into()
}
