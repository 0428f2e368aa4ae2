//! A plugin whose functions do inside of themselves what the host asks for.

use std::ffi::c_void;

use probe_runtime::probe;

type Work = extern "C" fn(*mut c_void);

macro_rules! functions {
    ($($name:ident)*) => {
        $(
            #[probe]
            #[inline(never)]
            fn $name(work: Work, with: *mut c_void) {
                work(with);
            }
        )*
        const FUNCTIONS: [fn(Work, *mut c_void); [$(stringify!($name)),*].len()] = [$($name),*];
    };
}
functions!(tiny middling long outer);

/// Called by the host: calls a function by its number.
#[unsafe(no_mangle)]
pub extern "C" fn late_call(function: usize, work: Work, with: *mut c_void) {
    FUNCTIONS[function](work, with);
}
