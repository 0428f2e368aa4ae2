//! A site that is not there.

/// Type-checks the fields without evaluating them.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_site {
    ($kind:ident, $probe:tt; $($field:literal = $how:ident($value:expr)),*) => {{
        if false {
            $(let _ = $crate::__private::v1::pass!($crate::__private::v1::InMemory, $how, $value);)*
        }
    }};
}

pub use crate::__probe_v1_site as site;
