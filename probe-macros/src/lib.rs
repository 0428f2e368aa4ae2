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
mod body;
mod check;
mod errors;
mod expand;
mod fallback;
mod model;
mod parse;
mod replace;

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
/// # What can be probed
/// Free functions, methods of `impl`s and of traits (with a body), generic ones, `unsafe` ones, those with an
/// `extern` ABI, nested ones. Not `const fn`, `async fn`, naked functions, and not closures; they are compile
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
