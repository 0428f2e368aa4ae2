//! Why an instruction was not patched.

use std::error;
use std::fmt;
use std::io;

use super::{Bytes, TextError};

/// Why an instruction was not patched. The instruction is then as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum PatchError {
    /// Another patch of the same instruction is under way. That one goes on; ask again.
    Busy {
        /// The instruction's address.
        addr: usize,
    },
    /// Something else is there than what was to be replaced: a debugger's breakpoint, or somebody else's patch.
    Foreign {
        /// The instruction's address.
        addr: usize,
        /// What was to be replaced.
        expected: Bytes,
        /// What is there.
        found: Bytes,
    },
    /// The new instruction begins with `int3`, which is what marks an instruction that is being patched.
    Trap {
        /// The new instruction.
        value: Bytes,
    },
    /// An instruction can only be replaced by one that is as long.
    Length {
        /// What was to be replaced.
        expected: Bytes,
        /// What was to replace it.
        value: Bytes,
    },
    /// The text can't be made writable.
    Text {
        /// The instruction's address.
        addr: usize,
        /// Why.
        error: TextError,
    },
    /// The kernel can't write there in the program's place, as [`TextPolicy::Alias`](super::TextPolicy) asks.
    Alias {
        /// The instruction's address.
        addr: usize,
        /// The system's reason.
        error: io::Error,
    },
    /// There is no memory for the patch's bookkeeping.
    Memory,
    /// The signal that holds threads while an instruction is replaced can't be handled.
    Signal {
        /// What is in the way, and what to do about it.
        problem: String,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { addr } => write!(f, "{addr:#x}: another patch of this instruction is under way"),
            Self::Foreign { addr, expected, found } => write!(
                f,
                "{addr:#x}: expected {expected:?}, found {found:?}: a debugger or another patcher holds it"
            ),
            Self::Trap { value } => {
                write!(f, "{value:?} begins with int3, which marks an instruction that is being patched")
            }
            Self::Length { expected, value } => write!(
                f,
                "{expected:?} can only be replaced by an instruction of {} bytes, not by {value:?}",
                expected.len()
            ),
            Self::Text { addr, error } => write!(f, "{addr:#x}: the instruction can't be written: {error}"),
            Self::Alias { addr, error } => {
                write!(f, "{addr:#x}: the instruction can't be written through /proc/self/mem: {error}")
            }
            Self::Memory => {
                write!(f, "there is no memory for the bookkeeping of another patched instruction")
            }
            Self::Signal { problem } => write!(f, "SIGTRAP: {problem}"),
        }
    }
}

impl error::Error for PatchError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Text { error, .. } => Some(error),
            Self::Alias { error, .. } => Some(error),
            _ => None,
        }
    }
}
