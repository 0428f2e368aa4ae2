//! One folder per backend, chosen in `build.rs`. All have the same contract:
//!
//! - `site!`, with the macros that it needs: one site, its definition, and its cold path;
//! - `entry()`: the function that active sites reach in the end;
//! - `slot()`, `set_slot()`, `claim_slot()`: this thread's pointer to its slot;
//! - `light_barrier()`: the hit's half of the fence whose other half is `os::heavy_barrier`;
//! - `rehearsal`: hits of a function that does not belong to the program.

#[cfg(probe_backend = "off")]
pub mod off;
#[cfg(probe_backend = "off")]
pub use off as backend;

// Without sites, the rest of the crate uses the portable backend.
#[cfg(not(probe_backend = "x86_64"))]
pub mod portable;
#[cfg(probe_backend = "portable")]
pub use portable as backend;

#[cfg(probe_backend = "x86_64")]
pub mod x86_64;
#[cfg(probe_backend = "x86_64")]
pub use x86_64 as backend;
