//! The way from a site into dispatch, one folder for each architecture whose sites are patched.
//! Nothing outside of such a folder names an instruction or a register, but for encodings that are
//! read or written as bytes.
//!
//! `build.rs` chooses a backend, and says in `probe_backend` how its sites are switched: `patched`
//! (in place, as `x86_64` does on Linux), `portable` (a flag and a branch) or `off` (no sites). The
//! rest of the crate names it `backend`.
//!
//! # Every backend
//! | item | contract |
//! |---|---|
//! | `entry(definition)` | the function that an active site of this definition reaches in the end |
//! | `slot()`, `set_slot(slot)`, `claim_slot(slot)` | this thread's pointer to its slot; each is one step to a signal handler |
//! | `SLOT_SIZE` | bytes of a thread's slot |
//! | `increment(counter)` | adds one to a counter of this thread; loses no hit of a signal handler |
//! | `light_barrier()` | the hit's half of the fence whose other half is `os::heavy_barrier` |
//! | `values(frame, count)` | the address of a hit's values, from what dispatch was given |
//! | `HAS_STACK_POINTER` | whether what dispatch was given leads to the stack pointer at the site |
//! | `calibration::{CALL, call, count_in_place}` | two calls of a function that does not belong to the program: one has an entry and an exit, the other is counted in place |
//!
//! # Patched backends
//! | item | contract |
//! |---|---|
//! | `stub::{decode, STUB_LEN, StubCode}` | how a site's cold path leads to its definition, as bytes to read |
//! | `block::{Block, LEN, slot_offset}` | code that counts in place, for a site that is only counted, as bytes to write and to read back |
//! | `prefetch_for_write(addr)` | a hint: this processor is about to write there |
//! | `announce()`, `note::agent_entry_note!` | notes in each object that has the application's part |
//! | `hooks::{hook, call_stub, return_at_once}` | bodies of the functions that `finstrument` gives to instrumented code |
//!
//! Its way in reads types of `dispatch` by the offsets of [`layout`](super::dispatch::layout),
//! which asserts them, and calls the function that a hook names with the definition, the frame, the
//! subscription, the slot and the hook, as [`delivery`](super::dispatch) says. It marks the slot
//! before it reads the hook, and clears the mark afterwards.
//!
//! [`cpu`] has the processor's counters, whatever the backend. The site itself, with its cold path
//! and its stub, is `probe_core::site`'s; its instructions are `probe-patch`'s.

pub(crate) mod cpu;

// Without sites, the rest of the crate uses the portable backend.
#[cfg(not(probe_backend = "patched"))]
pub mod portable;
#[cfg(not(probe_backend = "patched"))]
pub use portable as backend;

#[cfg(probe_backend = "patched")]
pub mod x86_64;
#[cfg(probe_backend = "patched")]
pub use x86_64 as backend;
