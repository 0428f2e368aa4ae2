//! What a probe marks, and how its sites reach who listens: the two numbers of a definition that
//! are enumerations.

use core::fmt;

/// What of the program a probe marks.
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
    /// The exit of a function that has `#[probe]`, by return or by unwinding. Of a future: the end
    /// of its last poll.
    Exit = 2,
    /// A future of an `async fn` that has `#[probe]` is dropped after its entry and before its
    /// exit: it was cancelled.
    Drop = 3,
    /// A poll of such a future ends without a result: the thread leaves the future until its next poll.
    Suspend = 4,
    /// Another poll than the first begins. (The first is the entry.)
    Resume = 5,
    /// Where a function that has `#[probe(replace)]` may be left to another, before its entry.
    Replace = 6,
}

impl Kind {
    /// All kinds, in the order of their encoding.
    pub const ALL: [Self; 7] =
        [Self::Point, Self::Entry, Self::Exit, Self::Drop, Self::Suspend, Self::Resume, Self::Replace];

    /// The word that selectors and tables use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Entry => "entry",
            Self::Exit => "exit",
            Self::Drop => "drop",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Replace => "replace",
        }
    }

    /// The kind that a definition encodes so; `None` for one that this reader does not know.
    pub(super) const fn from_number(number: u8) -> Option<Self> {
        let at = number as usize;
        // `ALL` has them at their numbers: the assertion below.
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

/// How active sites reach the definition's `entry`, and so what of the processor's state they need
/// to find again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Convention {
    /// By a JMP to a cold block, which steps over the red zone, and gives up the vector registers.
    ColdBlock = 0,
    /// By a CALL that the compiler knows nothing of, at the entry of a function, before a return or
    /// before a tail call: everything is kept, vector registers too.
    Hidden = 1,
    /// By a CALL where the compiler expects one: the registers that a callee may change are given
    /// up.
    Call = 2,
    /// As `ColdBlock`, but vector registers are kept, too: for compilers that would spill them on
    /// the hot path.
    KeptColdBlock = 3,
}

impl Convention {
    /// All conventions, in the order of their encoding.
    pub const ALL: [Self; 4] = [Self::ColdBlock, Self::Hidden, Self::Call, Self::KeptColdBlock];
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
