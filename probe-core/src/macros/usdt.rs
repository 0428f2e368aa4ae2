//! Macros of USDT probes, which expansions call beside those of the probe itself. As in
//! [`macros`](super), nothing is public API.
//!
//! | feature `usdt` | backend | expands to |
//! |---|---|---|
//! | on | patched | a NOP of one byte, and its note (`arch/x86_64/usdt.rs`) |
//! | on | other | a check of the arguments' types; no code |
//! | off | any | an error: a probe that is asked for must not silently be absent |

/// A USDT probe of this kind and name, with the fields as its arguments.
#[cfg(feature = "usdt")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt {
    ($kind:ident, $name:literal) => {
        $crate::__private::v1::usdt! { $kind, $name; }
    };
    ($kind:ident, $name:literal $($contained:ident)?; $($field:literal = $how:ident($value:expr)),*) => {
        {
            $crate::__private::v1::usdt_name! { $kind, $name }
            $crate::__private::v1::usdt_note! { $($value),* }
        }
    };
}

/// The NOP and its note. The expressions are borrows of variables.
#[cfg(all(feature = "usdt", probe_backend = "patched"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt_note {
    () => {
        $crate::__private::v1::usdt_note0::<__ProbeUsdt>()
    };
    ($a:expr) => {
        $crate::__private::v1::usdt_note1($crate::__private::v1::PhantomData::<__ProbeUsdt>, $a)
    };
    ($a:expr, $b:expr) => {
        $crate::__private::v1::usdt_note2($crate::__private::v1::PhantomData::<__ProbeUsdt>, $a, $b)
    };
    ($a:expr, $b:expr, $c:expr) => {
        $crate::__private::v1::usdt_note3($crate::__private::v1::PhantomData::<__ProbeUsdt>, $a, $b, $c)
    };
    ($a:expr, $b:expr, $c:expr, $d:expr) => {
        $crate::__private::v1::usdt_note4($crate::__private::v1::PhantomData::<__ProbeUsdt>, $a, $b, $c, $d)
    };
    ($($more:expr),*) => {
        $crate::__private::v1::usdt_too_many! {}
    };
}

/// Type-checks the arguments.
#[cfg(all(feature = "usdt", not(probe_backend = "patched")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt_note {
    ($($a:expr $(, $b:expr $(, $c:expr $(, $d:expr)?)?)?)?) => {
        if false {
            $($crate::__private::v1::usdt_argument($a);
            $($crate::__private::v1::usdt_argument($b);
            $($crate::__private::v1::usdt_argument($c);
            $($crate::__private::v1::usdt_argument($d);)?)?)?)?
        }
    };
    ($($more:expr),*) => {
        $crate::__private::v1::usdt_too_many! {}
    };
}

/// The macros of `probe-macros` count the fields that are written. A future has one more.
#[cfg(feature = "usdt")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt_too_many {
    () => {
        $crate::__private::v1::compile_error!(
            "a USDT probe has at most four fields, and that of a future has the future's address as its first one; remove one"
        )
    };
}

/// The type that stands for the USDT probe.
#[cfg(all(feature = "usdt", probe_backend = "patched"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt_name {
    ($kind:ident, $name:literal) => {
        enum __ProbeUsdt {}
        impl $crate::__private::v1::Usdt for __ProbeUsdt {
            const NAME: $crate::__private::v1::UsdtName = $crate::__private::v1::UsdtName::new(
                $crate::__private::v1::concat!($crate::__private::v1::module_path!(), "::", $name),
                $crate::__private::v1::Kind::$kind,
            );
        }
        // Else `cargo check` would not look at the name.
        const _: $crate::__private::v1::UsdtName = <__ProbeUsdt as $crate::__private::v1::Usdt>::NAME;
    };
}

/// Checks the name.
#[cfg(all(feature = "usdt", not(probe_backend = "patched")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt_name {
    ($kind:ident, $name:literal) => {
        const _: $crate::__private::v1::UsdtName = $crate::__private::v1::UsdtName::new(
            $crate::__private::v1::concat!($crate::__private::v1::module_path!(), "::", $name),
            $crate::__private::v1::Kind::$kind,
        );
    };
}

/// A guard whose drop is the USDT probe of a function's exit. It stands ahead of the probe's own
/// guard, so its NOP comes last.
#[cfg(all(feature = "usdt", probe_backend = "patched"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt_exit {
    ($name:literal) => {
        let __probe_usdt = {
            $crate::__private::v1::usdt_name! { Exit, $name }
            $crate::__private::v1::UsdtExit::<__ProbeUsdt>($crate::__private::v1::PhantomData)
        };
    };
}

/// Without the feature, the source asks for a probe that no tool would see.
#[cfg(not(feature = "usdt"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt {
    ($($probe:tt)*) => {
        $crate::__private::v1::compile_error!(
            "`usdt` needs the feature `usdt` of probe-runtime; add it in Cargo.toml: `features = [\"usdt\"]`"
        )
    };
}

/// Emits nothing. Without the feature, `usdt!` has the message.
#[cfg(not(all(feature = "usdt", probe_backend = "patched")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_usdt_exit {
    ($name:literal) => {};
}
