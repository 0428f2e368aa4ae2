//! Why an instruction was not patched, and why its text can't be opened or sealed again.

use std::ops::Range;
use std::{error, fmt, io};

use crate::engine::bytes::Bytes;

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
    /// [`TextPolicy::Alias`](crate::TextPolicy) needs.
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

/// Why text could not be made writable, or its rights could not be restored.
///
/// ```
/// use std::io;
/// use probe_patch::{OpenText, TextError};
///
/// let error = OpenText::new(8..9).unwrap_err();
/// assert_eq!(error, TextError::Unmapped { addr: 8 });
/// assert_eq!(error.errno(), None); // found without asking the system to open it
/// assert_eq!(io::Error::from(error).to_string(), "nothing is mapped at 0x8");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TextError {
    /// Nothing is mapped at an address of the range.
    Unmapped {
        /// The first such address.
        addr: usize,
    },
    /// An address of the range lies in a page that may not be read (`PROT_NONE`, or code that may
    /// only be executed).
    NotReadable {
        /// The first such address.
        addr: usize,
    },
    /// The system does not tell the rights of the pages, so they could not be restored.
    Unknown {
        /// The system's error number.
        errno: i32,
    },
    /// The system does not let pages be made writable: their text is sealed (mseal(2)), or a policy
    /// forbids it. No page was opened.
    Protected {
        /// The pages.
        pages: Range<usize>,
        /// The system's error number.
        errno: i32,
    },
    /// The system refuses to restore the former rights of pages, so they stay writable. The end of
    /// the last guard on them tries again. [`unrestored_bytes`](crate::unrestored_bytes) counts
    /// them.
    Unrestored {
        /// The first such pages.
        pages: Range<usize>,
        /// The system's error number.
        errno: i32,
    },
}

impl TextError {
    /// Returns the system's error number; `None` if the system was not the one to refuse.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Unmapped { .. } | Self::NotReadable { .. } => None,
            Self::Unknown { errno } | Self::Protected { errno, .. } | Self::Unrestored { errno, .. } => {
                Some(*errno)
            }
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::Unmapped { addr } => write!(f, "nothing is mapped at {addr:#x}"),
            Self::NotReadable { addr } => {
                write!(f, "the page at {addr:#x} may not be read, so it holds no text that could be patched")
            }
            Self::Unknown { errno } => write!(
                f,
                "the rights of pages can't be read from /proc/thread-self/maps: {}; mount /proc, or leave a \
                 descriptor free",
                system(errno)
            ),
            Self::Protected { pages, errno } => {
                let (start, end) = (pages.start, pages.end);
                write!(f, "pages {start:#x}..{end:#x} can't be made writable: {}", system(errno))?;
                f.write_str(advice(*errno))
            }
            Self::Unrestored { pages, errno } => write!(
                f,
                "pages {:#x}..{:#x} stay writable, since they can't have their former rights back: {}",
                pages.start,
                pages.end,
                system(errno)
            ),
        }
    }
}

/// Returns advice for a system that does not let text be written.
fn advice(errno: i32) -> &'static str {
    match errno {
        libc::EPERM => {
            "; the mapping may be sealed (mseal), or a sandbox forbids it: TextPolicy::Alias may write there"
        }
        libc::EACCES => {
            "; a policy forbids code that can be written (TextPolicy::Alias may write there), or it is a shared \
             mapping of a file that is open for reading only"
        }
        libc::ENOMEM => "; memory is short, or there are too many mappings (vm.max_map_count)",
        _ => "",
    }
}

impl error::Error for TextError {}

impl From<TextError> for io::Error {
    /// Returns the system's own error, if there is one.
    fn from(error: TextError) -> Self {
        match error.errno() {
            Some(errno) => Self::from_raw_os_error(errno),
            None => Self::other(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has its own texts of the system's errors")]
    fn each_says_where_and_what_to_do() {
        let pages = || 0x1000..0x3000;
        assert_eq!(TextError::Unmapped { addr: 0x1234 }.to_string(), "nothing is mapped at 0x1234");
        assert_eq!(
            TextError::Protected { pages: pages(), errno: libc::EPERM }.to_string(),
            "pages 0x1000..0x3000 can't be made writable: Operation not permitted (os error 1); the mapping may \
             be sealed (mseal), or a sandbox forbids it: TextPolicy::Alias may write there"
        );
        assert_eq!(
            TextError::Unrestored { pages: pages(), errno: libc::ENOMEM }.to_string(),
            "pages 0x1000..0x3000 stay writable, since they can't have their former rights back: Cannot allocate \
             memory (os error 12)"
        );
    }

    #[test]
    fn the_systems_error_is_kept() {
        let protected = TextError::Protected { pages: 0..1, errno: libc::EACCES };
        assert_eq!(io::Error::from(protected).raw_os_error(), Some(libc::EACCES));
        let unmapped = io::Error::from(TextError::Unmapped { addr: 0x10 });
        assert_eq!(
            (unmapped.raw_os_error(), unmapped.to_string()),
            (None, "nothing is mapped at 0x10".into())
        );
    }
}
