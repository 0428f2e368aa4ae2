//! Reports at the program's end, however it ends by itself.
//!
//! Life: [`Output::open`] keeps what was attached in one list of the whole program ▸ [`close`], of a guard that drops, takes it out,
//! reports, and detaches ▸ what is left when the process exits reports then, from an `atexit` function, and stays attached. One lock
//! guards the list, and is held while reports are written: so an `exit` on another thread waits until they are whole. It is taken
//! across forks, before the control lock, which reports take. Under it no lock of the program's is asked for, nor one of the standard
//! library's that the program may hold: [`say`] writes to stderr without one.
//!
//! [`report_all`] is for who reports meanwhile, or because of a signal. A process that is killed, aborts, or becomes another program
//! (`exec`) does not report.

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

/// What was attached, and where it reports.
pub(super) struct Output {
    run: Run,
    destination: Destination,
    attached: Vec<Attached>,
    /// The one that has made it.
    process: u64,
}

/// One consumer, by its number and name in the variable.
pub(super) struct Attached {
    pub(super) number: usize,
    pub(super) consumer: String,
    pub(super) reported: Box<dyn Reported>,
}

/// Tells outputs apart.
#[derive(Debug)]
pub(super) struct Ticket(usize);

/// While it is held, nobody reports, exits, or forks.
pub(super) fn outputs() -> MutexGuard<'static, Vec<Output>> {
    // Reports take the control lock under this one.
    prepare();
    READY.prepare();
    // A panic under it is a bug of ours; the list is whole between its steps all the same.
    OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Output {
    pub(super) fn new(run: Run, destination: Destination, attached: Vec<Attached>) -> Self {
        Self { run, destination, attached, process: fork::process() }
    }

    /// From now on it reports at the end. After the first operation on probes.
    ///
    /// # Errors
    /// A file to which an open one reports already.
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
        // This code may be kept loaded by now, where it could not be when somebody asked for the
        // list before. If it still is not, nothing is attached.
        let _ = READY.require();
        let mut outputs = outputs();
        let (mut taken, mut inherited) = (None, Vec::new());
        for output in outputs.iter_mut() {
            let Some(path) = output.replaced().into_iter().find(|path| own.contains(path)) else { continue };
            if output.process == self.process {
                taken = Some(path);
            } else {
                // Of a parent, which reports it to a file of its own.
                inherited.append(&mut output.attached);
            }
        }
        let opened = if let Some(path) = taken {
            Err((path, self))
        } else {
            outputs.push(self);
            // What is taken out leaves an empty one.
            Ok(Ticket(outputs.len() - 1))
        };
        drop(outputs);
        // What is attached detaches without the lock: that waits for hits, which may be on threads that fork.
        drop(inherited);
        opened.map_err(|(path, _)| path)
    }

    /// What has no place in other formats than text.
    fn say_notes(&self) {
        for it in &self.attached {
            for note in it.reported.notes() {
                note.lines().for_each(|line| it.say(line.trim_start()));
            }
        }
    }

    /// The files that its reports replace.
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

    /// The file of each consumer.
    fn paths(&self, pattern: &Pattern) -> Vec<PathBuf> {
        let process = process::id();
        let run = Run { process, is_forked: false, ..self.run.clone() };
        let is_forked = self.run.is_forked || self.process != fork::process();
        let consumers: Vec<_> = self.attached.iter().map(|it| (it.number, it.consumer.as_str())).collect();
        let own = pattern.paths(&Run { is_forked, ..run.clone() }, &consumers);
        // A stream is its parent's, too: another name would be no stream.
        let paths = pattern.paths(&run, &consumers).into_iter().zip(own);
        paths.map(|(path, own)| if file::is_stream(&path) { path } else { own }).collect()
    }

    /// Each file, with what goes into it.
    fn files(&self, pattern: &Pattern) -> Vec<(PathBuf, String)> {
        let paths = self.paths(pattern);
        let file = |all: Vec<usize>| (paths[all[0]].clone(), self.content(pattern.format, &all));
        by_path(&paths).into_iter().map(file).collect()
    }

    /// The report of one, or of several one after the other. Ends with a line's end. What is missing from it and is not said there, is said
    /// on stderr.
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

/// Writes a file; where that fails, says so, and what it would say.
pub(super) fn write(path: &Path, content: &str) {
    if let Err(error) = file::write(path, content) {
        say(&format!("PROBES_OUT: {} can't be written: {error}; it would say:", path.display()));
        say(content.trim_end_matches('\n'));
    }
}

pub(super) fn say(text: &str) {
    // Nobody is left to tell that stderr is closed.
    let _ = os::stderr::write(format!("{text}\n").as_bytes());
}

/// Whether this is the forked child of a process that had an output.
pub(super) fn is_forked() -> bool {
    outputs().iter().any(|output| output.run.is_forked || output.process != fork::process())
}

/// Reports as it is now.
pub(super) fn report(ticket: &Ticket) {
    // Writing is a cancellation point.
    let _whole = Uncancellable::new();
    if let Some(output) = outputs().get(ticket.0) {
        output.report();
    }
}

/// All of this program report as they are now; then something is done before anybody else can report, or exit.
pub(super) fn report_all(then: impl FnOnce()) {
    let _whole = Uncancellable::new();
    let outputs = outputs();
    report_each(&outputs);
    then();
}

/// What panics says so, and keeps neither the others from their reports nor the program from its
/// end.
fn report_each(outputs: &[Output]) {
    for output in outputs {
        let _ = catch_unwind(AssertUnwindSafe(|| output.report()));
    }
}

/// Reports for the last time, and detaches.
pub(super) fn close(ticket: &Ticket) {
    let _whole = Uncancellable::new();
    let mut outputs = outputs();
    let Some(output) = outputs.get_mut(ticket.0) else { return };
    output.report();
    let attached = mem::take(&mut output.attached);
    drop(outputs);
    // That waits for hits, which may be on threads that fork.
    drop(attached);
}

extern "C" fn at_exit() {
    let _whole = Uncancellable::new();
    let mut outputs = outputs();
    report_each(&outputs);
    // Other threads may go on to hit; what detaching is for, the end of the process does.
    outputs.iter_mut().for_each(|output| mem::forget(mem::take(&mut output.attached)));
}

thread_local! {
    static ACROSS_FORK: Kept<MutexGuard<'static, Vec<Output>>> = const { Kept::new() };
}

/// Forks take the list.
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

    /// Has this process report such a thing, for two signals, of which the second ends it.
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
