//! The way in for a tool that calls functions in this process: it starts the agent of a program
//! that runs already. `docs/abi.md` describes the note that leads here.
//!
//! The functions of code with the compiler's hooks become probes then, too, until the agent ends.
//!
//! Cost: 32 bytes of the file, and a jump with a mark; no instruction is executed for it.

// Safety: relies on the caller, which passes the address of as many bytes as it says; and on
// directives that make no code here.
#![expect(unsafe_code, reason = "see above")]

use std::arch::asm;
use std::panic::catch_unwind;
use std::slice;

use super::listening;
use super::stop::cut;
use probe_core::abi::{ENTRY_TYPE, RUNTIME_OWNER};

/// Leaves the note, and a jump to [`start`], in the object that this function is in. Does nothing
/// when it runs.
#[expect(named_asm_labels, reason = "a note can be linked to a named label only")]
pub(super) fn announce() {
    // SAFETY: no instruction here. The condition is for compilers that copy the function.
    unsafe {
        asm!(
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
            start = sym start,
            length = const RUNTIME_OWNER.len(),
            ty = const ENTRY_TYPE,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Starts the agent, which goes with its last client unless it `stays`. Returns 1, or 0 if that
/// fails, or 2 if another agent is about to end. Writes the socket's path, or the reason, with a
/// terminator.
///
/// # Safety
/// The text has as many bytes, which nobody else uses meanwhile.
unsafe extern "C" fn start(text: *mut u8, room: usize, stays: usize) -> usize {
    let started = catch_unwind(|| listening::start(stays != 0, true));
    let (returned, said) = match started {
        Ok(Ok(Some(path))) => (1, path.display().to_string()),
        Ok(Ok(None)) => (2, listening::ENDING.to_owned()),
        Ok(Err(error)) => (0, error.to_string()),
        Err(_) => (0, "it panicked; the program's stderr says more".to_owned()),
    };
    let said = cut(said, room.saturating_sub(4));
    // SAFETY: the caller has as many bytes there, which nobody else uses.
    let into = unsafe { slice::from_raw_parts_mut(text, room) };
    for (to, from) in into.iter_mut().zip(said.bytes().chain([0])) {
        *to = from;
    }
    returned
}
