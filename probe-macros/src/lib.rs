//! The procedural macros of [`probe_runtime`](https://docs.rs/probe-runtime): use them through that crate,
//! which re-exports them.
//!
//! They parse, validate, and call macros of the runtime; they contain no machine code, for a procedural macro
//! sees the machine that compiles, not the one compiled for.
//!
//! ```text
//! #[probe(…)] fn … ──▶ args ─┐                              ┌▶ replace ▶ what can be replaced
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
/// - `replace`: the function may be replaced while the program runs; `replace(method)` for a function of an `impl` that takes no
///   `self`.
///
/// # Replacing a function
/// `#[probe(replace)]` adds one more latent NOP, ahead of the entry, and a way to have a closure run instead of the function:
///
/// ```ignore
/// #[probe(replace)]
/// pub fn price(item: &Item, count: u32) -> Money { item.price() * count }
///
/// impl Cart {
///     #[probe(replace)]
///     pub fn total(&self) -> Money { self.items.iter().map(Item::price).sum() }
/// }
///
/// let discount = price::install(|original, item, count| {
///     let started = Instant::now(); // lives from entry to exit
///     let price = original(item, count) * 0.9;
///     log(started.elapsed());
///     price
/// })?;
/// let rounded = Cart::total_install(|original, cart| original(cart).round())?;
/// drop(discount); // from here on, `price` is as before
/// ```
///
/// - **A free function** `price` gets `price::install`, a function of a type named like it, which is imported with it and is as
///   visible as it. **A function of an `impl`**, `total`, gets `total_install` beside it.
/// - The closure is `Fn(&dyn Fn(A, B) -> R, A, B) -> R + Send + Sync + 'static` for a function `fn(A, B) -> R`; that of a method has the
///   receiver as its first argument after `original`. References in `A`, `B` and `R` are borrowed as they are in the function, and
///   `original` takes any of them, also of things that live in the closure. (A lifetime with a bound, as in `<'a, 'b: 'a>`,
///   stands for the call's own in `original`.) The compiler finds the arguments' types.
/// - `original` is the function as it would be without this closure. It may be called as often as the arguments allow, or not at
///   all. A panic in either goes on to the caller, as one of the function's does.
/// - What `install` returns is a guard (`Replacement`); dropping it removes the closure. When that is done, no call that begins
///   runs it; calls that are in it go on, and are not waited for.
/// - Several closures wrap each other, the newest outermost. They are removed in any order. A call that has begun runs those that
///   there were then.
/// - A recursive call, in the function or in the closure, is a call like all others, and runs the closures again.
///   `original` does not. Calls inside of a consumer's `hit`, and of this crate's own operations, run the function itself.
/// - The replacement is a probe of its own, of kind `replace`, with the function's name. Consumers may be attached to it, and it may be held
///   off. The function's entry and exit are hit when its body runs, so not if the closure leaves it out, and twice
///   if it calls it twice.
/// - Where the function was inlined, each copy is replaced, or none: `install` fails if a site can't be activated (a debugger's
///   breakpoint is on it), and in programs that are built without probes.
/// - Cost: latent, the one NOP; the body is in the program twice, once behind the site and once for `original`. Active, see the figures
///   `replace`. Calls of one replaced function on many processors share a reference count.
///
/// Refused, with the reason: generic functions, `impl Trait` in the signature, `async`, `const` and `unsafe` ones, variadic ones, those
/// that never return or have `target_feature`. In an `impl`, the type's parameters must be `'static` (`impl<T: 'static> List<T>`, each
/// `T` has closures of its own), and it can't have lifetimes. Methods of traits can't be replaced, since a trait's `impl` has no
/// place for `install`: replace a method that they call.
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
