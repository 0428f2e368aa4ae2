//! The procedural macros of [`probe_runtime`](https://docs.rs/probe-runtime). Use them through that
//! crate, which re-exports them.
//!
//! [`probe_expand`] does the work. Expansions contain no machine code, since a procedural macro
//! sees the machine that compiles, and not the target.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// Adds latent probes to a function: one NOP at its entry, and one at each of its exits.
///
/// While the probes are latent, the function does the same as without them. While they are active,
/// consumers see each entry and exit. A function may be left at its end, by `return`, by `?`, or by
/// a panic: each is an exit.
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
/// - `name = "…"`: replaces the function's name as the last part of the probe's name. It may have
///   letters, digits, `_`, `-`, `.`, and `::` between segments.
/// - `group = "…"`: a group, which selectors name as `group=…`. It may have the same characters
///   as a name. `group=net::*` also names a group with segments, such as `"net::tcp"`. A `probe!`
///   in the body is in the group of its function.
/// - `doc = "…"`: one line on the meaning of a hit. Listings of probes show it.
/// - `skip`: no probe. Only useful inside of a block with a probe.
/// - `only("…", …)`, `except("…", …)`, `all`: for blocks, see below.
/// - `crate = path`: the path of `probe_runtime`, if it is not `::probe_runtime`. For crates that
///   re-export it, and for their macros.
/// - `args(…)`: fields of the entry, from the arguments.
/// - `ret`, `ret(…)`: fields of the exit, from the result.
/// - `replace`: the function can be replaced while the program runs; see below. Use
///   `replace(method)` for a function of an `impl` that takes no `self`, which the attribute can't
///   recognise.
///
/// - `usdt`: entry and exit are also USDT probes, for bpftrace, perf and gdb. On a block, those of
///   all its functions. It takes the feature `usdt`, and costs one more NOP for each. Fields are
///   variables then, at most four: an integer, `bool`, `char`, pointer, reference, slice or text,
///   which a tool reads from registers.
///
/// # Arguments and results
/// ```ignore
/// #[probe(args(id, rows = rows.len(), ?request, %name))]  // fields of the entry
/// #[probe(args(*))]                                       // every argument
/// #[probe(args(*, rows = rows.len()), ret)]               // … and another field; the result
/// #[probe(ret(len = ret.len(), ?ret))]                    // fields of the exit, by a reference to the result
/// ```
/// Write fields as in `probe!("name", …)`. Here `self` may stand alone, too. Fields are evaluated
/// only while the probe is active.
///
/// `args(*)` records each variable that an argument is bound to, also in patterns. It leaves out
/// names that begin with `_`. A field of the same name replaces the variable. `args(*)` and `ret`
/// record a value directly if its type is a
/// [`Field`](https://docs.rs/probe-runtime/latest/probe_runtime/trait.Field.html), otherwise with
/// `Debug`, and otherwise as the name of its type. For a generic type, the function's own bounds
/// decide.
///
/// With `ret`, the exit has a field `outcome`: `ok` or `err` for a `Result`, `some` or `none` for
/// an `Option`, and `return` for any other type. If a panic leaves the function, it is `panic`, and
/// `ret` and its fields are absent. The result is borrowed before it is returned, after the
/// function's locals have been dropped.
///
/// A capture that panics changes nothing in the program. The panic is contained, the hit is
/// delivered with all of its fields marked as failed, and
/// `probe_runtime::losses::failed_captures()` counts it. (Without the feature `std`, a library
/// can't contain such a panic, unless another crate of the program enables `std`.)
///
/// For a future, the entry has the arguments as they are when its first poll begins, and the exit
/// has the result of its last poll. An `async fn` has its arguments there. Another function that
/// returns a future can have `args` if it ends with an `async move` block, which captures the
/// variables that the fields name. Every event has the additional field `future`.
///
/// With `ret`, the body of a function that does not return a future becomes a closure that is
/// called at once. This has some effects:
/// - Functions that return `!` can't have `ret`, and neither can those with `#[track_caller]`,
///   since a closure would not see the caller's location.
/// - For a result `impl Fn(&T) -> &U`, write out the types of its closure, or state in another way
///   that it takes any lifetime.
/// - `ret(…)` can't use an argument that the body moves. Neither can it use `&mut` arguments, an
///   owned `self`, or several owned arguments. These move into the closure, so that they can be
///   borrowed again and are dropped in their order.
/// - If named arguments are moved, an argument that is not bound to a name (`_`) is dropped after
///   them.
///
/// Cost while latent: the same NOPs. A result that is returned in memory is written there when it
/// is complete, which costs at most one copy of it. An argument that is neither `Copy` nor in
/// memory (such as a `Box`) lies in memory if it is recorded with `Debug`. A field that calls
/// functions may cost a stack frame in a function that otherwise calls none. If such a function is
/// inlined into a loop, addresses may be computed ahead of the loop.
///
/// # Blocks
/// On an `impl`, a `trait` or an inline `mod`, the attribute probes the functions inside. In a
/// `mod`, these include the functions of blocks inside:
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
/// Methods are named `module::Type::method`, with the last segment of the type, without generics.
/// That includes methods of a trait's implementation. Default methods are named after their trait.
/// Types without a name get a word: `ref-Type`, `mut-Type`, `ptr-Type`, `slice-u8`, `array-u8`,
/// `dyn-Trait`, `tuple`, `unit`, `fn`, `never`.
///
/// **Left-out functions** also appear in the list of `probes()`, with the reason
/// (`ProbeInfo::skipped`). These are functions with `skip`, `const fn`, naked functions, methods
/// without a body, functions that the filters exclude, and small functions, unless they are
/// `async`:
/// - `inline`: functions with `#[inline]` or `#[inline(always)]`;
/// - `small`: functions whose body is at most one short expression (20 tokens) without branch or
///   loop: getters, setters, constructors, delegates.
///
/// The reason is their relative cost (`cargo bench -p probe-benches --bench blocks`). In a loop
/// over an array whose step is one call, a latent probe multiplies instructions and time:
///
/// | function | instructions | time |
/// |---|---|---|
/// | getter, since the loop can't be vectorised | 3.7 | 3.7 |
/// | short expression | 1.6 | 1.2 |
/// | delegate | 2.0 | 1.0 |
/// | `#[inline]` hash | 2.0 | 1.2 |
/// | getter with one branch | 2.6 | 2.1 |
/// | loop of eight steps | 1.03 | 1.01 |
///
/// The first four are left out, and cost the same as without the attribute. The last two are
/// probed: they are neither short nor marked `#[inline]`, though the compiler may inline them.
/// Write `skip` or `except` where that matters.
///
/// `all` probes small functions, too. A function with a `#[probe]` of its own is always probed. It
/// has the type in its name, and the block's `crate` and `group`, unless its attribute has its own.
///
/// **Filters** are globs over the function's name, or, if they have a `::`, over `Type::method`;
/// `*` stands for any letters. `only` selects functions, even small ones. `except` takes precedence
/// over it. A glob that names no function is an error. The filters of a `mod` also apply to the
/// blocks inside, in addition to their own. A block inside takes `group`, `doc` and `crate` from
/// the innermost block that has them.
///
/// **Other macros on a block**, such as `#[async_trait]`, expand first, wherever `#[probe]` stands:
/// they see the written code, and `#[probe]` sees their output. (The filters of a `mod` do not
/// apply to such a block inside.) An item may have only one `#[probe]`.
///
/// **The attribute does not see** functions that macros inside the block make, functions in bodies
/// of functions, `mod name;` (put the attribute on the blocks in its file), and a `#[probe]` under
/// another name (`use … as`).
///
/// # Replacing a function
/// `#[probe(replace)]` adds one more latent NOP, ahead of the entry, and a way to run a closure
/// instead of the function:
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
/// - **A free function** `price` gets `price::install`. Its type has the name of the function, is
///   imported with it, and has the same visibility. **A function of an `impl`**, `total`, gets
///   `total_install` beside it.
/// - For a function `fn(A, B) -> R`, the closure is
///   `Fn(&dyn Fn(A, B) -> R, A, B) -> R + Send + Sync + 'static`. For a method, the receiver is its
///   first argument after `original`. References in `A`, `B` and `R` are borrowed as they are in
///   the function. `original` takes any such references, also to values that live in the closure.
///   (In `original`, a lifetime with a bound, as in `<'a, 'b: 'a>`, is the call's own.) The
///   compiler infers the arguments' types.
/// - `original` runs the function as it would be without this closure. The closure may call it as
///   often as the arguments allow, or not at all. A panic in either one reaches the caller, as a
///   panic of the function does.
/// - `install` returns a guard (`Replacement`). Dropping it removes the closure. Later calls do not
///   run it. Calls that are in the closure continue, and the drop does not wait for them.
/// - Several closures wrap each other, the newest one outermost. They can be removed in any order.
///   A call runs the closures that were installed when it began.
/// - A recursive call, in the function or in the closure, is a call like all others, and runs the
///   closures again; a call of `original` does not. Calls inside of a consumer's `hit`, and calls
///   by this crate's own operations, run the function itself.
/// - The replacement is a probe of its own, of kind `replace`, with the function's name. Consumers
///   can be attached to it, and it can be held off. The function's entry and exit are hit each time
///   that its body runs: not if the closure does not call it, and twice if it calls it twice.
/// - If the function was inlined, all copies are replaced, or none. `install` fails if a site can't
///   be activated (a debugger's breakpoint is on it), and in programs that are built without
///   probes.
/// - Cost while latent: the one NOP. The body is in the program twice, once behind the site and
///   once for `original`. The benchmark `replace` measures the cost while active. Calls of one
///   replaced function on many processors share a reference count.
///
/// The attribute refuses these, with the reason: generic functions; `impl Trait` in the signature;
/// `async`, `const`, `unsafe` and variadic functions; functions that never return, or that have
/// `target_feature`. In an `impl`, the type's parameters must be `'static`
/// (`impl<T: 'static> List<T>`; each `T` has closures of its own), and the type can't have
/// lifetimes. Methods of traits can't be replaced, since a trait's `impl` has no place for
/// `install`: replace a function that they call.
///
/// # `probe!` in the body
/// All macros share one namespace. So `use probe_runtime::probe` imports this attribute, and can't
/// import a macro `probe!` beside it. Therefore the attribute turns every unqualified `probe!(…)`
/// in the body of its function, however deep, into a call of `probe_runtime::point!(…)`. That
/// includes calls of a `probe!` macro that you defined yourself. It leaves a qualified
/// `path::probe!(…)` alone. In functions without the attribute (rustc says "cannot find macro
/// `probe` in this scope", and that `probe` is an attribute), write
/// `probe_runtime::point!("name")`, or `use probe_runtime::point as probe;`.
///
/// # Futures
/// In three kinds of functions the probe is on the future, and not on the call: an `async fn`, a
/// function that returns `impl Future`, and a function that returns `Pin<Box<dyn Future>>` and ends
/// with `Box::pin(async …)`. The events are
///
/// - `entry` when the future's first poll begins,
/// - `suspend` when a poll ends without a result, and `resume` when another one begins,
/// - `exit` with the result or a panic,
/// - `drop` if the future is dropped before its exit.
///
/// Their field `future` is the future's address. It is the same from entry to exit or drop, on any
/// thread, unless the future is not that of an `async` block and is moved between two polls. An
/// `async` block has probes as `probe!("name", async { … })`.
///
/// An `async fn` becomes a function that returns `impl Future<Output = …>`, and rustdoc shows it
/// so. The future of an `async` block does not become larger. Any other `impl Future` grows by one
/// byte, and padding. If a signature promises a trait other than `Future`, `Clone` and auto traits
/// (`impl Future + Debug`), the probe is on the call. The body of a function whose future is not
/// that of an `async` block becomes a closure, so the function can't have `#[track_caller]`. For a
/// `#[must_use] async fn`, rustc warns if the future is not used, but no longer if its result is
/// not used.
///
/// While latent, a poll costs two NOPs and a comparison. With `args` it also costs a `Context`,
/// which holds only the waker of the poll's own context.
///
/// # Supported functions
/// Blocks, as above; free functions; and methods with a body, of `impl`s and traits. They may be
/// generic, `async`, `unsafe`, nested, or have an `extern` ABI. `const fn`, naked functions and
/// closures are compile errors. Other attributes such as `#[inline]` are kept, before or after this
/// one.
#[proc_macro_attribute]
pub fn probe(args: TokenStream, item: TokenStream) -> TokenStream {
    probe_expand::attribute(args.into(), item.into()).into()
}

/// The parser behind `probe_runtime::point!`, which calls it as
/// `__point! { $crate; "name", field, … }`.
#[proc_macro]
#[doc(hidden)]
pub fn __point(input: TokenStream) -> TokenStream {
    probe_expand::point(input.into()).into()
}
