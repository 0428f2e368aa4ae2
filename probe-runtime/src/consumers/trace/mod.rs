//! Records hits event by event, so that one can see when things happened.
//!
//! Life cycle: attaching notes the probes' definitions ▸ a thread's first hit maps its ring ▸ each
//! hit adds a record ▸ the rings are copied to a file: by a thread while the program runs, or when
//! the program asks for a snapshot. `probe-trace` reads the file, and converts it. For Perfetto the
//! thread converts the rings itself.
//!
//! Rings are private memory. A forked child has copies of its parent's, as of all counts: its
//! snapshots hold its parent's events up to the fork, and its own ones since. A
//! trace that a thread writes is detached in a child, which has no such thread. Rings may also lie
//! in a mapped file ([`ring_file`]), of which each process has its own.

mod attachment;
mod definitions;
mod disarmed;
mod drain;
mod file;
mod file_name;
#[cfg(all(test, loom))]
mod interleavings;
#[cfg(feature = "perf")]
mod off_times;
#[cfg(not(feature = "perf"))]
#[path = "no_off_times.rs"]
mod off_times;
mod output;
mod payload;
mod recording;
mod ring;
mod ring_file;
mod settings;
mod snapshot;
mod stacks;

/// A ring's atomics: the standard library's. The model checker compiles `ring.rs` with its own.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use disarmed::Disarmed;
use drain::Drain;
use off_times::OffTimes;
use probe_trace::layout;
use recording::{Recording, Wanted};
use ring::{Shape, WhenFull};
use snapshot::OnPanic;
use stacks::{Depth, Stacks};

use crate::engine::c_values::WantedFields;
use crate::engine::clock::Clock;
use crate::engine::control::{Consumer, ProbeSet, Start, Switch};
use crate::engine::dispatch::{Event, Recorder};
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;

/// Records hits: for each its probe, its thread, its time, and its fields' values. The files are
/// read, merged and converted by the crate `probe-trace`, for Perfetto and other tools.
///
/// | | events |
/// |---|---|
/// | [`recorder`](Self::recorder) | the latest of each thread, for [snapshots](crate::Attachment::snapshot) |
/// | [`first`](Self::first) | the first of each thread, for snapshots |
/// | [`to_file`](Self::to_file) | all, written to a file while the program runs |
///
/// Each thread has a ring of its own. Events that find no room are lost, and counted: each hit is
/// written or lost, see [`TraceTotals`]. Hits inside of other hits, as of a signal handler that
/// interrupts one, are [`suppressed`](crate::Attachment::suppressed).
///
/// Cost: a hit takes little more than a reading of the clock, if it has no fields, or up to eight
/// that are numbers of up to 64 bits, truth values or characters, and if its probe has no other
/// consumer. Others take some 7 ns more, and longer for texts. No hit uses the heap, a lock or a
/// system call, but for a thread's first hit, which maps its ring. A hit that begins another part
/// of the ring reads the system's clock, too, if that takes no system call.
///
/// ```
/// use probe_runtime::{Trace, probe, select};
///
/// #[probe(args(*))]
/// fn handle(request: u64) {}
///
/// let trace = select("**::handle")?.attach(Trace::recorder())?;
/// handle(7);
/// # let path = std::env::temp_dir().join(format!("handle-{}.probetrace", std::process::id()));
/// // let path = "handle.probetrace";
/// let totals = trace.snapshot(&path)?;
/// assert_eq!((totals.written, totals.lost), (2, 0));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub struct Trace {
    keep: Keep,
    ring_bytes: usize,
    total_bytes: usize,
    text_limit: usize,
    /// The disk space of the file, in bytes.
    file_limit: Option<u64>,
    /// The file to write to, opened by somebody else.
    opened: Mutex<Option<Arc<File>>>,
    /// The file that the rings lie in.
    rings_in: Option<PathBuf>,
    /// The file of snapshots when a thread panics.
    panics_to: Option<PathBuf>,
    /// Whether the file's name is that of the report, with its own ending.
    follows_report: bool,
    /// Whether hits of C functions have their arguments and results.
    has_c_values: bool,
    /// Whether it has the times at which threads were off the processor.
    has_threads: bool,
    /// The stacks that hits have.
    depth: Option<Depth>,
    disarmed: Disarmed,
    clock: Clock,
    recording: OnceLock<Arc<Recording>>,
    drain: OnceLock<Drain>,
    on_panic: OnceLock<Arc<OnPanic>>,
}

/// Which events stay, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Keep {
    Latest,
    First,
    File(PathBuf),
}

/// The smallest ring, in bytes.
const RING_BYTES_MIN: usize = 4096;

/// Hits that a trace has written and lost.
///
/// ```
/// use probe_runtime::{Trace, probe, select};
///
/// #[probe]
/// fn step() {}
/// step();
///
/// let trace = select("**::step kind=entry")?.attach(Trace::first().ring_size(4096))?;
/// (0..1000).for_each(|_| step());
/// let totals = trace.totals();
/// assert_eq!(totals.written + totals.lost, 1000);
/// assert!(totals.lost > 0);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct TraceTotals {
    /// Events that were written. Later ones may have replaced them.
    pub written: u64,
    /// Events that found no room, and those of threads for which there was no ring.
    pub lost: u64,
}

impl Trace {
    /// Creates a flight recorder: it keeps the latest events of each thread, for
    /// [snapshots](crate::Attachment::snapshot). A ring has 1 MiB, and all together at most 64 MiB.
    pub fn recorder() -> Self {
        Self::new(Keep::Latest, 1 << 20, 64 << 20)
    }

    /// Creates a trace that keeps the first events of each thread and counts the others, for
    /// [snapshots](crate::Attachment::snapshot). A ring has 1 MiB, and all together at most 64 MiB.
    pub fn first() -> Self {
        Self::new(Keep::First, 1 << 20, 64 << 20)
    }

    /// Creates a trace that a thread writes to this file while the program runs. The file is whole
    /// once the trace is [finished](crate::Attachment::finish) or dropped. A ring has 4 MiB, and
    /// all together at most 256 MiB.
    ///
    /// A file whose name ends in `.pftrace` is for Perfetto. Its thread converts each event, which
    /// takes about 0.3 µs: fifty times as long as writing it for `probe-trace`. Events that come
    /// faster, for longer than the rings last, are lost.
    ///
    /// Attaching creates the file, and replaces one of this name. If its disk gets full, or the
    /// file reaches the process's limit (`ulimit -f`), a line on stderr says so, and the file ends
    /// there: all other events are lost, and counted as such. A program that closes all its
    /// descriptors closes this file's, too, which is then opened again, unless it has another path
    /// by then.
    ///
    /// ```
    /// use probe_runtime::{Trace, probe, select};
    ///
    /// #[probe]
    /// fn step() {}
    /// step();
    ///
    /// # let path = std::env::temp_dir().join(format!("steps-{}.probetrace", std::process::id()));
    /// // let path = "steps.probetrace";
    /// let trace = select("**::step")?.attach(Trace::to_file(&path))?;
    /// step();
    /// let totals = trace.finish()?;
    /// assert_eq!((totals.written, totals.lost), (2, 0));
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn to_file(path: impl Into<PathBuf>) -> Self {
        Self::new(Keep::File(path.into()), 4 << 20, 256 << 20)
    }

    fn new(keep: Keep, ring_bytes: usize, total_bytes: usize) -> Self {
        Self {
            keep,
            ring_bytes,
            total_bytes,
            text_limit: 64,
            file_limit: None,
            opened: Mutex::new(None),
            rings_in: None,
            panics_to: None,
            follows_report: false,
            has_c_values: false,
            has_threads: false,
            depth: None,
            disarmed: Disarmed::default(),
            clock: Clock::new(),
            recording: OnceLock::new(),
            drain: OnceLock::new(),
            on_panic: OnceLock::new(),
        }
    }

    /// Sets the size of each thread's ring in bytes, at least 4,096. It is divided into eight
    /// parts, or four below 32 KiB, which are written, copied and replaced as a whole.
    ///
    /// ```
    /// let trace = probe_runtime::Trace::recorder().ring_size(64 << 10).total_size(1 << 20);
    /// # drop(trace);
    /// ```
    #[must_use]
    pub fn ring_size(mut self, bytes: usize) -> Self {
        self.ring_bytes = bytes;
        self
    }

    /// Records when each thread was off the processor, too: blocked, or ready while other threads
    /// had their turn (Linux). The trace has these times from a thread's first hit on, and says
    /// which call was open. In Perfetto they are the thread's states.
    ///
    /// The times are the kernel's records of switches, which need no rights, unless
    /// `kernel.perf_event_paranoid` is above 2. A thread reads its own at its next hit, without a
    /// system call. A snapshot, and the end of the trace, also have those after its last hit. The
    /// kernel keeps some seven hundred between two hits, and locks 36 KiB for each thread. A trace
    /// tells where earlier ones are lost.
    ///
    /// `/proc` tells the system calls of waits that last when a snapshot is made. The thread that
    /// writes a file looks about every 10 ms. Where the records are not permitted, a trace to a
    /// file has the waits between two such looks, and says so. Others can't be attached.
    ///
    /// ```
    /// use std::time::Duration;
    /// use probe_runtime::{Trace, probe, select};
    ///
    /// #[probe]
    /// fn nap() {
    ///     std::thread::sleep(Duration::from_millis(1));
    /// }
    ///
    /// match select("**::nap")?.attach(Trace::recorder().threads()) {
    ///     Ok(trace) => {
    ///         nap();
    ///         assert_eq!(trace.totals().written, 2);
    ///     }
    ///     Err(error) => println!("the system does not permit it: {error}"),
    /// }
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[cfg(feature = "perf")]
    #[must_use]
    pub fn threads(mut self) -> Self {
        self.has_threads = true;
        self
    }

    /// Records the calls that led to each entry and each point, up to 16, although these functions
    /// have no probes. A call that a thread makes for the first time is looked up in unwind tables.
    ///
    /// Files have the functions' names, which the process looks up while it writes them. Traces
    /// whose rings [lie in a file](Self::in_file) have no stacks. A thread has room for some two
    /// thousand distinct stacks; reports say how many hits are left without one.
    ///
    /// Attaching returns an error on other systems than x86-64 Linux, and without the feature
    /// `c-values`.
    ///
    /// ```
    /// use probe_runtime::{Trace, probe, select};
    ///
    /// #[probe]
    /// fn query() {}
    ///
    /// #[inline(never)]
    /// fn serve() {
    ///     query();
    /// }
    ///
    /// match select("**::query")?.attach(Trace::recorder().stacks()) {
    ///     Ok(trace) => {
    ///         serve();
    ///         assert_eq!(trace.totals().written, 2);
    ///     }
    ///     Err(error) => println!("this build knows no callers: {error}"),
    /// }
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn stacks(mut self) -> Self {
        self.depth = Some(Depth::Stack);
        self
    }

    /// Records the function that called, as [`stacks`](Self::stacks) do, and none further out. That
    /// takes less time.
    ///
    /// ```
    /// let trace = probe_runtime::Trace::recorder().callers();
    /// # drop(trace);
    /// ```
    #[must_use]
    pub fn callers(mut self) -> Self {
        self.depth = Some(Depth::Caller);
        self
    }

    /// Limits the memory of all rings together, in bytes. Threads that come when as many rings
    /// exist as fit lose their events. A thread that has ended leaves its ring to a later one.
    #[must_use]
    pub fn total_size(mut self, bytes: usize) -> Self {
        self.total_bytes = bytes;
        self
    }

    /// Sets the number of bytes that are kept of each text, 64 by default. The rest is cut off, and
    /// the trace says how much.
    ///
    /// ```
    /// let trace = probe_runtime::Trace::recorder().text_limit(200);
    /// # drop(trace);
    /// ```
    #[must_use]
    pub fn text_limit(mut self, bytes: usize) -> Self {
        self.text_limit = bytes;
        self
    }

    /// Lets the file of [`to_file`](Self::to_file) take about this many bytes of the disk while the
    /// program runs: a part of a ring more, at most; in Perfetto's format the events of all rings
    /// more. As long as it does, events stay in the rings, and are lost once these are full. A
    /// reader may make holes in the parts that it has read. A [flush](crate::Attachment::flush) and
    /// the end write the rings' events, whatever the limit.
    ///
    /// ```
    /// let trace = probe_runtime::Trace::to_file("run.probetrace").file_limit(1 << 30);
    /// # drop(trace);
    /// ```
    #[must_use]
    pub fn file_limit(mut self, bytes: u64) -> Self {
        self.file_limit = Some(bytes);
        self
    }

    /// Keeps the rings of a [`recorder`](Self::recorder) or of [`first`](Self::first) in this file,
    /// which the process maps (Linux). `probe-trace` reads it at any time, also after the process
    /// was killed, has aborted, or has become another program: it has each event up to that moment.
    /// Hits cost the same.
    ///
    /// - Attaching replaces a file of this name, and reserves room on the disk for [all
    ///   rings](Self::total_size), and 1 MiB for definitions if the set is
    ///   [persistent](crate::ProbeSet::persistent). The end of the attachment gives room of rings
    ///   back.
    /// - `%p` in the name stands for the process's id, `%%` for `%`.
    /// - A forked child has a file of its own, from its first hit on. Where the name has no `%p`,
    ///   it is `NAME-ID.ENDING`. It lacks the events before the fork. If a child can't make its
    ///   file, its rings are private memory, and its reports say so.
    /// - If another program cuts the file off, the events behind its end are lost, and reports say
    ///   so. The program continues: a handler of `SIGBUS` puts other memory there, and passes all
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

    /// Returns whether there are snapshots: the events stay in memory, or in a file of rings.
    pub(crate) fn is_in_memory(&self) -> bool {
        !matches!(self.keep, Keep::File(_))
    }

    /// Returns the rings' sizes in words.
    fn shape(&self) -> Result<Shape, Error> {
        if self.ring_bytes < RING_BYTES_MIN {
            let problem =
                format!("a ring of {} bytes is too small; it has at least {RING_BYTES_MIN}", self.ring_bytes);
            return Err(Error::Consumer(problem.into()));
        }
        let sub_buffers = if self.ring_bytes < 8 * RING_BYTES_MIN { 4 } else { 8 };
        // In a file, a ring's losses follow it.
        let besides = if self.rings_in.is_some() { layout::ring::WORDS } else { 0 };
        let words = (self.ring_bytes / 8 - besides) as u64 / sub_buffers;
        let when_full = match self.keep {
            Keep::Latest => WhenFull::Overwrite,
            Keep::First => WhenFull::Stop,
            Keep::File(_) => WhenFull::Wait,
        };
        Ok(Shape { sub_buffers, words, when_full })
    }
}

impl Consumer for Trace {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn needs_thread(&self) -> bool {
        matches!(self.keep, Keep::File(_))
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let shape = self.shape()?;
        let most = self.total_bytes / self.ring_bytes;
        if most == 0 {
            let (ring, total) = (self.ring_bytes, self.total_bytes);
            let problem = format!("a ring of {ring} bytes does not fit in the {total} bytes of all rings");
            return Err(Error::Consumer(problem.into()));
        }
        if self.recording.get().is_some() {
            return Err(Error::Consumer("a trace can be attached only once; make another one".into()));
        }
        if let (Keep::File(_), Some(path)) = (&self.keep, &self.rings_in) {
            let problem =
                io::Error::other("its rings are emptied to a file; `recorder` and `first` keep theirs");
            return Err(file::at(path, &problem));
        }
        if let (Keep::File(path), Some(other)) = (&self.keep, &self.panics_to) {
            return Err(file::at(other, &attachment::no_snapshots(path)));
        }
        let path = self.rings_in.as_deref();
        let off =
            if self.has_threads { Some(OffTimes::new(matches!(self.keep, Keep::File(_)))?) } else { None };
        if let (Some(_), Some(path)) = (self.depth, path) {
            let problem = io::Error::other("its rings lie there, and have no stacks");
            return Err(file::at(path, &problem));
        }
        let stacks = self.depth.map(Stacks::new).transpose()?;
        let (text_limit, clock) = (self.text_limit, self.clock);
        let wanted = Wanted { shape, most, text_limit, clock, path, off, stacks };
        let recording = Arc::new(Recording::new(probes, wanted)?);
        let _ = self.recording.set(Arc::clone(&recording));
        if let Keep::File(path) = &self.keep {
            // The thread has its own descriptor of it.
            let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
            let drain = Drain::start(&recording, path, opened.as_deref(), self.file_limit)?;
            // A trace that runs is attached once.
            let _ = self.drain.set(drain);
        }
        Ok(())
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let Some(recording) = self.recording.get() else { return Ok(()) };
        recording.look_at_objects();
        recording.join(probes)
    }

    fn look_at_objects(&self) {
        self.recording.get().into_iter().for_each(|recording| recording.look_at_objects());
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        let Some(recording) = self.recording.get() else { return Ok(()) };
        recording.count_nested(switch.suppressed_hits());
        if let Some(path) = &self.panics_to {
            // A trace is attached once.
            let _ = self.on_panic.set(OnPanic::new(path, recording)?);
        }
        Ok(())
    }

    fn start(&self, probe: ProbeId) -> Start {
        self.disarmed.start(probe)
    }

    fn wanted_fields(&self) -> WantedFields {
        if self.has_c_values { WantedFields::all() } else { WantedFields::default() }
    }

    fn recorder(&self) -> Option<Recorder> {
        self.recording.get()?.recorder()
    }

    #[inline(always)]
    fn hit(&self, event: &Event<'_>) {
        if let Some(recording) = self.recording.get() {
            recording.hit(event);
        }
    }
}

impl_debug!(Trace: keep, ring_bytes);
