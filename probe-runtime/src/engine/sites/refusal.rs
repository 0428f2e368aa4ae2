//! One site that a batch left unchanged, and the reason for it, with advice.

use std::fmt;
use std::io::{Error, ErrorKind};

#[cfg(probe_backend = "patched")]
use super::Site;
use super::{Instruction, SITE_LEN, SiteAddr};

/// One site that was left unchanged.
///
/// ```
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn respond() {}
///
/// let hits = select("**::respond")?.attach(Count::new())?;
/// for refusal in hits.report().refusals() {
///     println!("site {:#x} was left alone: {:?}", refusal.site(), refusal.reason());
/// }
/// respond();
/// assert_eq!((hits.report().refused(), hits.total()), (0, 2));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub(super) site: SiteAddr,
    pub(super) reason: RefusalReason,
}

impl Refusal {
    pub(crate) fn new(site: SiteAddr, reason: RefusalReason) -> Self {
        Self { site, reason }
    }

    #[cfg(probe_backend = "patched")]
    pub(crate) fn holds_own(&self, site: Site) -> bool {
        matches!(self.reason, RefusalReason::Foreign { found, .. }
            if site.owns(Instruction::from_bytes(found)))
    }

    /// Returns the site's address.
    pub fn site(&self) -> usize {
        self.site.0
    }

    /// Returns the reason for the refusal.
    pub fn reason(&self) -> &RefusalReason {
        &self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "site {}: ", self.site)?;
        self.reason.explain(f)
    }
}

/// The reason why a site was left unchanged.
///
/// ```
/// use probe_runtime::patch::RefusalReason;
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn archive() {}
///
/// let hits = select("**::archive")?.attach(Count::new())?;
/// for refusal in hits.report().refusals() {
///     match refusal.reason() {
///         RefusalReason::Foreign { found, .. } => println!("somebody has written {found:02x?}"),
///         RefusalReason::Protected { errno } => println!("its page can't be written: error {errno}"),
///         reason => println!("{reason:?}"),
///     }
/// }
/// archive();
/// assert_eq!((hits.report().refusals().len(), hits.total()), (0, 2));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The site holds neither its NOP nor its jump or call. It may hold a breakpoint, or the patch
    /// of another program.
    Foreign {
        /// The expected bytes.
        expected: [u8; SITE_LEN],
        /// The bytes in the site.
        found: [u8; SITE_LEN],
    },
    /// The system does not let the page be written.
    Protected {
        /// The system's error number.
        errno: i32,
    },
    /// The system does not tell the rights of the page, so they could not be restored. This crate
    /// did not read the site. `/proc` is not mounted, or no descriptor is free.
    Unknown {
        /// The system's error number.
        errno: i32,
    },
    /// The system does not let text be written through `/proc/self/mem`, which
    /// [`TextPolicy::Alias`](crate::patch::TextPolicy) needs.
    NoAlias {
        /// The system's error number.
        errno: i32,
    },
    /// Another thread or writer is replacing the site's instruction, for example by a
    /// [`word`](crate::patch::word) patch.
    Busy,
    /// The site can't be switched through `int3`. [`TextPolicy::Alias`](crate::patch::TextPolicy)
    /// and strict patching need that, and so do recorded sites that lie across two aligned words.
    NoTrap {
        /// The obstacle, with advice.
        problem: String,
    },
    /// The site is a discovered call that lies across two aligned words. Such a call is switched by
    /// one write of a whole word. With [`TextPolicy::Alias`](crate::patch::TextPolicy) the kernel
    /// writes, and does not promise to write a word at once.
    Straddles,
    /// The site is a word that leads calls to a function of a library, and it can't be switched.
    Slot {
        /// The obstacle.
        problem: String,
    },
    /// The site's page is not mapped, or may not be read.
    Unreadable,
    /// Another copy of this crate in the process (in a plugin, say) was the first to attach to the
    /// probe.
    Taken,
    /// The attachment's consumer has failed, and is not called any more. See
    /// [`Attachment::failure`](crate::Attachment::failure).
    Failed,
}

impl RefusalReason {
    /// Returns whether a policy forbids making code writable.
    pub(super) fn is_policy(&self) -> bool {
        matches!(self, Self::Protected { errno }
            if Error::from_raw_os_error(*errno).kind() == ErrorKind::PermissionDenied)
    }

    /// Prints the reason, with advice.
    pub(super) fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { expected, found } => {
                write!(f, "expected {expected:02x?}, found {found:02x?}: {}", whose(*expected, *found))
            }
            Self::Protected { errno } => {
                let error = Error::from_raw_os_error(*errno);
                write!(f, "the system does not let its page be written: {error}")
            }
            Self::Unknown { errno } => {
                let error = Error::from_raw_os_error(*errno);
                write!(
                    f,
                    "the rights of its page can't be read from /proc/thread-self/maps: {error}; mount /proc, or leave \
                     a descriptor free"
                )
            }
            Self::NoAlias { errno } => {
                let error = Error::from_raw_os_error(*errno);
                write!(
                    f,
                    "its text can't be written through /proc/self/mem: {error}; that needs /proc, a dumpable process, \
                     and a kernel without proc_mem.force_override=never or =ptrace"
                )
            }
            Self::Busy => write!(f, "somebody else is replacing its instruction"),
            Self::NoTrap { problem } => write!(f, "it can't be switched through int3: {problem}"),
            Self::Straddles => write!(
                f,
                "it lies across two aligned words, which TextPolicy::Alias can't switch without int3; attach with another"
            ),
            Self::Slot { problem } => write!(f, "it leads calls to another object, and {problem}"),
            Self::Unreadable => write!(f, "its page is not mapped, or may not be read"),
            Self::Taken => write!(f, "another copy of probe-runtime in this process owns its probe"),
            Self::Failed => {
                write!(f, "its consumer has failed: see `Attachment::failure`; attach anew")
            }
        }
    }
}

/// Guesses the writer of these bytes, with advice.
fn whose(expected: [u8; SITE_LEN], found: [u8; SITE_LEN]) -> &'static str {
    const NOP: [u8; SITE_LEN] = Instruction::NOP5.bytes();
    let now = Instruction::from_bytes(found);
    match found {
        _ if now.is_breakpoint() => "a debugger's breakpoint, or a tracer's (a uprobe): remove it",
        NOP => {
            "somebody has written the file's NOP back, and hits are lost: switch the site off and on again"
        }
        [first, tail @ ..] if first == NOP[0] && (tail == expected[1..] || expected == NOP) => {
            "torn: a tracer (a uprobe) was put on the active site, and has written one byte of the file back. Who executes it may \
             crash; patch::word::patch can write the NOP there"
        }
        _ if now.is_call() => "a tracer's call (a uprobe): remove it",
        _ => "a debugger or another patcher holds it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_patch_is_shown_with_its_bytes() {
        let reason =
            RefusalReason::Foreign { expected: [0x0f, 0x1f, 0x44, 0, 8], found: [0xcc, 0x1f, 0x44, 0, 8] };
        assert_eq!(
            Refusal::new(SiteAddr(0x40), reason).to_string(),
            "site 0x40: expected [0f, 1f, 44, 00, 08], found [cc, 1f, 44, 00, 08]: \
             a debugger's breakpoint, or a tracer's (a uprobe): remove it"
        );
    }
}
