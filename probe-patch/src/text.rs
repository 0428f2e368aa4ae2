//! The policy of how text is written.

/// How text is written.
///
/// ```
/// use probe_patch::TextPolicy;
///
/// // For code whose protection may not be changed: the kernel writes. Hand it to
/// // `word::WordOptions::text_policy` or `call::CallOptions::text_policy`.
/// let policy = TextPolicy::Alias;
/// assert_ne!(policy, TextPolicy::default());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TextPolicy {
    /// Text is writable only during a batch, and only in the pages that the batch touches. This
    /// takes two system calls for each run of pages; if a run can't be opened, two for each of its
    /// pages.
    ///
    /// Pages get the rights back that they had when this crate first asked. It asks once for each
    /// mapping, until shared objects come or go. If other code changes the rights of text after
    /// that, a batch changes them back. An `OpenText` on the pages makes the next batch ask again.
    #[default]
    Sealed,
    /// The text stays writable (and executable), and a patch takes no system call. For an
    /// instruction, the caller keeps the text writable, with an [`OpenText`](crate::OpenText) or as
    /// its own memory. For probes, all text of the objects concerned stays writable while the
    /// attachment or hold lives. If not all of it can be opened, attaching is an error.
    ///
    /// Use it only for text whose rights no other code changes. Another copy of this crate in the
    /// process, such as a plugin's, is other code. If both copies patch the text of one object, one
    /// may seal pages that the other holds open, and the next write is a `SIGSEGV`. Use `Sealed` or
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
    /// sites, and names its finding. [`word`](crate::word#before-a-trap) has the details, and the
    /// cases that such a look can't see. A refused detach leaves the sites active, and their hits
    /// reach no consumer.
    ///
    /// The look takes 40 µs a batch, and 10 to 14 µs for each thread of the process.
    Alias,
}
