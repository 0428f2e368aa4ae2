//! Calls and jumps of the compiler's hooks, as x86-64 has them.
//!
//! | contract | |
//! |---|---|
//! | `call` | decodes the call that has reached a hook; the site in its place |
//! | `call_patch` | switches a call that is no site, without a torn instruction |
//! | `stub` | the stub of a discovered call, and the `ret` of one that is switched off |

pub(super) mod call;
pub(super) mod call_patch;
pub(super) mod stub;
