//! What the macros of `probe-macros` expand to, apart from the site itself, which is the backend's part
//! (`arch/*/site.rs`).
//!
//! Everything here is reached through `__private::v1`, by `$crate` alone: user code may rename this crate
//! and shadow `core`. Nothing here is public API.

/// A probe at this place: `point!("name", field, field = expr, field = ?expr, field = %expr)`.
///
/// The same macro as `probe!`, under a name that can be imported beside the attribute `#[probe]`: stable
/// Rust has one namespace for both kinds of macro. Inside a function that has `#[probe]`, `probe!(…)`
/// works as it is; elsewhere write `probe_runtime::point!(…)`, or give a whole crate the name with one
/// line at its top: `macro_rules! probe { ($($t:tt)*) => { probe_runtime::point!($($t)*) } }`.
///
/// The fields are evaluated only while the probe is active: numbers, `bool`, `char`, text and bytes as they
/// are, anything else through `?` ([`Debug`](core::fmt::Debug)) or `%` ([`Display`](core::fmt::Display)).
/// A `?` or `%` field borrows its variable, which then has an address; other fields are read in place.
///
/// The probe's path is the module's and the name: `probe!("parsed")` in `net::handle` is `net::parsed`. Give points
/// of different functions different names, or a segment of their own, as in `probe!("handle::parsed")`.
///
/// Cost while latent: one 5-byte NOP and at most 4 bytes of padding. A point inside a loop also stops the compiler from
/// unrolling or vectorising that loop, since control may leave it there. Three fields or more inside a loop may cost an
/// address computed ahead of it.
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

/// `#[probe]`: the entry's site, and a guard whose drop is the exit's site, on every way out.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_function {
    ($probe:tt) => {
        $crate::__private::v1::site! { Entry, $probe; }
        let __probe_exit = {
            struct __ProbeExit;
            impl $crate::__private::v1::Drop for __ProbeExit {
                #[inline(always)]
                fn drop(&mut self) {
                    $crate::__private::v1::site! { Exit, $probe; }
                }
            }
            __ProbeExit
        };
        // Clippy would blame the user for items at the beginning of the body, which now stand after a statement;
        // it stops looking at the first item that comes from a macro.
        const _: () = ();
    };
}

/// A future, with the sites of its polls around it. `$stage` is `Told` of an `async` block, `Noted::Fresh` of another.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_future {
    ($probe:tt; $stage:expr; $future:expr) => {{
        struct __ProbeSites;
        impl $crate::__private::v1::Sites for __ProbeSites {
            #[inline(always)]
            fn entry(at: usize) {
                $crate::__private::v1::site! { Entry, $probe; "future" = value(&at) }
            }

            #[inline(always)]
            fn resume(at: usize) {
                $crate::__private::v1::site! { Resume, $probe; "future" = value(&at) }
            }

            #[inline(always)]
            fn suspend(at: usize) {
                $crate::__private::v1::site! { Suspend, $probe; "future" = value(&at) }
            }

            #[inline(always)]
            fn drop(at: usize) {
                $crate::__private::v1::site! { Drop, $probe; "future" = value(&at) }
            }
        }
        $crate::__private::v1::Probed::new(__ProbeSites, $future, $stage, |__probe_at, _| {
            $crate::__private::v1::site! { Exit, $probe; "future" = value(&__probe_at) }
        })
    }};
}

/// The future as it is.
#[cfg(probe_backend = "off")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_future {
    ($probe:tt; $stage:expr; $future:expr) => {
        $future
    };
}

/// `probe!`: one site, its fields evaluated in the cold block.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_point {
    ($probe:tt; $($field:literal = $how:ident($value:expr)),* $(,)?) => {
        $crate::__private::v1::site! {
            Point, $probe; $($field = $how($value)),*
        }
    };
}

/// The definition of a probe, as a static named `__PROBE_DEFINITION`. A probe is named by `("name", "notes")`.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_definition {
    ($kind:ident, ($name:literal, $notes:literal); $($field:literal),*) => {
        $crate::__private::v1::collect! {
        static __PROBE_DEFINITION: $crate::__private::v1::Definition = $crate::__private::v1::Definition::new(
            $crate::__private::v1::Kind::$kind,
            $crate::__private::v1::concat!(
                $crate::__private::v1::module_path!(), "::", $name,
                $crate::__private::v1::file!(),
                $($field, "\n",)*
                $notes,
            ),
            $crate::__private::v1::concat!($crate::__private::v1::module_path!(), "::", $name).len(),
            $crate::__private::v1::file!().len(),
            $notes.len(),
            $crate::__private::v1::line!(),
            $crate::__private::v1::column!(),
        );
        }
    };
}

/// Has the linker collect a definition: an element of the slice, as `linkme` places it. By hand, since `linkme` adds a function with a
/// closure to each, to check the type, which is fixed here: a good third of what the compiler took for a probe.
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
    ($passage:ident, value, $value:expr) => {
        $crate::__private::v1::value::<$crate::__private::v1::$passage, _>($value)
    };
    ($passage:ident, debug, $value:expr) => {
        $crate::__private::v1::debug::<$crate::__private::v1::$passage, _>(&$value)
    };
    ($passage:ident, display, $value:expr) => {
        $crate::__private::v1::display::<$crate::__private::v1::$passage, _>(&$value)
    };
}
