//! Why a call stays one.

use std::fmt;
use std::io;

/// Why a call of a hook stays what it is. Its hits are delivered all the same, each by a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// It is no call that is understood: a function that ends in a jump to the hook, which the compiler makes of a call that
    /// is the last thing to do (`-fno-optimize-sibling-calls` forbids it), or a call through a register.
    NotACall,
    /// The system does not let the call's page be written.
    Protected {
        /// The system's error number.
        errno: i32,
    },
    /// It lies across two aligned words, and `SIGTRAP` has another handler by now.
    NoTrap,
}

impl Reason {
    pub(super) fn encode(self) -> i32 {
        match self {
            Self::NotACall => -1,
            Self::NoTrap => -2,
            Self::Protected { errno } => errno,
        }
    }

    pub(super) fn decode(number: i32) -> Self {
        match number {
            -1 => Self::NotACall,
            -2 => Self::NoTrap,
            errno => Self::Protected { errno },
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACall => f.write_str(
                "the hook was not reached by a call that is understood; -fno-optimize-sibling-calls avoids jumps to it",
            ),
            Self::Protected { errno } => write!(
                f,
                "the system does not let its page be written: {}",
                io::Error::from_raw_os_error(*errno)
            ),
            Self::NoTrap => f.write_str(
                "it lies across two aligned words, and another SIGTRAP handler was installed over the one of this crate",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_read_again() {
        for reason in [Reason::NotACall, Reason::NoTrap, Reason::Protected { errno: 13 }] {
            assert_eq!(Reason::decode(reason.encode()), reason);
            assert!(!reason.to_string().is_empty());
        }
    }
}
