//! The procedural macros of [`probe_runtime`](https://docs.rs/probe-runtime): use them through that
//! crate, which re-exports them.
//!
//! They parse, validate, and call macros of the runtime; they contain no machine code, for a
//! procedural macro sees the machine that compiles, not the one compiled for.
//!
//! ```text
//! #[probe(…)] fn … ──▶ args ─┐                              ┌▶ replace ▶ what can be replaced
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
mod replace;

use proc_macro::TokenStream;

/// Puts a latent probe on a function: one NOP at its entry, one at each of its exits.
///
/// While the probe is latent, the function does what it did without it. While it is active,
/// consumers see each entry and exit, whichever way the function is left: at its end, by `return`,
/// by `?`, or by a panic.
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
/// - `name = "…"`: the last part of the probe's name, if it shall not be the function's. Letters,
///   digits, `_`, `-`, `.`, and `::` between segments.
/// - `group = "…"`: a group, which selectors name as `group=…`; letters as in a name. One with
///   segments, as `"net::tcp"`, is also named by `group=net::*`. A `probe!` in the body is in the
///   group of its function.
/// - `doc = "…"`: one line that says what a hit means, for those who list the probes.
/// - `skip`: no probe. It does something in a block that has one.
/// - `only("…", …)`, `except("…", …)`, `all`: of a block, see below.
/// - `crate = path`: where `probe_runtime` is, if not at `::probe_runtime`; for a crate that
///   re-exports it, or for the macros of such a crate.
/// - `args(…)`: what the entry records of the arguments.
/// - `ret`, `ret(…)`: what the exit records of the result.
/// - `replace`: the function may be replaced while the program runs; see below. `replace(method)`
///   for a function of an `impl` that takes no `self`, where the attribute can't tell.
///
/// # Arguments and results
/// ```ignore
/// #[probe(args(id, rows = rows.len(), ?request, %name))]  // fields of the entry
/// #[probe(args(*))]                                       // every argument
/// #[probe(args(*, rows = rows.len()), ret)]               // … and a field of one's own; the result
/// #[probe(ret(len = ret.len(), ?ret))]                    // fields of the exit, by a reference to the result
/// ```
/// Fields are written as in `probe!("name", …)`, and `self` may stand alone, too. They are
/// evaluated only while the probe is active.
///
/// `args(*)` records each variable that an argument is bound to, also in patterns, but for those
/// whose name begins with `_`; a field of the same name takes its place. `args(*)` and `ret` record
/// a value as it is, if it is a
/// [`Field`](https://docs.rs/probe-runtime/latest/probe_runtime/trait.Field.html); else with
/// `Debug`; else the name of its type. What a generic type can do, the function's own bounds say.
///
/// With `ret`, the exit has a field `outcome`: `ok` or `err` of a `Result`, `some` or `none` of an
/// `Option`, `return` of anything else, and `panic` where the function is left by one. Then `ret`
/// and its fields are absent. The result is borrowed before it is returned, after the function's
/// locals have been dropped.
///
/// A capture that panics changes nothing in the program: the panic ends there, the hit is delivered
/// with all of its fields marked as failed, and `probe_runtime::failed_captures()` counts it. (A
/// library without the feature `std` can't contain it, unless somebody in the program asks for
/// `std`.)
///
/// Of a future, the entry has the arguments as they are when its first poll begins, and the exit
/// has the result of its last. An `async fn` has its arguments there; another function that returns
/// a future can have `args` if it ends with an `async move` block, which takes along what the
/// fields name. Every event has the field `future` besides.
///
/// With `ret`, the body of a function that returns no future becomes a closure that is called at
/// once. That shows in little:
/// - Functions that return `!`, and those with `#[track_caller]`, whose location a closure would
///   not see, can't have `ret`.
/// - A result `impl Fn(&T) -> &U` needs its closure's types written out, or another way to say that
///   it takes any lifetime.
/// - An argument that the body moves can't be used in `ret(…)`; nor can `&mut` arguments, an owned
///   `self`, and several owned arguments, which are moved into the closure, so that they can be
///   lent on and are dropped in their order.
/// - What is not bound to a name (`_`) is dropped after the arguments that are, if some of these
///   are moved.
///
/// Cost while latent: the same NOPs. A result that is returned in memory is written there once it
/// is complete, which is a copy of it at most. Arguments that are neither `Copy` nor in memory (a
/// `Box`, say) lie in memory if they are recorded with `Debug`. A field that calls functions may
/// cost a function that calls none a frame; and in a loop that it is inlined into, addresses that
/// are computed ahead of the loop.
///
/// # Blocks
/// On an `impl`, a `trait` or an inline `mod`, it probes the functions inside, and those of the
/// blocks inside of a `mod`:
///
/// ```ignore
/// #[probe(group = "net", except("debug_*"))]
/// impl Server {
///     fn accept(&self) -> Stream { /* … */ }      // my_crate::Server::accept
///     fn port(&self) -> u16 { self.port }   // left out: small
///     fn debug_dump(&self) { /* … */ }            // left out: filtered
///     #[probe(skip)]
///     fn poll(&self) { /* … */ }                  // left out: asked
///     #[probe(name = "stop")]
///     fn shut_down(&self) { /* … */ }             // my_crate::Server::stop
/// }
/// ```
///
/// Methods are named `module::Type::method`: after the last segment of the type, without generics,
/// also those of a trait's implementation; default methods are named after their trait. Types
/// without a name get a word: `ref-Type`, `mut-Type`, `ptr-Type`, `slice-u8`, `array-u8`,
/// `dyn-Trait`, `tuple`, `unit`, `fn`, `never`.
///
/// **What is left out** is listed by `probes()` all the same, with the reason
/// (`ProbeInfo::skipped`): what `skip` asks for; `const fn`, naked functions, methods without a
/// body; what the filters exclude; and small functions, unless they are `async`:
/// - `inline`: those with `#[inline]` or `#[inline(always)]`;
/// - `small`: bodies that are at most one short expression (20 tokens) without branch or loop:
///   getters, setters, constructors, delegates.
///
/// That is measured (`cargo bench -p probe-benches --bench blocks`). In a loop over an array, whose
/// step is one call, the latent probe makes a getter cost 3.7 times as many instructions and as
/// much time as without, since the loop can't be vectorised; a short expression 1.6 times the
/// instructions and 1.2 times the time, a delegate 2.0 and 1.0, an `#[inline]` hash 2.0 and 1.2.
/// Left out, each costs what it did. A function with a loop of eight steps costs 1.03 and 1.01.
/// What is neither short nor hinted is probed, though the compiler may inline it: a getter with one
/// branch then costs 2.6 and 2.1; write `skip` or `except` where that matters.
///
/// `all` takes small functions, too. A function with a `#[probe]` of its own is always probed, with
/// the block's `crate` and `group`, where it says none, and the type in its name.
///
/// **Filters** hold a glob against the function's name, or, if it has a `::`, against
/// `Type::method`; `*` stands for any letters. `only` takes those it names, also small ones;
/// `except` comes before it. A glob that names no function is an error. The filters of a `mod` hold
/// for the blocks inside, too, besides theirs; `group`, `doc` and `crate` are those of the
/// innermost block that says one.
///
/// **Other macros on a block**, as `#[async_trait]`, go first, wherever `#[probe]` stands: they see
/// what is written, and `#[probe]` what they have made of it. (The filters of a `mod` do not reach
/// into such a block inside.) An item has one `#[probe]`.
///
/// **What is not seen:** functions that macros inside the block make, those in bodies of functions,
/// `mod name;` (put the attribute on the blocks in its file), and a `#[probe]` that another name
/// was given (`use … as`).
///
/// # Replacing a function
/// `#[probe(replace)]` adds one more latent NOP, ahead of the entry, and a way to have a closure
/// run instead of the function:
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
/// - **A free function** `price` gets `price::install`, a function of a type named like it, which
///   is imported with it and is as visible as it. **A function of an `impl`**, `total`, gets
///   `total_install` beside it.
/// - The closure is `Fn(&dyn Fn(A, B) -> R, A, B) -> R + Send + Sync + 'static` for a function
///   `fn(A, B) -> R`; that of a method has the receiver as its first argument after `original`.
///   References in `A`, `B` and `R` are borrowed as they are in the function, and `original` takes
///   any of them, also of things that live in the closure. (A lifetime with a bound, as in
///   `<'a, 'b: 'a>`, stands for the call's own in `original`.) The compiler finds the arguments'
///   types.
/// - `original` is the function as it would be without this closure. It may be called as often as
///   the arguments allow, or not at all. A panic in either goes on to the caller, as one of the
///   function's does.
/// - What `install` returns is a guard (`Replacement`); dropping it removes the closure. When that
///   is done, no call that begins runs it; calls that are in it go on, and are not waited for.
/// - Several closures wrap each other, the newest outermost. They are removed in any order. A call
///   that has begun runs those that there were then.
/// - A recursive call, in the function or in the closure, is a call like all others, and runs the
///   closures again. `original` does not. Calls inside of a consumer's `hit`, and of this crate's
///   own operations, run the function itself.
/// - The replacement is a probe of its own, of kind `replace`, with the function's name. Consumers
///   may be attached to it, and it may be held off. The function's entry and exit are hit when its
///   body runs, so not if the closure leaves it out, and twice if it calls it twice.
/// - Where the function was inlined, each copy is replaced, or none: `install` fails if a site
///   can't be activated (a debugger's breakpoint is on it), and in programs that are built without
///   probes.
/// - Cost: latent, the one NOP; the body is in the program twice, once behind the site and once for
///   `original`. Active, see the figures `replace`. Calls of one replaced function on many
///   processors share a reference count.
///
/// Refused, with the reason: generic functions, `impl Trait` in the signature, `async`, `const` and
/// `unsafe` ones, variadic ones, those that never return or have `target_feature`. In an `impl`,
/// the type's parameters must be `'static` (`impl<T: 'static> List<T>`, each `T` has closures of
/// its own), and it can't have lifetimes. Methods of traits can't be replaced, since a trait's
/// `impl` has no place for `install`: replace a method that they call.
///
/// # `probe!` in the body
/// All macros share one namespace, so `use probe_runtime::probe` imports this attribute, and no
/// macro `probe!` beside it. Therefore the attribute turns every unqualified `probe!(…)` in the
/// body of its function, however deep, into a call of `probe_runtime::point!(…)`; this includes
/// calls of a `probe!` macro that you defined yourself. A qualified `path::probe!(…)` is left
/// alone. In functions without the attribute (rustc says "cannot find macro `probe` in this scope",
/// and that `probe` is an attribute), write `probe_runtime::point!("name")`, or
/// `use probe_runtime::point as probe;`.
///
/// # Futures
/// Of an `async fn`, of a function that returns `impl Future`, and of one that returns
/// `Pin<Box<dyn Future>>` and ends with `Box::pin(async …)`, the future is what is probed, not the
/// call: `entry` when its first poll begins, `suspend` when a poll ends without a result, `resume`
/// when another begins, `exit` with the result or a panic, `drop` if it is dropped in between.
/// Their field `future` is its address, the same from entry to exit or drop on whatever threads,
/// unless a future other than an `async` block's is moved between two polls. An `async` block has
/// probes as `probe!("name", async { … })`.
///
/// An `async fn` becomes a function that returns `impl Future<Output = …>`, and is shown as that by
/// rustdoc. A future that an `async` block makes is not a byte larger; another one of `impl Future`
/// has a byte beside it, and what aligns it. Where a signature promises a trait besides `Future`,
/// `Clone` and auto traits (`impl Future + Debug`), the call is what is probed. The body of a
/// function with such another one becomes a closure, so it can't have `#[track_caller]`. Of a
/// `#[must_use] async fn`, rustc warns where the future is not used, no longer where its result is
/// not. Latent, a poll costs two NOPs and a comparison; with `args`, a `Context` besides, which has
/// the waker of the poll's and nothing else.
///
/// # What can be probed
/// Blocks, as above. Free functions, methods of `impl`s and of traits (with a body), generic ones,
/// `async` and `unsafe` ones, those with an `extern` ABI, nested ones. Not `const fn`, naked
/// functions, and not closures; they are compile errors. Outer attributes such as `#[inline]` stay
/// as they are, before or after this one.
#[proc_macro_attribute]
pub fn probe(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(args.into(), item.into()).into()
}

/// The parser behind `probe_runtime::point!`, which calls it as
/// `__point! { $crate; "name", field, … }`.
#[proc_macro]
#[doc(hidden)]
pub fn __point(input: TokenStream) -> TokenStream {
    expand::point(input.into()).into()
}
