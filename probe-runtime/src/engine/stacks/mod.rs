//! The caller of a hit's function, and the stack of callers, although these have no probes.
//!
//! ```text
//! attach ▸ the objects' unwind tables
//! hit    ▸ the site's registers ▸ walk: a rule for each frame (this thread's cache ▸ the tables)
//!        ▸ the address of the call, or the stack's number in this thread's memory
//! report ▸ addresses ▸ names, by the symbols of their objects' files
//! ```
//! At entries and exits of C, and at sleds, the return address is at the stack pointer. Elsewhere
//! `.eh_frame` tells where it is, as it does in the frames above. It tells it of code with and
//! without frame pointers. Code without tables ends a stack, since nobody knows whether it has a
//! frame pointer. A walk by such a pointer alone skips callers that have none.
//!
//! Where nobody knows, there is no caller, and a stack ends with a mark. A walk looks at
//! each page of the stack before it reads it, so a wrong table ends the stack, and not the program.
//! The look is a read that may fault. While a thread blocks the signals of faults, it is a system
//! call, once for each page of a thread's stack.
//!
//! Life cycle: made when a consumer is prepared ▸ [`look`](Callers::look) after objects may have
//! come or gone ▸ dropped with the consumer. Looks are taken before sites of new objects are
//! switched, at joins and at reports, and whenever a trace's writer looks for new stacks. Until the
//! next look, stacks end at code of objects that came meanwhile. If that is in the place of an
//! unloaded object's, it leads anywhere.
//!
//! Where a field of Rust may panic, a function that the site's one calls makes the hit, unless that
//! is inlined. Walks begin in the function that has a site of the probe.
//!
//! Cost: none for other attachments. Attaching copies the tables of libraries, 100 KB of C's, and
//! reads the records of all sites, 20 ns each. A thread takes 8 KB for its cache, and for stacks
//! the pages that they fill of 300 KB. The first walk by a call takes a microsecond a frame, each
//! later one a comparison and two loads. Such a first walk takes 3 KB of the hit's stack, another
//! one less than 1 KB.

#[cfg(probe_values)]
mod callers;
#[cfg(probe_values)]
mod frame;
#[cfg(probe_values)]
mod kept;
#[cfg(probe_values)]
mod objects;
#[cfg(not(probe_values))]
mod unknown;
#[cfg(probe_values)]
mod walk;

#[cfg(probe_values)]
pub(crate) use callers::Callers;
#[cfg(not(probe_values))]
pub(crate) use unknown::{Callers, Rules};
#[cfg(probe_values)]
pub(crate) use walk::Rules;

/// Why there are no callers in this build.
pub(crate) const NO_CALLERS: &str = "callers are known with the feature `c-values`, on x86-64 Linux";

/// A mark at the outer end of a stack that is not whole, in the place of a call's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// There are more frames.
    Deeper = 0,
    /// Nobody knows what follows.
    Unknown = 1,
}

impl Ending {
    /// Returns the mark that a word is.
    pub(crate) fn of(word: u64) -> Option<Self> {
        [Self::Deeper, Self::Unknown].into_iter().find(|it| *it as u64 == word)
    }

    /// Returns what a reader sees in the place of a call's name.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Deeper => "…",
            Self::Unknown => "(unknown)",
        }
    }
}
