//! Functions that compilers have left room for patches in, for uftrace, live patching or XRay.
//!
//! | flag | compilers | sites |
//! |---|---|---|
//! | `-fpatchable-function-entry=N[,M]`, with 5 NOPs or more behind the function's beginning | gcc, clang; rustc's `-Zpatchable-function-entry` | entries |
//! | `-fxray-instrument` | clang | entries, exits, exits by tail calls |
//!
//! [`look_ahead`] finds them in the files of all loaded objects. They become probes with the
//! functions' names, files and lines, as [`finstrument`](crate::finstrument#names) has them, and
//! CALLs of stubs while they are active. No runtime of XRay or uftrace is needed.
//!
//! ```
//! probe_runtime::sleds::look_ahead();
//! for probe in probe_runtime::probes() {
//!     println!("{probe}");
//! }
//! ```
//!
//! # Known limits
//! - Patchable entries have no exits: calls are counted and traced, and have no latency.
//! - gcc's NOPs have one byte each, and threads may be between them. Their CALL can only lead 1.87
//!   GB below ([decision]), where a page is mapped for it. Where that is impossible, as in programs
//!   that are not position-independent, sleds can only be armed before `main`, by a preloaded
//!   agent. [`ProbeInfo::skipped`](crate::ProbeInfo::skipped) says so. They are one NOP then, which
//!   differs from the file.
//! - The bytes behind the jump or return of a sled of XRay, and behind the first two of a NOP of
//!   seven bytes or more, stay changed when the sled is latent again. No thread executes them, and
//!   one may be about to return there.
//! - XRay's own runtime must not patch a sled that is active here: it overwrites the CALL while
//!   threads execute it. A sled that it has patched is left alone, and named.
//! - A sled lies at the first byte of its function, where tracers put breakpoints. While there is
//!   one, the sled is left alone, and named. A uprobe that is removed writes the file's byte back.
//!   On an active sled, that tears the instruction, but for gcc's NOPs, which are latent then.
//!   Detach before.
//! - A file that was deleted is not read. Bytes in memory that are not the file's are left alone.
//! - Code that this crate itself was compiled with sleds in is left alone.
//!
//! [decision]: https://github.com/latent-probes/latent-probes/tree/main/docs/decisions

#[cfg(probe_discovers)]
mod call_site;
#[cfg(probe_discovers)]
mod forms;
#[cfg(probe_discovers)]
mod memory;
#[cfg(probe_discovers)]
mod provider;
#[cfg(probe_discovers)]
mod switch;

/// Finds the sleds of loaded objects. From then on each operation does so for the objects that have
/// come since the last one.
///
/// Cost: some 20 µs for the file of each object without sleds; some 10 ms and 10 µs a function for
/// one with sleds.
///
/// ```
/// probe_runtime::sleds::look_ahead();
/// ```
pub fn look_ahead() {
    #[cfg(probe_discovers)]
    provider::begin(false);
}

/// Does the same where the program has not reached `main`.
#[cfg(probe_discovers)]
pub(crate) fn look_ahead_before_main() {
    provider::begin(true);
}

/// Returns whether the file of a loaded object has sleds.
#[cfg(probe_discovers)]
pub(crate) fn are_loaded() -> bool {
    provider::are_loaded()
}
