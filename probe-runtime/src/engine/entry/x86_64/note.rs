//! The note of a runtime: it tells a tool, and another runtime in the same process, that an object
//! has the application's part of this crate. `docs/abi.md` describes it.
//!
//! The linker keeps the note with the function below, which the first operation calls. So a program
//! has the note if it can attach, and a program whose libraries only ship probes has none.
//! Cost: 28 bytes of the file; no instruction.

// Safety: relies on directives making no code.
#![expect(unsafe_code, reason = "see above")]

use core::arch::asm;

use probe_core::abi::{RUNTIME_AGENT, RUNTIME_OWNER, RUNTIME_TYPE};

/// Leaves the note. Does nothing when it runs.
#[expect(named_asm_labels, reason = "a note can be linked to a named label only")]
pub(crate) fn announce() {
    // SAFETY: no instruction. The condition is for compilers that copy the function.
    unsafe {
        asm!(
            ".ifndef .Lprobe_v1_owner",
            ".Lprobe_v1_owner:",
            ".pushsection .note.latent_owner, \"ao\", @note, .Lprobe_v1_owner",
            ".p2align 2",
            ".long {length}, 4, {ty}",
            ".asciz \"LatentOwner\"",
            ".long {flags}",
            ".popsection",
            ".endif",
            length = const RUNTIME_OWNER.len(),
            ty = const RUNTIME_TYPE,
            flags = const if cfg!(probe_agent) { RUNTIME_AGENT } else { 0 },
            options(nomem, nostack, preserves_flags),
        );
    }
}
