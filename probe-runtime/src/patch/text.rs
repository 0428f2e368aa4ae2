//! Policies: how text is written, and when threads see a change.

/// How text is written.
///
/// ```
/// use probe_runtime::{Count, TextPolicy, probe, select};
///
/// #[probe]
/// fn toggled() {}
///
/// // The text stays writable while the attachment lives, so pausing takes no system call for it.
/// let hits = select("**::toggled kind=entry")?.text(TextPolicy::Open).attach(Count::new())?;
/// toggled();
/// hits.pause();
/// toggled();
/// assert_eq!(hits.total(), 1);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TextPolicy {
    /// Text is writable only during a batch, and only in the pages that the batch touches. This
    /// takes two system calls for each run of pages; if a run can't be opened, two for each of its
    /// pages.
    ///
    /// Pages get the rights back that they had when this crate first asked. It asks once for each
    /// mapping, until shared objects come or go. If somebody else changes the rights of text after
    /// that, a batch changes them back. An `OpenText` on the pages makes the next batch ask again.
    #[default]
    Sealed,
    /// All text of the objects concerned stays writable (and executable) while the attachment or
    /// hold lives. Toggling then takes no system call. If not all of it can be opened, attaching is
    /// an error.
    ///
    /// Use it only for text whose rights nobody else changes. Another copy of this crate in the
    /// process, a plugin's, is somebody else. If both copies patch the text of one object, one may
    /// seal pages that the other holds open, and the next write is a `SIGSEGV`. Use `Sealed` or
    /// `Alias` in both copies there.
    Open,
    /// No page is ever writable and executable. The kernel writes, through `/proc/self/mem`, to its
    /// own mapping of the pages. That works where the protection of code may not be changed: sealed
    /// text (mseal(2)), a seccomp filter or another policy that denies `mprotect`. It needs
    /// `/proc`, a dumpable process, and a kernel that was not started with
    /// `proc_mem.force_override=never` or `=ptrace`.
    ///
    /// Such a write is whole for one byte only. So each site is switched by the protocol that
    /// begins with an `int3`. That takes some system calls for each site, and barriers for each
    /// batch. A thread that runs into an `int3` gets `SIGTRAP`, which a handler of this crate
    /// takes.
    ///
    /// The kernel kills a process if a thread raises that signal while it blocks it. So each batch
    /// looks for threads that block it, for handlers whose `sa_mask` holds it, and for a debugger
    /// that keeps it (gdb: `handle SIGTRAP nostop noprint pass`). If it finds one, it refuses all
    /// sites, and names its finding. [`word`](crate::patch::word#before-a-trap) has the details,
    /// and the cases that such a look can't see. A refused detach leaves the sites active, and
    /// their hits reach nobody.
    ///
    /// The look takes 40 µs a batch, and 10 to 14 µs for each thread of the process.
    Alias,
}

/// The hint to users where a trial has shown that this policy works.
pub(crate) const ALIAS_WORKS: &str = "TextPolicy::Alias works here: write `.text(TextPolicy::Alias)` in code, or \
    `text=alias` in PROBES, as in `count(text=alias)`";

/// When threads execute what a batch has written.
///
/// ```
/// use probe_runtime::{Count, Visibility, probe, select};
///
/// #[probe]
/// fn seen_soon() {}
///
/// // No barrier: threads other than this one may miss the first hits.
/// let set = select("**::seen_soon kind=entry")?.visibility(Visibility::Eventual);
/// let hits = set.attach(Count::new())?;
/// seen_soon();
/// println!("{}", hits.total());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Visibility {
    /// All threads execute it when the call returns. One system call.
    #[default]
    Synchronous,
    /// Each thread executes it soon after the call: hundreds of cycles later, where it was
    /// measured.
    Eventual,
}

/// How a batch gets at its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The caller holds all of it open.
    Held,
    /// Each run of pages is opened by itself, unless it is held open.
    ByRun,
    /// The same as `ByRun`, and each site goes through `int3`.
    ByRunStrictly,
    /// Through the kernel, and `int3`.
    Alias,
}

impl TextPolicy {
    /// The access that a batch on any sites has under this policy.
    pub(crate) fn access(self, strict: bool) -> Access {
        match self {
            Self::Sealed | Self::Open if strict => Access::ByRunStrictly,
            Self::Sealed | Self::Open => Access::ByRun,
            Self::Alias => Access::Alias,
        }
    }
}
