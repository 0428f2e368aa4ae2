//! Macros that the expansions of `probe-macros` call for futures. As in [`macros`](super), nothing
//! is public API.

/// A future, with sites around its polls. `$stage` is `Told` for an `async` block and
/// `Noted::Fresh` for other futures. The entry's site is here (`outside`). If it has fields besides
/// the address, it is in the future instead (`inside`: `entered!`).
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_future {
    ($probe:tt; entry $entry:ident; exit($($exit:tt)*); $stage:expr; $future:expr) => {{
        struct __ProbeSites;
        impl $crate::__private::v1::Sites for __ProbeSites {
            $crate::__private::v1::entry_site! { $entry $probe }

            #[inline(always)]
            fn resume(at: $crate::__private::v1::usize) {
                $crate::__private::v1::site! { Resume, $probe; "future" = value(&at) }
            }

            #[inline(always)]
            fn suspend(at: $crate::__private::v1::usize) {
                $crate::__private::v1::site! { Suspend, $probe; "future" = value(&at) }
            }

            #[inline(always)]
            fn drop(at: $crate::__private::v1::usize) {
                $crate::__private::v1::site! { Drop, $probe; "future" = value(&at) }
            }
        }
        $crate::__private::v1::Probed::new(__ProbeSites, $future, $stage, |__probe_at, __probe_ended| {
            $crate::__private::v1::ended! { $probe, __probe_at, __probe_ended; $($exit)* }
        })
    }};
    ($probe:tt; $stage:expr; $future:expr) => {
        $crate::__private::v1::future! { $probe; entry outside; exit(); $stage; $future }
    };
}

/// The entry's site of a future, if it is outside.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_entry_site {
    (outside $probe:tt) => {
        #[inline(always)]
        fn entry(at: $crate::__private::v1::usize) {
            $crate::__private::v1::site! { Entry, $probe; "future" = value(&at) }
        }
    };
    (inside $probe:tt) => {
        const ENTERS_INSIDE: $crate::__private::v1::bool = true;

        #[inline(always)]
        fn entry(_: $crate::__private::v1::usize) {}
    };
}

/// The exit's site of a future. `$ended` holds the result, or nothing after a panic.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_ended {
    ($probe:tt, $at:ident, $ended:ident;) => {{
        let _ = $ended;
        $crate::__private::v1::site! { Exit, $probe; "future" = value(&$at) }
    }};
    (
        ($name:literal, $notes:literal, usdt), $at:ident, $ended:ident;
        $result:ident $($contained:ident)?; $($field:literal = $how:ident($value:expr)),*
    ) => {{
        if let $crate::__private::v1::Option::Some($result) = $ended {
            $crate::__private::v1::usdt! { Exit, $name; "future" = value(&$at) $(, $field = $how($value))* }
        }
        $crate::__private::v1::ended! {
            ($name, $notes), $at, $ended; $result $($contained)?; $($field = $how($value)),*
        }
    }};
    (
        $probe:tt, $at:ident, $ended:ident;
        $result:ident $($contained:ident)?; $($field:literal = $how:ident($value:expr)),*
    ) => {{
        $crate::__private::v1::define! { Exit, $probe; "future", "outcome" $(, $field)* }
        match $ended {
            $crate::__private::v1::Option::Some($result) => $crate::__private::v1::place! {
                [$($contained)?]
                "future" = value(&$at), "outcome" = outcome($result) $(, $field = $how($value))*
            },
            $crate::__private::v1::Option::None => $crate::__private::v1::place! {
                [] "future" = value(&$at), "outcome" = panicked(()) $(, $field = nothing(()))*
            },
        }
    }};
}

/// The first statement of a future with its entry inside: the entry's site.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_entered {
    ($probe:tt $($contained:ident)?; $($captures:tt)*) => {
        // In a block, so that the future does not store the address.
        {
            // SAFETY: awaited in a future that `future!` wraps with its entry inside.
            let __probe_at = unsafe { $crate::__private::v1::address() }.await;
            $crate::__private::v1::site! {
                Entry, $probe $($contained)?; "future" = value(&__probe_at), $($captures)*
            }
        }
        // As in `function!`.
        use $crate::__private::v1::{};
    };
}

/// The first statement of a block whose future is `Told`. It lets the runtime borrow the future.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_unfrozen {
    () => {
        let _ = &$crate::__private::v1::Unfrozen::new();
        // As in `function!`.
        use $crate::__private::v1::{};
    };
}

/// Emits nothing where no runtime borrows the future.
#[cfg(probe_backend = "off")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_unfrozen {
    () => {
        // As in `function!`.
    };
}

/// The future unchanged. It is in a block, since clippy asks for `async fn` if a body is only an
/// `async` block.
#[cfg(probe_backend = "off")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_future {
    ($probe:tt; entry $entry:ident; exit($($exit:tt)*); $stage:expr; $future:expr) => {{ $future }};
    ($probe:tt; $stage:expr; $future:expr) => {{ $future }};
}

/// Type-checks the fields.
#[cfg(probe_backend = "off")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_entered {
    ($probe:tt $($contained:ident)?; $($captures:tt)*) => {
        $crate::__private::v1::site! { Entry, $probe $($contained)?; $($captures)* }
        // As in `function!`.
        use $crate::__private::v1::{};
    };
}
