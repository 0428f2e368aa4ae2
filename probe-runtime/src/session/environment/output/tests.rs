//! Turns of reports, and what happens beside them.

use std::io::{self, Write};
use std::sync::Condvar;
use std::time::Duration;
use std::{process, thread};

use super::*;
#[cfg(feature = "metrics")]
use crate::report::metrics::Metrics;
use crate::session::spec::{Format, Rendered, Reported};
use probe_lang::destination::{Destination, ProgramRun};

#[test]
fn forks_take_the_list_once_it_has_an_output() {
    drop(outputs());
    READY.unpin();
    drop(outputs());
    let ticket = open(output("-", &[])).unwrap();
    assert!(READY.is_ready());
    close(&ticket);
}

/// A consumer whose report is the result of a function.
struct Made(fn() -> Rendered);

impl Reported for Made {
    #[cfg(probe_agent)]
    fn source(&self, _: &[crate::engine::registry::ProbeId]) -> Option<Box<dyn crate::report::ReportSource>> {
        unreachable!("no client asks for it")
    }

    #[cfg(probe_agent)]
    fn untyped(&self) -> &crate::engine::control::Untyped {
        unreachable!("no client asks for it")
    }

    fn report(&self, _format: Format) -> Rendered {
        (self.0)()
    }

    fn report_within(&self, _columns: usize) -> Rendered {
        (self.0)()
    }

    fn is_streamed(&self, format: Format) -> bool {
        format == Format::Perfetto
    }

    fn write(&self, _format: Format, out: &mut dyn Write) -> io::Result<Vec<String>> {
        let Rendered { content, missing } = (self.0)();
        out.write_all(content.as_bytes())?;
        Ok(missing)
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn pause(&self) {}

    #[cfg(feature = "metrics")]
    fn measure(&self, _into: &mut Metrics) {}
}

fn panics() -> Rendered {
    panic!("this report panics")
}

fn output(destination: &str, reports: &[fn() -> Rendered]) -> Output {
    let run = ProgramRun {
        base: PathBuf::new(),
        program: "p".to_owned(),
        process: process::id(),
        is_forked: false,
    };
    let attached = reports.iter().zip(1..).map(|(report, number)| AttachedConsumer {
        number,
        consumer: "made".to_owned(),
        reported: Arc::new(Made(*report)),
    });
    Output::new(run, Destination::parse(destination, false).unwrap(), attached.collect())
}

#[test]
fn a_report_that_panics_is_left_out_and_the_others_are_written() {
    let good = || Rendered { content: "good".to_owned(), missing: vec!["2 calls".to_owned()] };
    let said = |text: &str| Piece::Said(text.to_owned());
    let panicked = said("PROBES, consumer 1 (made): its report panicked, and is left out");
    let missing = said("PROBES, consumer 2 (made): 2 calls");
    let shown = |pieces: &[Piece]| format!("{pieces:?}");
    let pieces = output("-", &[panics, good]).render();
    assert_eq!(shown(&pieces), shown(&[panicked, missing, said("good")]));
    let pieces = output("made.txt", &[panics, good]).render();
    assert_eq!(shown(&pieces[2..]), shown(&[Piece::File("made.txt".into(), "good\n".to_owned())]));
    assert_eq!(pieces.len(), 3);
    // The guard drops as always, and the attachments are gone.
    let ticket = open(output("-", &[panics])).unwrap();
    close(&ticket);
    assert!(outputs()[ticket.0].output.attached.is_empty());
}

#[test]
fn a_streamed_report_is_written_beside_its_file_until_its_turn() {
    let folder = std::env::temp_dir().join(format!("probes-{}-streamed", process::id()));
    let path = |name: &str| folder.join(format!("{name}.pftrace"));
    let good = || Rendered { content: "good".to_owned(), missing: vec!["2 calls".to_owned()] };
    let pattern = folder.join("%n.pftrace").display().to_string();
    let output = output(&pattern, &[panics, good]);
    let pieces = output.render();
    assert!(!path("2").exists());
    let ticket = open(output).unwrap();
    drop(pieces);
    close(&ticket);
    assert_eq!(std::fs::read(path("2")).unwrap(), b"good");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn no_lock_is_held_while_reports_are_rendered() {
    // A thread that forks, or exits, would wait for ever if this report waited for it.
    let beside_a_fork = || {
        let forks = thread::spawn(|| {
            before_fork();
            after_fork();
        });
        forks.join().unwrap();
        Rendered::from("rendered beside a fork".to_owned())
    };
    let ticket = open(output("-", &[beside_a_fork])).unwrap();
    report(&ticket);
    close(&ticket);
}

#[test]
fn an_older_report_is_not_written_after_a_newer_one() {
    let ticket = open(output("-", &[])).unwrap();
    let written = || outputs()[ticket.0].written;
    report(&ticket);
    assert_eq!(written(), 1);
    // A report with number 2 is still being rendered when the one with number 3 is written.
    outputs()[ticket.0].begun += 1;
    report(&ticket);
    assert_eq!(written(), 3);
    assert!(!outputs()[ticket.0].begin_writing(2, ReportTurn::Current));
    close(&ticket);
}

#[test]
fn the_last_report_is_written_once() {
    // A guard drops while the program exits: both threads render before either writes.
    static RENDERED: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
    let waits = || {
        let (rendered, changed) = &RENDERED;
        *rendered.lock().unwrap() += 1;
        changed.notify_all();
        // Not for ever: if the other thread does not come, the number tells.
        let limit = Duration::from_secs(30);
        drop(changed.wait_timeout_while(rendered.lock().unwrap(), limit, |it| *it < 2));
        Rendered::from("rendered twice, written once".to_owned())
    };
    let ticket = open(output("-", &[waits])).unwrap();
    let at = ticket.0;
    thread::scope(|scope| {
        let exit = scope.spawn(|| report_at(at, ReportTurn::Last));
        let guard = scope.spawn(|| report_at(at, ReportTurn::Last));
        let written = [exit, guard].map(|it| it.join().unwrap());
        assert_eq!(written.iter().filter(|it| **it).count(), 1);
    });
    assert_eq!(*RENDERED.0.lock().unwrap(), 2);
    // The signal that comes after it reports nothing.
    assert!(!report_at(at, ReportTurn::Current));
    assert_eq!(*RENDERED.0.lock().unwrap(), 3);
    let _ = mem::take(&mut outputs()[at].output.attached);
}

/// Makes this process report a consumer that panics, at two signals; the second ends the
/// process.
#[cfg(all(unix, not(miri)))]
#[expect(unsafe_code, reason = "signals")]
pub(in crate::session::environment) fn panics_at_each_report(start: impl FnOnce()) {
    use std::sync::atomic::{AtomicU32, Ordering};

    static REPORTS: AtomicU32 = AtomicU32::new(0);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        REPORTS.fetch_add(1, Ordering::Relaxed);
    }));
    assert!(open(output("-", &[panics])).is_ok());
    start();
    // SAFETY: no pointers.
    unsafe {
        libc::alarm(60);
        libc::kill(libc::getpid(), libc::SIGUSR1);
    }
    while REPORTS.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    // SAFETY: as above.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    loop {
        thread::park();
    }
}
