//! The outcome for calls of hooks: their numbers, by their states, and the reasons why some stay
//! real calls.

use std::{fmt, io};

use crate::engine::registry::ProbeInfo;

/// Numbers of call sites that were discovered since the process began, and of their states. From
/// [`stats`](super::stats()).
///
/// ```
/// let stats = probe_runtime::finstrument::stats();
/// println!("{} of {} call sites are patched", stats.patched, stats.discovered);
/// if stats.beyond_capacity != 0 {
///     println!("{} found no counter: attach with a greater capacity", stats.beyond_capacity);
/// }
/// # assert_eq!(stats.lost, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Call sites that were discovered.
    pub discovered: usize,
    /// Call sites that became sites: a NOP while latent, a call of their own stub while active.
    /// Sites that became real calls again, since two functions share them, count here and in
    /// `unpatched`.
    pub patched: usize,
    /// Those of `patched` that lie across two aligned words.
    pub split_calls: usize,
    /// Those of `patched` that are functions ending in jumps to the exit hook. All jumps of one
    /// function count once.
    pub tail_jumps: usize,
    /// Call sites that are real calls for good at present, see [`unpatched`](super::unpatched).
    pub unpatched: usize,
    /// Call sites that are real calls at present, and that a later hit or operation will patch.
    pub waiting: usize,
    /// Call sites that the first hit did not patch, since it would have had to wait.
    pub postponed: usize,
    /// Hits of call sites for which there was no memory.
    pub lost: usize,
    /// Discoveries without a call of the callback, since the callback or a consumer was running on
    /// that thread.
    pub untold: usize,
    /// Discoveries whose objects were unloaded before an operation could name them. No attachment's
    /// counts include their hits.
    pub unnamed: usize,
    /// Discoveries that an attachment to [all](super::attach) had no room for.
    pub beyond_capacity: usize,
}

/// Words that lead calls of hooks, since the process began: how many were changed, and how many the
/// system did not let change. From [`redirect`](super::redirect).
///
/// ```
/// let redirected = probe_runtime::finstrument::redirect();
/// // No object of this program is compiled with `-finstrument-functions`.
/// assert_eq!((redirected.led, redirected.refused), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Redirected {
    /// Words that lead to this crate's hooks from now on: one or two for each object that calls
    /// them.
    pub led: usize,
    /// Words whose page could not be made writable. The calls of their objects reach the C
    /// library's hooks, which do nothing.
    pub refused: usize,
}

/// The reason why a call of a hook stays a real call. Its hits are delivered nevertheless, each by
/// a look-up.
///
/// ```
/// use probe_runtime::finstrument::{Reason, unpatched};
/// for call in unpatched() {
///     match call.reason() {
///         Reason::Protected { errno } => println!("{call} (error {errno}): try TextPolicy::Alias"),
///         Reason::Shared => println!("{call}: compile with -fno-crossjumping"),
///         _ => println!("{call}"),
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The instruction is not understood. It may be a call through a register, a call that is known
    /// as another function's, or a jump to the hook.
    ///
    /// Compilers make a jump of a call that is a function's last action
    /// (`-fno-optimize-sibling-calls` forbids that). A jump is understood once an operation has
    /// looked at the function's code, but not in stripped objects, if it is conditional, or in
    /// functions with jumps through tables.
    NotACall,
    /// Two inlined functions end in this call, and the hook tells them apart (`-fno-crossjumping`
    /// forbids such calls).
    Shared,
    /// The system forbids writing to the call's page.
    Protected {
        /// The system's error number.
        errno: i32,
    },
    /// [`TextPolicy::Alias`](crate::patch::TextPolicy) needs `int3`, and `SIGTRAP` has another
    /// handler by now, or a thread blocks it.
    NoTrap,
    /// The call lies across two aligned words, and [`TextPolicy::Alias`](crate::patch::TextPolicy)
    /// can't write a whole word at once.
    SplitCall,
    /// There is no stub for the call. The system does not let memory be made executable
    /// (`PR_SET_MDWE`, a policy), or no memory is free within its reach of 2 GiB (`EEXIST`).
    NoStub {
        /// The system's error number.
        errno: i32,
    },
}

/// This number and those below it encode [`Reason::NoStub`].
#[cfg_attr(not(probe_discovers), cfg(test))]
const NO_STUB: i32 = -0x1_0000;

impl Reason {
    #[cfg_attr(not(probe_discovers), cfg(test))]
    pub(super) fn encode(self) -> i32 {
        match self {
            Self::NotACall => -1,
            Self::NoTrap => -2,
            Self::SplitCall => -3,
            Self::Shared => -4,
            Self::Protected { errno } => errno,
            Self::NoStub { errno } => NO_STUB - errno,
        }
    }

    #[cfg_attr(not(probe_discovers), cfg(test))]
    pub(super) fn decode(number: i32) -> Self {
        match number {
            -1 => Self::NotACall,
            -2 => Self::NoTrap,
            -3 => Self::SplitCall,
            -4 => Self::Shared,
            below if below <= NO_STUB => Self::NoStub { errno: NO_STUB - below },
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
            Self::Shared => f.write_str(
                "another inlined function ends in the same call; -fno-crossjumping avoids that",
            ),
            Self::Protected { errno } => write!(
                f,
                "the system does not let its page be written: {}",
                io::Error::from_raw_os_error(*errno)
            ),
            Self::NoTrap => f.write_str(
                "TextPolicy::Alias goes through int3, and SIGTRAP has another handler, or is blocked by a thread",
            ),
            Self::SplitCall => f.write_str(
                "it lies across two aligned words, of which TextPolicy::Alias can't write one at once",
            ),
            Self::NoStub { errno: libc::EEXIST } => {
                f.write_str("no memory for its stub is free within 2 GiB of it")
            }
            Self::NoStub { errno } => write!(
                f,
                "the system does not let memory for its stub be made executable: {}",
                io::Error::from_raw_os_error(*errno)
            ),
        }
    }
}

/// A call of a hook that stays a real call. From [`unpatched`](super::unpatched()).
///
/// ```
/// for call in probe_runtime::finstrument::unpatched() {
///     println!("{} {}: {}", call.probe().path(), call.probe().kind(), call.reason());
///     if let Some(site) = call.site() {
///         println!("  at {site:#x}");
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unpatched {
    probe: ProbeInfo,
    site: Option<usize>,
    reason: Reason,
}

impl Unpatched {
    #[cfg(probe_discovers)]
    pub(super) fn new(probe: ProbeInfo, site: Option<usize>, reason: Reason) -> Self {
        Self { probe, site, reason }
    }

    /// Returns the call's probe.
    pub fn probe(&self) -> &ProbeInfo {
        &self.probe
    }

    /// Returns the address of the call's five bytes; `None` if the call is not known.
    pub fn site(&self) -> Option<usize> {
        self.site
    }

    /// Returns why it stays a real call.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for Unpatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.probe.path(), self.probe.kind(), self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_read_again() {
        let errnos = [13, 17].map(|errno| Reason::NoStub { errno });
        for reason in [
            Reason::NotACall,
            Reason::NoTrap,
            Reason::SplitCall,
            Reason::Shared,
            Reason::Protected { errno: 13 },
            errnos[0],
            errnos[1],
        ] {
            assert_eq!(Reason::decode(reason.encode()), reason);
            assert!(!reason.to_string().is_empty());
        }
    }
}
