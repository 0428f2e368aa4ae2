//! The files of traces that stay in memory: one that the rings lie in ([`mapped`](super::mapped)),
//! and one for the snapshots of panics ([`on_panic`](super::on_panic)).

use std::path::PathBuf;

use super::Trace;

impl Trace {
    /// Keeps the rings of a [`recorder`](Self::recorder) or of [`first`](Self::first) in this file,
    /// which the process maps (Linux). `probe-trace` reads it at any time, also after the process
    /// was killed, has aborted, or has become another program: it has each event up to that moment.
    /// Hits cost the same.
    ///
    /// - Attaching replaces a file of this name, and reserves room on the disk for
    ///   [all rings](Self::total_size), and 1 MiB for definitions if the set is
    ///   [standing](crate::ProbeSet::standing). The end of the attachment gives room of rings back.
    /// - `%p` in the name stands for the process's id, `%%` for `%`.
    /// - A forked child has a file of its own, from its first hit on. Where the name has no `%p`,
    ///   it is `NAME-ID.ENDING`. It lacks the events before the fork. If a child can't make its
    ///   file, its rings are private memory, and its reports say so.
    /// - If another program cuts the file off, the events behind its end are lost, and reports say
    ///   so. The program goes on: a handler of `SIGBUS` puts other memory there, and passes all
    ///   other signals on. It needs that threads which hit probes don't block that signal, and that
    ///   handlers which are installed later pass on signals that they don't know.
    /// - The system writes the file to the disk when it likes. After that, the first store to a
    ///   page takes the thread into the kernel. A file in `/dev/shm` has no such pauses. If the
    ///   machine stops, the events that were not written to the disk are lost.
    ///
    /// Attaching returns an error if the disk has no such room, if `path` is there and no file, or
    /// on other systems.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use probe_runtime::{Trace, probe, select};
    ///
    /// #[probe]
    /// fn step() {}
    /// step();
    ///
    /// # let path = std::env::temp_dir().join("last-%p.probetrace");
    /// // let path = "/dev/shm/last-%p.probetrace";
    /// let trace = select("**::step")?.attach(Trace::recorder().in_file(&path))?;
    /// step();
    /// // Wherever the program ends, the file has these events.
    /// assert_eq!(trace.finish()?.written, 2);
    /// # std::fs::remove_file(std::env::temp_dir().join(format!("last-{}.probetrace", std::process::id()))).unwrap();
    /// # }
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn in_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.rings_in = Some(path.into());
        self
    }

    /// Writes a [snapshot](crate::Attachment::snapshot) of a [`recorder`](Self::recorder) or of
    /// [`first`](Self::first) to this file each time a thread panics, as long as the trace is
    /// attached. So the file has the events before the last panic, also where a panic aborts the
    /// program (`panic = "abort"`) or is caught.
    ///
    /// The program's panic hook runs afterwards. A hook that is set later replaces this one, unless
    /// it calls the previous one; so set yours before. `%p` in the name stands for the process's
    /// id, as for [`in_file`](Self::in_file).
    ///
    /// Attaching returns an error if `%` stands for something else, or if the thread panics.
    ///
    /// ```
    /// use probe_runtime::{Trace, probe, select};
    ///
    /// #[probe]
    /// fn divide(by: u32) -> u32 {
    ///     7 / by
    /// }
    /// divide(1);
    ///
    /// # let path = std::env::temp_dir().join(format!("panic-{}.probetrace", std::process::id()));
    /// // let path = "panic.probetrace";
    /// let trace = Trace::recorder().snapshot_on_panic(&path);
    /// let _trace = select("**::divide")?.attach(trace)?;
    /// assert!(std::thread::spawn(|| divide(0)).join().is_err());
    /// assert!(path.exists());
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn snapshot_on_panic(mut self, path: impl Into<PathBuf>) -> Self {
        self.panics_to = Some(path.into());
        self
    }
}
