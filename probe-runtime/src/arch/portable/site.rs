//! One site of the portable backend: a relaxed load of the definition's hook, and a branch.

/// One site, and the definition of its probe.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_site {
    ($kind:ident, $probe:tt; $($field:literal = $how:ident($value:expr)),*) => {{
        $crate::__private::v1::definition! { $kind, $probe; $($field),* }
        if $crate::__private::v1::is_active(&__PROBE_DEFINITION) {
            // `match`, so that temporaries in the expressions outlive the call.
            match [$($crate::__private::v1::pass!(InMemory, $how, $value)),*] {
                __probe_values => $crate::__private::v1::hit(&__PROBE_DEFINITION, &__probe_values),
            }
        }
    }};
}

/// The site of a function that may be replaced; the body of a function that answers with `Passed`. Asked, it names the probe.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_replace_site {
    ($asked:ident, $probe:tt) => {
        $crate::__private::v1::definition! { Replace, $probe; }
        if $asked {
            return $crate::__private::v1::Passed::Probe(&__PROBE_DEFINITION);
        }
        if $crate::__private::v1::is_active(&__PROBE_DEFINITION) {
            $crate::__private::v1::hit(&__PROBE_DEFINITION, &[]);
            return $crate::__private::v1::Passed::Active;
        }
        $crate::__private::v1::Passed::Latent
    };
}

pub use crate::{__probe_v1_replace_site as replace_site, __probe_v1_site as site};
