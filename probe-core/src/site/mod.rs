//! One module per backend: the site that the macros leave in the program, and its cold path.
//! `build.rs` chooses one, and says in `probe_backend` how its sites are switched: `patched` (in
//! place, as `x86_64` does on Linux), `portable` (a flag and a branch) or `off` (no sites).
//!
//! Every backend has `define!`, `entry_and_exit!`, `exit!` and `place!` for the macros, and the
//! macros that these call. They expand in users' crates, so `__private::v1` exports all that they
//! name: [`Stub`](x86_64::Stub), `Typed` and `call*` for `patched`; `is_active`, `hit` and `FAILED`
//! for `portable`.
//!
//! A processor whose sites are patched gets a module here, beside `x86_64`. The way into dispatch
//! that its stubs jump to is `engine/entry` of `probe-runtime`, and the instructions themselves are
//! `probe-patch`'s.

#[cfg(probe_backend = "off")]
pub mod off;
#[cfg(probe_backend = "off")]
pub use off as backend;

#[cfg(probe_backend = "portable")]
pub mod portable;
#[cfg(probe_backend = "portable")]
pub use portable as backend;

#[cfg(probe_backend = "patched")]
pub mod x86_64;
#[cfg(probe_backend = "patched")]
pub use x86_64 as backend;
