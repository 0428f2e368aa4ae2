//! Kinds of probes and conventions of their sites: the two enumerations of a definition.

use core::fmt;

/// The kind of place in the program that a probe marks.
///
/// ```
/// use probe_runtime::Kind;
///
/// // As selectors have it: `kind=entry`.
/// assert_eq!(Kind::Entry.name(), "entry");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// A place inside a function, from `probe!("name")`.
    Point = 0,
    /// The entry of a function that has `#[probe]`.
    Entry = 1,
    /// The exit of a function that has `#[probe]`, by return or by unwinding. For a future, the end
    /// of its last poll.
    Exit = 2,
    /// The drop of a future with `#[probe]` after its entry and before its exit: the future was
    /// cancelled.
    Drop = 3,
    /// The end of a poll without a result: the thread leaves the future until its next poll.
    Suspend = 4,
    /// The beginning of any poll but the first, which is the entry.
    Resume = 5,
    /// The place before the entry of a function with `#[probe(replace)]`, where a replacement may
    /// take over.
    Replace = 6,
}

impl Kind {
    /// All kinds, in the order of their encoding.
    pub const ALL: [Self; 7] =
        [Self::Point, Self::Entry, Self::Exit, Self::Drop, Self::Suspend, Self::Resume, Self::Replace];

    /// Returns the word that selectors and tables use.
    pub const fn name(self) -> &'static str {
        ["point", "entry", "exit", "drop", "suspend", "resume", "replace"][self as usize]
    }

    /// Returns the kind with this encoding; `None` if this reader does not know it.
    pub const fn from_number(number: u8) -> Option<Self> {
        let at = number as usize;
        // `ALL` is in the order of the encoding; asserted below.
        if at < Self::ALL.len() { Some(Self::ALL[at]) } else { None }
    }
}

const _: () = {
    let mut at = 0;
    while at < Kind::ALL.len() {
        assert!(Kind::ALL[at] as usize == at);
        at += 1;
    }
};

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Serializes as its name.
#[cfg(feature = "serde")]
impl serde_core::Serialize for Kind {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The way from active sites to the definition's `entry`, and so the processor state that a hit
/// must preserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Convention {
    /// A JMP to a cold block, which steps over the red zone, and gives up the vector registers.
    ColdBlock = 0,
    /// A CALL that the compiler does not know of, at the entry of a function, before a return or
    /// before a tail call. All registers are kept, vector registers too.
    Hidden = 1,
    /// A CALL where the compiler expects one. The registers that a callee may change are given up.
    Call = 2,
    /// The same as `ColdBlock`, but vector registers are kept, for compilers that would spill them
    /// on the hot path.
    KeptColdBlock = 3,
    /// A CALL in a runtime's own wrapper of a library's function, which passes and returns nothing
    /// in vector registers. The same as `Call`; calls are told apart by the wrapper's frame.
    Wrapped = 4,
}

impl Convention {
    /// All conventions, in the order of their encoding.
    pub const ALL: [Self; 5] =
        [Self::ColdBlock, Self::Hidden, Self::Call, Self::KeptColdBlock, Self::Wrapped];

    /// Returns the convention with this encoding; `None` if this reader does not know it.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn kinds_have_numbers() {
        let known: Vec<_> = (0..=u8::MAX).filter_map(Kind::from_number).collect();
        assert_eq!(known, Kind::ALL);
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind as u8), Some(kind));
        }
        assert_eq!(Kind::from_number(7), None);
    }
}
