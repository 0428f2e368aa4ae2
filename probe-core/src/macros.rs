//! The macros that the expansions of `probe-macros` call. The backend provides the site itself
//! (`arch/*/site.rs`).
//!
//! Expansions reach everything here through `__private::v1` by `$crate` alone: user code may rename
//! this crate and shadow `core`. Nothing here is public API.

mod future;
mod usdt;

/// `#[probe]`: the entry's site, and a guard whose drop is the exit's site on every way out. If
/// neither has fields, the backend's `entry_and_exit!` expands to both.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_function {
    // The USDT probes surround the sites, and their guard stands ahead of the exit's.
    (($name:literal, $notes:literal, usdt) $($entry:tt)*) => {
        $crate::__private::v1::usdt! { Entry, $name $($entry)* }
        $crate::__private::v1::usdt_exit! { $name }
        $crate::__private::v1::function! { ($name, $notes) $($entry)* }
    };
    ($probe:tt) => {
        $crate::__private::v1::entry_and_exit! { $probe }
        // Clippy would blame the user for items at the beginning of the body, which now stand after
        // a statement. It stops looking at the first item that comes from a macro.
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
/// site, with the result under the name that `exit` begins with. When a panic unwinds, the drop of
/// a guard is the exit's site.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_returning {
    (
        ($name:literal, $notes:literal, usdt);
        entry($($entry:tt)*);
        exit($result:ident $($contained:ident)?; $($field:literal = $how:ident($value:expr)),*);
        $body:expr
    ) => {{
        $crate::__private::v1::usdt! { Entry, $name $($entry)* }
        let __probe_returned = $crate::__private::v1::returning! {
            ($name, $notes);
            entry($($entry)*);
            exit($result $($contained)?; $($field = $how($value)),*);
            $body
        };
        {
            let $result = &__probe_returned;
            $crate::__private::v1::usdt! { Exit, $name; $($field = $how($value)),* }
        }
        __probe_returned
    }};
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

/// The exit's site after a return, for the probe that `define!` has defined in a surrounding block.
/// The fields borrow the result, a mutable variable, under another name.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_exit_site {
    ($place:ident as $result:ident $contained:tt; $($field:literal = $how:ident($value:expr)),*) => {
        $crate::__private::v1::place! {
            $contained of $place as $result; "outcome" = outcome($result) $(, $field = $how($value))*
        }
    };
}

/// The exit's site when a panic unwinds. It records only the outcome.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_unwound {
    ($($field:literal),*) => {
        $crate::__private::v1::place! { [] "outcome" = panicked(()) $(, $field = nothing(()))* }
    };
}

/// The first statement of a closure: moves these variables into it, even if its body only borrows
/// them.
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

/// `probe!`: one site, whose fields are evaluated in the cold block. `contained` says that the
/// fields may panic.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_point {
    ($probe:tt $($contained:ident)?; $($field:literal = $how:ident($value:expr)),* $(,)?) => {
        $crate::__private::v1::site! {
            Point, $probe $($contained)?; $($field = $how($value)),*
        }
    };
}

/// One site and its probe. The backend's `define!` makes the probe, and its `place!` the site.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_site {
    ($kind:ident, ($name:literal, $notes:literal, usdt) $($fields:tt)*) => {{
        $crate::__private::v1::usdt! { $kind, $name $($fields)* }
        $crate::__private::v1::site! { $kind, ($name, $notes) $($fields)* }
    }};
    ($kind:ident, $probe:tt $($contained:ident)?; $($field:literal = $how:ident($value:expr)),*) => {{
        $crate::__private::v1::define! { $kind, $probe; $($field),* }
        $crate::__private::v1::place! { [$($contained)?] $($field = $how($value)),* }
    }};
}

/// The code of an active site: the captures, then the hit, which the backend's `deliver!` makes.
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

/// A function without a probe in a block with `#[probe]`: a definition without sites, whose note
/// gives the reason. It stands in the function's body, or beside a function whose body can't hold
/// statements.
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

/// Without a list of definitions, no reader could find a definition that has no sites.
#[cfg(not(all(not(probe_backend = "off"), probe_definitions = "linked")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_skipped {
    ($probe:tt $(inside)?) => {};
}

/// The definition of a probe, as a static named `__PROBE_DEFINITION`. `("name", "notes")` names the
/// probe. A tool that places probes in a text adds the line and column of the function. Otherwise
/// they are those of the call.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_definition {
    ($kind:ident, ($name:literal, $notes:literal); $($field:literal),*) => {
        $crate::__private::v1::definition! {
            $kind, ($name, $notes, $crate::__private::v1::line!(), $crate::__private::v1::column!());
            $($field),*
        }
    };
    (
        $kind:ident, ($name:literal, $notes:literal, $line:expr, $column:expr); $($field:literal),*
    ) => {
        $crate::__private::v1::collect! {
            static __PROBE_DEFINITION: $crate::__private::v1::Definition =
                $crate::__private::v1::Definition::new(
                    $crate::__private::v1::Kind::$kind,
                    $crate::__private::v1::concat!(
                        $crate::__private::v1::module_path!(), "::", $name,
                        $crate::__private::v1::file!(),
                        $($field, "\n",)*
                        $notes,
                    ),
                    $crate::__private::v1::concat!($crate::__private::v1::module_path!(), "::", $name),
                    $crate::__private::v1::file!(),
                    $notes,
                    $line,
                    $column,
                );
        }
    };
    // A path that is not of the module: of probes that come with these crates.
    ($kind:ident, (at $path:literal, $notes:literal); $($field:literal),*) => {
        $crate::__private::v1::collect! {
            static __PROBE_DEFINITION: $crate::__private::v1::Definition =
                $crate::__private::v1::Definition::new(
                    $crate::__private::v1::Kind::$kind,
                    $crate::__private::v1::concat!(
                        $path, $crate::__private::v1::file!(), $($field, "\n",)* $notes,
                    ),
                    $path,
                    $crate::__private::v1::file!(),
                    $notes,
                    $crate::__private::v1::line!(),
                    $crate::__private::v1::column!(),
                );
        }
    };
}

/// Adds a definition to the list that the linker collects, as an element of `linkme`'s slice. The
/// element is written by hand: `linkme` adds a function with a closure to each element to check its
/// type, which is fixed here. Those took over a third of the time to compile a probe.
#[cfg(all(probe_backend = "patched", probe_definitions = "linked"))]
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

/// Adds a definition to the linker's list, on targets whose sections have other names.
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

/// Does nothing where the linker keeps no list of definitions; see `registry/seen.rs`.
#[cfg(all(not(probe_backend = "off"), probe_definitions = "seen"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_collect {
    ($definition:item) => {
        $definition
    };
}

/// The value of one field, from a borrow of its expression, for the given passage.
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
    // The type decides how the value is recorded.
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
