//! One site of the portable backend: a relaxed load of the definition's hook, and a branch.

/// The definition of a probe.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_define {
    ($kind:ident, $probe:tt; $($field:literal),*) => {
        $crate::__private::v1::definition! { $kind, $probe; $($field),* }
    };
}

/// The sites of an entry and an exit without fields.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_entry_and_exit {
    ($probe:tt) => {
        $crate::__private::v1::site! { Entry, $probe; }
        $crate::__private::v1::exit! { $probe }
    };
}

/// The guard of an exit.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_exit {
    ($probe:tt) => {
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
    };
}

/// One site of the probe that was defined in a surrounding block.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_place {
    ($($captures:tt)*) => {
        $crate::__private::v1::active! { { $crate::__private::v1::capture! { $($captures)* } } }
    };
}

/// The site itself, and the code that it runs while it is active.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_active {
    ($cold:block) => {
        if $crate::__private::v1::is_active(&__PROBE_DEFINITION) $cold
    };
}

/// The hit of an active site.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_deliver {
    ([$($done:tt)*] $($field:literal = $how:ident($value:expr)),*) => {
        // `match`, so that temporaries in the expressions outlive the call.
        match [$($crate::__private::v1::pass!($crate::__private::v1::InMemory, $how, $value)),*] {
            __probe_values => {
                $crate::__private::v1::hit(&__PROBE_DEFINITION, &__probe_values);
                $($done)*
            }
        }
    };
}

/// The hit of a site in which a field panicked.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_deliver_failed {
    () => {
        $crate::__private::v1::hit(&__PROBE_DEFINITION, $crate::__private::v1::FAILED)
    };
}

pub use crate::{
    __probe_v1_active as active, __probe_v1_define as define, __probe_v1_deliver as deliver,
    __probe_v1_deliver_failed as deliver_failed, __probe_v1_entry_and_exit as entry_and_exit,
    __probe_v1_exit as exit, __probe_v1_place as place,
};
