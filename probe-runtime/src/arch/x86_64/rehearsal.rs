//! A function that is called to see what its hits take; it has definitions and stubs, but no sites.

// Safety: relies on what `call` says of a stub.
#![expect(unsafe_code, reason = "see above")]

use super::call::call as hit;
use crate::abi::Definition;

/// Its entry, and its exit.
pub(crate) static CALL: [Definition; 2] = Definition::entry_and_exit("rehearsed", "rehearsed", "", "", 0, 0);

/// Calls it as if its sites were active: an entry, and an exit.
pub(crate) fn call() {
    use CALL as __PROBE_DEFINITION;
    crate::__private::v1::stub! { Entry, "lea rdi, [rip + {definition}]" }
    crate::__private::v1::stub! { Exit, "lea rdi, [rip + {definition} + 192]" }
    // SAFETY: this stands for the cold blocks of both.
    unsafe {
        hit::<Entry>();
        hit::<Exit>();
    }
}
