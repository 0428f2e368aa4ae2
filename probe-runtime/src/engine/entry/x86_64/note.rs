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

/// Leaves the note that leads a tool to the function `$start`, and a jump there, in the object of
/// the function that expands this. Nothing is executed. `docs/abi.md` describes the note.
macro_rules! agent_entry_note {
    ($start:ident) => {
        #[expect(named_asm_labels, reason = "a note can be linked to a named label only")]
        // SAFETY: no instruction here. The condition is for compilers that copy the function.
        unsafe {
            core::arch::asm!(
                ".ifndef .Lprobe_v1_agent",
                ".Lprobe_v1_agent:",
                ".pushsection .text.probe_agent_entry, \"ax\", @progbits",
                // Tells the entry from other code, once a tool has moved the note.
                ".p2align 4",
                ".ascii \"LatentAgentEntry\"",
                ".Lprobe_v1_entry: jmp {start}",
                ".popsection",
                ".pushsection .note.latent_agent, \"ao\", @note, .Lprobe_v1_agent",
                ".p2align 2",
                ".long {length}, 8, {ty}",
                ".asciz \"LatentOwner\"",
                ".quad .Lprobe_v1_entry - .",
                ".popsection",
                ".endif",
                start = sym $start,
                length = const probe_core::abi::RUNTIME_OWNER.len(),
                ty = const probe_core::abi::ENTRY_TYPE,
                options(nomem, nostack, preserves_flags),
            );
        }
    };
}

pub(crate) use agent_entry_note;
