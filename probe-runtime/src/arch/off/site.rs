//! A site that is not there.

/// Type-checks the fields without evaluating them.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_site {
    ($kind:ident, $probe:tt; $($field:literal = $how:ident($value:expr)),*) => {{
        if false {
            $(let _ = $crate::__private::v1::pass!(InMemory, $how, $value);)*
        }
    }};
}

/// The site of a function that may be replaced, which is not there.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_replace_site {
    ($asked:ident, $probe:tt) => {
        $crate::__private::v1::Passed::Latent
    };
}

pub use crate::{__probe_v1_replace_site as replace_site, __probe_v1_site as site};
