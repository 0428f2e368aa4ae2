//! Sites that compile to nothing.

/// Defines nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_define {
    ($($probe:tt)*) => {};
}

/// Emits neither an entry nor an exit.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_entry_and_exit {
    ($probe:tt) => {};
}

/// Emits no exit.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_exit {
    ($probe:tt) => {};
}

/// Type-checks the fields without evaluating them.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_place {
    ($contained:tt of $place:ident as $result:ident; $($captures:tt)*) => {
        if false {
            let mut __probe_place = $crate::__private::v1::Resulting::new(&mut $place);
            let __probe_kept = (&mut __probe_place).keep();
            let $result = __probe_kept.get();
            $crate::__private::v1::place! { $contained $($captures)* }
        }
    };
    ($contained:tt $($field:literal = $how:ident($value:expr)),*) => {
        if false {
            $(let _ = $crate::__private::v1::pass!($crate::__private::v1::InMemory, $how, $value);)*
        }
    };
}

pub use crate::{
    __probe_v1_define as define, __probe_v1_entry_and_exit as entry_and_exit, __probe_v1_exit as exit,
    __probe_v1_place as place,
};
