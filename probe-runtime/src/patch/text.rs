//! Policies: how text is written, and when a change is seen.

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
    /// Text is writable during a batch only, and only the pages that the batch touches. Two system calls for
    /// each run of pages; where a run can't be opened, two for each of its pages.
    ///
    /// Pages get back the rights that they had when this crate first asked: once for each mapping, until shared objects come or
    /// go. Whoever changes the rights of text himself after that, beside this crate, has a batch on it change them back; an
    /// `OpenText` on it has the next batch ask again.
    #[default]
    Sealed,
    /// The text of the objects concerned stays writable (and executable) while the attachment or hold lives:
    /// for rapid toggling, without a system call. All of it can be opened, or attaching is an error.
    ///
    /// Only for text that nobody else changes the rights of. Another copy of this crate in the process, a plugin's, is
    /// somebody else: where both patch the text of the same object, one may seal what the other holds open, and the next write
    /// is a `SIGSEGV`. Use `Sealed` or `Alias` in both there.
    Open,
    /// No page is ever writable and executable: the kernel writes, through `/proc/self/mem`, to its own mapping of
    /// the pages. It works where the protection of code may not be changed: sealed text (mseal(2)), a seccomp filter
    /// or another policy that denies `mprotect`. It needs `/proc`, a dumpable process, and a kernel that was not
    /// started with `proc_mem.force_override=never` or `=ptrace`.
    ///
    /// Such a write is whole for one byte only, so each site is switched by the protocol that begins with an `int3`: some
    /// system calls for each site, and barriers for each batch. A thread that runs into one gets `SIGTRAP`, which a handler of this
    /// crate takes.
    ///
    /// The kernel kills a process that blocks that signal where it is raised. So each batch looks for threads that block it, for handlers
    /// whose `sa_mask` holds it, and for a debugger that keeps it (gdb: `handle SIGTRAP nostop noprint pass`), and refuses all sites if it
    /// finds one, which it names: see [`word`](crate::patch::word#before-a-trap), also for what such a look can't see. A refused
    /// detach leaves the sites active, and their hits reach nobody. Cost: 40 µs a batch, and 10 to 14 µs for each thread of the process.
    Alias,
}

/// What to write where this policy was tried and found to work.
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
    /// All of them, when the call returns. One system call.
    #[default]
    Synchronous,
    /// Each of them, soon after the call: hundreds of cycles where it was measured.
    Eventual,
}

/// How a batch gets at its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The caller holds all of it open.
    Held,
    /// Each run of pages is opened for itself, as far as nobody holds it open.
    ByRun,
    /// The same, and each site goes through `int3`.
    ByRunStrictly,
    /// Through the kernel, and `int3`.
    Alias,
}

impl TextPolicy {
    /// What a batch on any sites may rely on under this policy.
    pub(crate) fn access(self, strict: bool) -> Access {
        match self {
            Self::Sealed | Self::Open if strict => Access::ByRunStrictly,
            Self::Sealed | Self::Open => Access::ByRun,
            Self::Alias => Access::Alias,
        }
    }
}
