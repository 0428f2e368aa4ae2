//! The way in for a tool that calls functions in this process: it starts the agent of a program
//! that runs already. `docs/abi.md` describes the note that leads here.
//!
//! The functions of code with the compiler's hooks become probes then, too, until the agent ends.
//!
//! Cost: 32 bytes of the file, and a jump with a mark; no instruction is executed for it.

// Safety: relies on the caller, which passes the address of as many bytes as it says.
#![expect(unsafe_code, reason = "see above")]

use std::panic::catch_unwind;
use std::slice;

use super::answer::cut;
use super::listening;
use crate::engine::entry::backend::note::agent_entry_note;

/// Leaves the note, and a jump to [`start`], in the object that this function is in. Does nothing
/// when it runs.
pub(super) fn announce() {
    agent_entry_note!(start);
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
