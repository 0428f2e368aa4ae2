//! The macros that those of `probe-macros` expand to. The site itself is the backend's part
//! (`arch/*/site.rs`).
//!
//! Expansions reach everything here through `__private::v1`, by `$crate` alone: user code may
//! rename this crate and shadow `core`. Nothing here is public API.

mod future;

/// A probe at this place: `point!("name", field, field = expr, field = ?expr, field = %expr)`.
///
/// The same macro as `probe!`, under a name that can be imported beside the attribute `#[probe]`:
/// stable Rust has one namespace for both kinds of macro. Inside a function with `#[probe]`,
/// `probe!(…)` works as it stands. Elsewhere write `probe_runtime::point!(…)`, or define the name
/// for a whole crate with one line at its top: `macro_rules! probe { ($($t:tt)*) => {
/// probe_runtime::point!($($t)*) } }`.
///
/// Fields are evaluated only while the probe is active. Numbers, `bool`, `char`, text and bytes are
/// recorded as they are, and other values through `?` ([`Debug`](core::fmt::Debug)) or `%`
/// ([`Display`](core::fmt::Display)). A field with `?` or `%` is copied, if it is `Copy` and small.
/// Otherwise it borrows its variable, which then has an address. Other fields are read in place. A
/// field that panics changes nothing in the program:
#[cfg_attr(feature = "std", doc = "see [`failed_captures`](crate::failed_captures).")]
#[cfg_attr(not(feature = "std"), doc = "with the feature `std`, it is contained and counted.")]
///
/// The probe's path is the module's path and the name: `probe!("parsed")` in `net::handle` is
/// `net::parsed`. Give points of different functions different names, or a segment of their own, as
/// in `probe!("handle::parsed")`.
///
/// Cost while latent: one 5-byte NOP and at most 4 bytes of padding. A point inside a loop also
/// keeps the compiler from unrolling or vectorising that loop, since control may leave it there.
/// Three fields or more inside a loop may cost an address computed ahead of it.
///
/// ```
/// fn read(input: &[u8]) -> usize {
///     probe_runtime::point!("read", bytes = input.len(), head = ?input.first());
///     input.len()
/// }
/// assert_eq!(read(b"abc"), 3);
/// ```
#[macro_export]
macro_rules! point {
    ($($input:tt)*) => { $crate::__private::v1::expand_point! { $crate; $($input)* } };
}

/// `#[probe]`: the entry's site, and a guard whose drop is the exit's site, on every way out. Where
/// neither has fields, both are the backend's `entry_and_exit!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_function {
    ($probe:tt) => {
        $crate::__private::v1::entry_and_exit! { $probe }
        // Clippy would blame the user for items at the beginning of the body, which now stand after
        // a statement; it stops looking at the first item that comes from a macro.
        use $crate::__private::v1::{};
    };
    ($probe:tt $($contained:ident)?; $($entry:tt)*) => {
        $crate::__private::v1::site! { Entry, $probe $($contained)?; $($entry)* }
        $crate::__private::v1::exit! { $probe }
        // As above.
        use $crate::__private::v1::{};
    };
}

/// `#[probe(ret)]`: the entry's site; the body, as a closure that is called at once; the exit's
/// site, where the result has the name that `exit` begins with. A guard's drop is the exit's site
/// on the way out by a panic.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_returning {
    (
        $probe:tt;
        entry($($entry:tt)*);
        exit($result:ident $($contained:ident)?; $($field:literal = $how:ident($value:expr)),*);
        $body:expr
    ) => {{
        $crate::__private::v1::site! { Entry, $probe $($entry)* }
        $crate::__private::v1::define! { Exit, $probe; "outcome" $(, $field)* }
        let __probe_exit = {
            struct __ProbeExit;
            impl $crate::__private::v1::Drop for __ProbeExit {
                #[inline(always)]
                fn drop(&mut self) {
                    $crate::__private::v1::unwound! { $($field),* }
                }
            }
            __ProbeExit
        };
        let mut __probe_result = $crate::__private::v1::run(#[inline(always)] $body);
        $crate::__private::v1::forget(__probe_exit);
        $crate::__private::v1::exit_site! {
            __probe_result as $result [$($contained)?]; $($field = $how($value)),*
        }
        __probe_result
    }};
}

/// The exit's site after a return, of the probe that `define!` has defined in a surrounding block.
/// The result, a mutable variable, has another name in the fields, by which it is borrowed.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_exit_site {
    ($place:ident as $result:ident $contained:tt; $($field:literal = $how:ident($value:expr)),*) => {
        $crate::__private::v1::place! {
            $contained of $place as $result; "outcome" = outcome($result) $(, $field = $how($value))*
        }
    };
}

/// The exit's site on the way out by a panic: the outcome, and no other value.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_unwound {
    ($($field:literal),*) => {
        $crate::__private::v1::place! { [] "outcome" = panicked(()) $(, $field = nothing(()))* }
    };
}

/// The first statement of a closure that takes these variables by value, although its body may only
/// borrow them.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_moving {
    ($($variable:tt),*) => {
        if false {
            $crate::__private::v1::moved(($($variable,)*))
        }
        // As in `function!`.
        use $crate::__private::v1::{};
    };
}

/// `probe!`: one site, its fields evaluated in the cold block. `contained` says that the fields may
/// panic.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_point {
    ($probe:tt $($contained:ident)?; $($field:literal = $how:ident($value:expr)),* $(,)?) => {
        $crate::__private::v1::site! {
            Point, $probe $($contained)?; $($field = $how($value)),*
        }
    };
}

/// One site, and its probe. The backend's `define!` makes the probe, its `place!` the site.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_site {
    ($kind:ident, $probe:tt $($contained:ident)?; $($field:literal = $how:ident($value:expr)),*) => {{
        $crate::__private::v1::define! { $kind, $probe; $($field),* }
        $crate::__private::v1::place! { [$($contained)?] $($field = $how($value)),* }
    }};
}

/// What an active site does: the captures, then the hit, which is the backend's `deliver!`.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_capture {
    ($contained:tt of $place:ident as $result:ident; $($captures:tt)*) => {{
        let mut __probe_place = $crate::__private::v1::Resulting::new(&mut $place);
        let __probe_kept = (&mut __probe_place).keep();
        let $result = __probe_kept.get();
        $crate::__private::v1::capture! { $contained $($captures)* }
    }};
    ([] $($captures:tt)*) => {
        $crate::__private::v1::deliver! { [] $($captures)* }
    };
    ([contained] $($captures:tt)*) => {
        if $crate::__private::v1::contain(|__probe_is_hit| {
            $crate::__private::v1::deliver! { [*__probe_is_hit = true;] $($captures)* }
        }) {
            $crate::__private::v1::deliver_failed! {}
        }
    };
}

/// A function in a block with `#[probe]` that has no probe: a definition without sites, whose note
/// says why. In its body, or, where that holds no statements, beside it.
#[cfg(all(not(probe_backend = "off"), probe_definitions = "linked"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_skipped {
    ($probe:tt) => {
        const _: () = {
            $crate::__private::v1::definition! { Entry, $probe; }
        };
    };
    ($probe:tt inside) => {
        // Clippy judges some functions by their first statement, and passes over those that begin
        // with an item.
        let _ = ();
        $crate::__private::v1::skipped! { $probe }
    };
}

/// Where nothing collects definitions, one without sites would be seen by nobody.
#[cfg(not(all(not(probe_backend = "off"), probe_definitions = "linked")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_skipped {
    ($probe:tt $(inside)?) => {};
}

/// The definition of a probe, as a static named `__PROBE_DEFINITION`. A probe is named by
/// `("name", "notes")`.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_definition {
    ($kind:ident, $probe:tt; $($field:literal),*) => {
        $crate::__private::v1::collect! {
            static __PROBE_DEFINITION: $crate::__private::v1::Definition = $crate::__private::v1::described! {
                new($crate::__private::v1::Kind::$kind), $probe; $($field),*
            };
        }
    };
}

/// A definition's value, or values: by `Definition::$new`.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_described {
    ($new:ident($($kind:expr)?), ($name:literal, $notes:literal); $($field:literal),*) => {
        $crate::__private::v1::Definition::$new(
            $($kind,)?
            $crate::__private::v1::concat!(
                $crate::__private::v1::module_path!(), "::", $name,
                $crate::__private::v1::file!(),
                $($field, "\n",)*
                $notes,
            ),
            $crate::__private::v1::concat!($crate::__private::v1::module_path!(), "::", $name),
            $crate::__private::v1::file!(),
            $notes,
            $crate::__private::v1::line!(),
            $crate::__private::v1::column!(),
        )
    };
}

/// Has the linker collect a definition: an element of the slice, as `linkme` places it. By hand,
/// since `linkme` adds a function with a closure to each, to check the type, which is fixed here: a
/// good third of what the compiler took for a probe.
#[cfg(all(probe_backend = "x86_64", probe_definitions = "linked"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_collect {
    ($definition:item) => {
        // SAFETY: the section holds definitions only (docs/abi.md), and this is one.
        #[used]
        #[unsafe(link_section = "linkme_PROBE_DEFINITIONS_V1")]
        $definition
    };
}

/// Has the linker collect a definition, where sections have other names.
#[cfg(all(probe_backend = "portable", probe_definitions = "linked"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_collect {
    ($definition:item) => {
        #[$crate::__private::v1::distributed_slice($crate::__private::v1::PROBE_DEFINITIONS_V1)]
        #[linkme(crate = $crate::__private::v1::linkme)]
        $definition
    };
}

/// Nothing collects definitions; see `registry/seen.rs`.
#[cfg(all(not(probe_backend = "off"), probe_definitions = "seen"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_collect {
    ($definition:item) => {
        $definition
    };
}

/// One field's value, from a borrow of its expression, for the given passage.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_pass {
    ($passage:ty, value, $value:expr) => {
        $crate::__private::v1::shown_as_it_is($value).value::<$passage>()
    };
    ($passage:ty, debug, $value:expr) => {
        $crate::__private::v1::shown_as_debug($value).keep().debug::<$passage>()
    };
    ($passage:ty, display, $value:expr) => {
        $crate::__private::v1::shown_as_display($value).keep().display::<$passage>()
    };
    // By its type, whatever that is.
    ($passage:ty, any, $value:expr) => {
        $crate::__private::v1::Captured::pass::<$passage>(
            &$crate::__private::v1::Capturing::new($value).capture(),
        )
    };
    ($passage:ty, outcome, $value:expr) => {
        $crate::__private::v1::Returned::new($value).pass::<$passage>()
    };
    ($passage:ty, panicked, $value:expr) => {
        $crate::__private::v1::outcome::panic::<$passage>()
    };
    ($passage:ty, nothing, $value:expr) => {
        $crate::__private::v1::absent::<$passage>(())
    };
}
