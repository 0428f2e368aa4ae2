//! Why an instruction was not patched.

use std::error;
use std::fmt;
use std::io;

use crate::bytes::Bytes;

mod text;

pub use text::TextError;

/// Why an instruction was not patched.
///
/// The instruction is then as it was, with one exception. After [`PatchError::Text`] with
/// [`TextError::Unrestored`] it was patched, and its text is still writable.
///
/// ```
/// use probe_patch::{PatchError, TextPolicy};
/// use probe_patch::word::WordOptions;
///
/// #[repr(align(8))]
/// struct Code([u8; 8]);
///
/// let mut code = Code([0xcc, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90]);
/// let at = (&raw mut code) as usize;
/// let (nop, value) = ([0x90; 2].into(), [0x66, 0x90].into());
/// // SAFETY: memory of our own, which no thread executes.
/// match unsafe { WordOptions::new().text_policy(TextPolicy::Open).replace(at, nop, value) } {
///     Err(PatchError::Foreign { found, .. }) => assert_eq!(found[0], 0xcc), // a breakpoint
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PatchError {
    /// Another patch of the same instruction is under way, and is not disturbed. Try again later.
    Busy {
        /// The instruction's address.
        addr: usize,
    },
    /// The instruction is not the one to be replaced. A debugger's breakpoint is there, or a
    /// foreign patch.
    Foreign {
        /// The instruction's address.
        addr: usize,
        /// The instruction to be replaced.
        expected: Bytes,
        /// The bytes that are there.
        found: Bytes,
    },
    /// The new instruction begins with `int3`, which marks instructions that are being patched.
    Trap {
        /// The new instruction.
        value: Bytes,
    },
    /// The two instructions differ in length.
    Length {
        /// The instruction to be replaced.
        expected: Bytes,
        /// The new instruction.
        value: Bytes,
    },
    /// The text can't be made writable. With [`TextError::Unrestored`], the instruction was
    /// patched, but the system refused to restore the text's former rights.
    Text {
        /// The instruction's address.
        addr: usize,
        /// The reason.
        error: TextError,
    },
    /// The kernel can't write there on behalf of the program, which
    /// [`TextPolicy::Alias`](super::TextPolicy) needs.
    Alias {
        /// The instruction's address.
        addr: usize,
        /// The system's reason.
        error: io::Error,
    },
    /// There is no memory for the patch's bookkeeping.
    Memory,
    /// The bytes there are neither a CALL nor a JMP of five bytes, nor a deactivated one. They may
    /// be a debugger's breakpoint, another instruction, or a NOP across two aligned words, which no
    /// single write makes a CALL.
    NotACall {
        /// The instruction's address.
        addr: usize,
        /// The bytes that are there.
        found: Bytes,
    },
    /// The target needs a CALL or JMP with other last three bytes, which a switch of this site does
    /// not write.
    Tail {
        /// The instruction's address.
        addr: usize,
        /// The requested target.
        target: usize,
        /// The last three bytes of a CALL or JMP to that target.
        expected: Bytes,
        /// The last three bytes that are there.
        found: Bytes,
    },
    /// A CALL was to become a JMP, or a JMP a CALL, at a site whose opcode lies in another word
    /// than its other four bytes.
    Opcode {
        /// The instruction's address.
        addr: usize,
        /// The opcode that was asked for.
        expected: u8,
        /// The opcode that is there.
        found: u8,
    },
    /// The target is more than 2 GiB away, beyond the reach of a CALL or JMP of five bytes.
    OutOfReach {
        /// The instruction's address.
        addr: usize,
        /// The requested target.
        target: usize,
    },
    /// A deactivated CALL has to call a lone `ret`. Within 2 GiB there is no `ret`, and no memory
    /// for one.
    Trampoline {
        /// The instruction's address.
        addr: usize,
        /// The system's reason.
        error: io::Error,
    },
    /// The signal that holds threads while an instruction is replaced can't be handled.
    Signal {
        /// The obstacle, and advice on how to remove it.
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
            Self::Text { addr, error: error @ TextError::Unrestored { .. } } => {
                write!(f, "{addr:#x}: the instruction is as was asked for, but {error}")
            }
            Self::Text { addr, error } => write!(f, "{addr:#x}: the instruction can't be written: {error}"),
            Self::Alias { addr, error } => {
                write!(f, "{addr:#x}: the instruction can't be written through /proc/self/mem: {error}")
            }
            Self::Memory => {
                write!(f, "there is no memory for the bookkeeping of another patched instruction")
            }
            Self::NotACall { addr, found } => write!(
                f,
                "{addr:#x}: found {found:?}, which is neither a CALL nor a JMP, nor a deactivated one that a single write \
                 could change: a debugger holds it, or this is not a call site"
            ),
            Self::Tail { addr, target, expected, found } => write!(
                f,
                "{addr:#x}: to lead to {target:#x}, the instruction would have to end in {expected:?}, but it ends in \
                 {found:?}, which no single write changes together with its beginning: replace the whole instruction by a word patch"
            ),
            Self::Opcode { addr, expected, found } => write!(
                f,
                "{addr:#x}: the opcode {found:#x} would have to become {expected:#x}, which no single write changes \
                 together with the rest: replace the whole instruction by a word patch"
            ),
            Self::OutOfReach { addr, target } => write!(
                f,
                "{addr:#x}: {target:#x} is more than 2 GiB away; lead to code near by, which jumps there"
            ),
            Self::Trampoline { addr, error } => write!(
                f,
                "{addr:#x}: there is no place within 2 GiB for the `ret` that a deactivated CALL calls: {error}; \
                 activate it with an empty function near by instead"
            ),
            Self::Signal { problem } => write!(f, "SIGTRAP: {problem}"),
        }
    }
}

impl error::Error for PatchError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Text { error, .. } => Some(error),
            Self::Alias { error, .. } | Self::Trampoline { error, .. } => Some(error),
            _ => None,
        }
    }
}
