//! One site of the portable backend: a relaxed load of the definition's hook, and a branch.

/// One site, and the definition of its probe.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_site {
    ($kind:ident, $probe:tt; $($field:literal = $how:ident($value:expr)),*) => {{
        $crate::__private::v1::definition! { $kind, $probe; $($field),* }
        if $crate::__private::v1::is_active(&__PROBE_DEFINITION) {
            // `match`, so that temporaries in the expressions outlive the call.
            match [$($crate::__private::v1::pass!($crate::__private::v1::InMemory, $how, $value)),*] {
                __probe_values => $crate::__private::v1::hit(&__PROBE_DEFINITION, &__probe_values),
            }
        }
    }};
}

pub use crate::__probe_v1_site as site;
