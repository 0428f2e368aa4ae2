//! The way in for a tool that calls functions in this process: it starts the agent of a program
//! that runs already. `docs/abi.md` describes the note that leads here.
//!
//! Cost: 32 bytes of the file, and a jump; no instruction is executed for it.

// Safety: relies on the caller, which passes the address of as many bytes as it says; and on
// directives that make no code here.
#![expect(unsafe_code, reason = "see above")]

use std::arch::asm;
use std::panic::catch_unwind;
use std::slice;

use super::stop::cut;
use crate::abi::{ENTRY_TYPE, RUNTIME_OWNER};
use crate::agent;

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

/// Starts the agent. Returns 1, or 0 if that fails. Writes the socket's path, or the reason, with a
/// terminator.
extern "C" fn start(text: *mut u8, room: usize) -> usize {
    let started = catch_unwind(agent::start);
    let (is_started, said) = match started {
        Ok(Ok(path)) => (true, path.display().to_string()),
        Ok(Err(error)) => (false, error.to_string()),
        Err(_) => (false, "it panicked; the program's stderr says more".to_owned()),
    };
    let said = cut(said, room.saturating_sub(4));
    // SAFETY: the caller has as many bytes there, which nobody else uses.
    let into = unsafe { slice::from_raw_parts_mut(text, room) };
    for (to, from) in into.iter_mut().zip(said.bytes().chain([0])) {
        *to = from;
    }
    usize::from(is_started)
}
