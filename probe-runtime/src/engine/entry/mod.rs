//! One folder per backend. `build.rs` chooses one, and says in `probe_backend` how its sites are
//! switched: `patched` (in place, as `x86_64` does on Linux), `portable` (a flag and a branch) or
//! `off` (no sites). A processor whose sites are patched gets a folder here, beside `x86_64`.
//!
//! Every backend has, for the macros:
//! - `site!` and the macros that it re-exports: one site, its definition, and its cold path. They
//!   expand in users' crates, so `__private::v1` exports all that they name: `Stub`, `Typed` and
//!   `call*` for `patched`; `is_active`, `hit` and `FAILED` for `portable`.
//!
//! For `dispatch` and `control`:
//! - `entry(definition)`: the function that an active site of this definition reaches in the end;
//! - `slot()`, `set_slot()`, `claim_slot()`: this thread's pointer to its slot, safe in a signal
//!   handler;
//! - `bump(counter)`: adds one to a counter of this thread, with no lost hit of a signal handler;
//! - `light_barrier()`: the hit's half of the fence whose other half is `os::heavy_barrier`;
//! - `calibration`: two calls of a function that does not belong to the program. One has an entry
//!   and an exit, the other is counted in place.
//!
//! A patched backend also has, for `registry`, `patch` and `finstrument`:
//! - `values()`: reads the values that a cold path passed in registers and on the stack;
//! - `stub`: how a site's cold path leads to its definition, as bytes to read;
//! - `block`: code that counts in place, for a site that is only counted;
//! - `announce()`: leaves a note in each object that has the application's part.
//!
//! Three other places have instructions of their own: `finstrument`'s hooks (`live/hooks.rs`), the
//! clock's counter (`clock.rs`), and `probe-patch`, which encodes and switches the site's.

// Without sites, the rest of the crate uses the portable backend.
#[cfg(not(probe_backend = "patched"))]
pub mod portable;
#[cfg(not(probe_backend = "patched"))]
pub use portable as backend;

#[cfg(probe_backend = "patched")]
pub mod x86_64;
#[cfg(probe_backend = "patched")]
pub use x86_64 as backend;
