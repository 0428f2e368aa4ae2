//! Why text can't be opened or sealed again.

use std::error;
use std::fmt;
use std::io;
use std::ops::Range;

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
