//! Reports at the program's end.
//!
//! Life cycle: [`Output::open`] adds the attachments to a list of the whole program ▸ when a
//! guard drops, [`close`] takes its attachments out, reports and detaches ▸ when the process
//! exits, an `atexit` function reports the attachments that are left, which stay attached.
//!
//! One lock guards the list and is held while reports are written. An `exit` on another thread
//! therefore waits until they are complete. The lock is taken across forks, before the control
//! lock, which reports take. A thread that holds it takes no lock of the program's, and none of the
//! standard library's that the program may hold: [`say`] writes to stderr without one.
//!
//! [`report_all`] reports at intervals and at signals. A process that is killed, aborts, or becomes
//! another program (`exec`) does not report.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use super::destination::{Destination, Pattern, Run, by_path};
use super::file;
use crate::control::prepare;
#[cfg(feature = "metrics")]
use crate::dispatch::lost_hits;
#[cfg(feature = "metrics")]
use crate::metrics::Metrics;
use crate::os;
use crate::os::cancel::Uncancellable;
use crate::os::fork;
use crate::os::kept::Kept;
use crate::spec::{Format, Reported};
use probe_patch::__runtime::{AcrossForks, Rank, Ready};

static OUTPUTS: Mutex<Vec<Output>> = Mutex::new(Vec::new());

/// Attached consumers, and the destination of their reports.
pub(super) struct Output {
    run: Run,
    destination: Destination,
    attached: Vec<Attached>,
    /// The process that made the output.
    process: u64,
}

/// One consumer, with its number and name in the variable.
pub(super) struct Attached {
    pub(super) number: usize,
    pub(super) consumer: String,
    pub(super) reported: Box<dyn Reported>,
}

/// Index of an output in the list.
#[derive(Debug)]
pub(super) struct Ticket(usize);

/// Locks the list. While the lock is held, no other thread reports, exits, or forks.
pub(super) fn outputs() -> MutexGuard<'static, Vec<Output>> {
    // Reports take the control lock under this one.
    prepare();
    READY.prepare();
    // Only a bug of ours panics under the lock. The list is consistent after each step even then.
    OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Output {
    pub(super) fn new(run: Run, destination: Destination, attached: Vec<Attached>) -> Self {
        Self { run, destination, attached, process: fork::process() }
    }

    /// Adds the output to the list, so that it reports at the end. Must come after the first
    /// operation on probes.
    ///
    /// # Errors
    /// The first of its files to which another open output of this process reports.
    pub(super) fn open(self) -> Result<Ticket, PathBuf> {
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| {
            if !os::exit::install(at_exit) {
                say(
                    "PROBES: the system has no room for a call at the program's exit (atexit); reports come \
                     when the guard drops, but not when the program exits before that",
                );
            }
        });
        let own = self.replaced();
        // This object may be pinned by now, even if that failed when the list was first locked. If
        // it still fails, nothing is attached.
        let _ = READY.require();
        let mut outputs = outputs();
        let (mut taken, mut inherited) = (None, Vec::new());
        for output in outputs.iter_mut() {
            let Some(path) = output.replaced().into_iter().find(|path| own.contains(path)) else { continue };
            if output.process == self.process {
                taken = Some(path);
            } else {
                // The output is a parent's, and the parent reports it to a file of its own.
                inherited.append(&mut output.attached);
            }
        }
        let opened = if let Some(path) = taken {
            Err((path, self))
        } else {
            outputs.push(self);
            // Closed outputs stay in the list, empty, so the index stays valid.
            Ok(Ticket(outputs.len() - 1))
        };
        drop(outputs);
        // Detaching must not hold the lock: it waits for hits, which may be on threads that fork.
        drop(inherited);
        opened.map_err(|(path, _)| path)
    }

    /// Writes to stderr the notes that only text reports contain.
    fn say_notes(&self) {
        for it in &self.attached {
            for note in it.reported.notes() {
                note.lines().for_each(|line| it.say(line.trim_start()));
            }
        }
    }

    /// Returns the files that this output's reports replace.
    fn replaced(&self) -> Vec<PathBuf> {
        match &self.destination {
            Destination::Stderr => Vec::new(),
            Destination::Files(pattern) => {
                let files = self.paths(pattern).into_iter();
                files.filter(|path| !file::is_stream(path)).collect()
            }
        }
    }

    fn report(&self) {
        match &self.destination {
            Destination::Stderr => {
                let columns = os::stderr::columns();
                let text = |it: &dyn Reported| match columns {
                    Some(columns) => it.report_within(columns),
                    None => it.report(Format::Text).content,
                };
                self.attached.iter().for_each(|it| say(&text(&*it.reported)));
            }
            Destination::Files(pattern) => {
                if pattern.format != Format::Text {
                    self.say_notes();
                }
                for (path, content) in self.files(pattern) {
                    write(&path, &content);
                }
            }
        }
    }

    /// Returns the file of each consumer.
    fn paths(&self, pattern: &Pattern) -> Vec<PathBuf> {
        let process = process::id();
        let run = Run { process, is_forked: false, ..self.run.clone() };
        let is_forked = self.run.is_forked || self.process != fork::process();
        let consumers: Vec<_> = self.attached.iter().map(|it| (it.number, it.consumer.as_str())).collect();
        let own = pattern.paths(&Run { is_forked, ..run.clone() }, &consumers);
        // A child shares its parent's stream; under another name there would be no stream.
        let paths = pattern.paths(&run, &consumers).into_iter().zip(own);
        paths.map(|(path, own)| if file::is_stream(&path) { path } else { own }).collect()
    }

    /// Returns each file with its content.
    fn files(&self, pattern: &Pattern) -> Vec<(PathBuf, String)> {
        let paths = self.paths(pattern);
        let file = |all: Vec<usize>| (paths[all[0]].clone(), self.content(pattern.format, &all));
        by_path(&paths).into_iter().map(file).collect()
    }

    /// Renders the reports of these attachments, one after the other, each ending with a newline.
    /// Writes to stderr the notes on missing figures that the format can't hold.
    fn content(&self, format: Format, all: &[usize]) -> String {
        #[cfg(feature = "metrics")]
        if format == Format::Prometheus {
            let mut metrics = Metrics::default();
            all.iter().for_each(|at| self.attached[*at].reported.measure(&mut metrics));
            metrics.count_lost(lost_hits());
            return metrics.to_prometheus();
        }
        let mut content = String::new();
        for at in all {
            let attached = &self.attached[*at];
            let report = attached.reported.report(format);
            if !report.missing.is_empty() {
                attached.say(&report.missing.join("; "));
            }
            content.push_str(&report.content);
            if !content.ends_with('\n') {
                content.push('\n');
            }
        }
        content
    }
}

impl Attached {
    fn say(&self, text: &str) {
        say(&format!("PROBES, consumer {} ({}): {text}", self.number, self.consumer));
    }
}

/// Writes a file. If that fails, writes the reason and the content to stderr.
pub(super) fn write(path: &Path, content: &str) {
    if let Err(error) = file::write(path, content) {
        say(&format!("PROBES_OUT: {} can't be written: {error}; it would say:", path.display()));
        say(content.trim_end_matches('\n'));
    }
}

pub(super) fn say(text: &str) {
    // If stderr is closed, there is no other place to write to.
    let _ = os::stderr::write(format!("{text}\n").as_bytes());
}

/// Returns whether this is the forked child of a process that had an output.
pub(super) fn is_forked() -> bool {
    outputs().iter().any(|output| output.run.is_forked || output.process != fork::process())
}

/// Writes the current reports of one output.
pub(super) fn report(ticket: &Ticket) {
    // Writing is a cancellation point.
    let _whole = Uncancellable::new();
    if let Some(output) = outputs().get(ticket.0) {
        output.report();
    }
}

/// Writes the current reports of all outputs, then calls `then` before another thread can report or
/// exit.
pub(super) fn report_all(then: impl FnOnce()) {
    let _whole = Uncancellable::new();
    let outputs = outputs();
    report_each(&outputs);
    then();
}

/// Writes the reports of each output. A panic prints its message, but stops neither the other
/// reports nor the program's end.
fn report_each(outputs: &[Output]) {
    for output in outputs {
        let _ = catch_unwind(AssertUnwindSafe(|| output.report()));
    }
}

/// Writes the last reports of an output, and detaches its consumers.
pub(super) fn close(ticket: &Ticket) {
    let _whole = Uncancellable::new();
    let mut outputs = outputs();
    let Some(output) = outputs.get_mut(ticket.0) else { return };
    output.report();
    let attached = mem::take(&mut output.attached);
    drop(outputs);
    // Detaching waits for hits, which may be on threads that fork.
    drop(attached);
}

extern "C" fn at_exit() {
    let _whole = Uncancellable::new();
    let mut outputs = outputs();
    report_each(&outputs);
    // Other threads may still hit probes. The process ends, so nothing needs to be detached.
    outputs.iter_mut().for_each(|output| mem::forget(mem::take(&mut output.attached)));
}

thread_local! {
    static ACROSS_FORK: Kept<MutexGuard<'static, Vec<Output>>> = const { Kept::new() };
}

/// Forks take the list's lock.
static READY: Ready = Ready::new(Rank::Reports, ACROSS_FORKS, || ());

const ACROSS_FORKS: AcrossForks =
    AcrossForks { before: before_fork, in_parent: after_fork, in_child: after_fork };

fn before_fork() {
    let outputs = outputs();
    ACROSS_FORK.with(|kept| kept.keep(outputs));
}

fn after_fork() {
    drop(ACROSS_FORK.with(Kept::take));
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::spec::Rendered;

    #[test]
    fn forks_take_the_list_once_it_has_an_output() {
        drop(outputs());
        READY.unpin();
        drop(outputs());
        let run =
            Run { base: PathBuf::new(), program: "p".to_owned(), process: process::id(), is_forked: false };
        let ticket = Output::new(run, Destination::Stderr, Vec::new()).open().unwrap();
        assert!(READY.is_ready());
        close(&ticket);
    }

    struct Panics;

    impl Reported for Panics {
        fn report(&self, _format: Format) -> Rendered {
            panic!("this report panics")
        }

        fn report_within(&self, _columns: usize) -> String {
            panic!("this report panics")
        }

        fn notes(&self) -> Vec<String> {
            Vec::new()
        }

        #[cfg(feature = "metrics")]
        fn measure(&self, _into: &mut Metrics) {}
    }

    /// Makes this process report a consumer that panics, at two signals; the second ends the
    /// process.
    #[cfg(all(unix, not(miri)))]
    #[expect(unsafe_code, reason = "signals")]
    pub(in crate::env) fn panics_at_each_report(start: impl FnOnce()) {
        use std::sync::atomic::{AtomicU32, Ordering};

        static REPORTS: AtomicU32 = AtomicU32::new(0);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            REPORTS.fetch_add(1, Ordering::Relaxed);
        }));
        let attached =
            vec![Attached { number: 1, consumer: "panics".to_owned(), reported: Box::new(Panics) }];
        let run =
            Run { base: PathBuf::new(), program: "p".to_owned(), process: process::id(), is_forked: false };
        assert!(Output::new(run, Destination::Stderr, attached).open().is_ok());
        start();
        // SAFETY: no pointers.
        unsafe {
            libc::alarm(60);
            libc::kill(libc::getpid(), libc::SIGUSR1);
        }
        while REPORTS.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // SAFETY: as above.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        loop {
            std::thread::park();
        }
    }
}
