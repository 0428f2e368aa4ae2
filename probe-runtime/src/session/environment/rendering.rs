//! Rendering the reports of one output, as pieces that are written afterwards. A program's own
//! consumers render here, too, so no lock is held: they may wait for locks that a thread holds
//! which forks or exits. A panic in one report is contained, and stops no other report.

use std::env;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use crate::engine::control::discover_probes;
#[cfg(feature = "metrics")]
use crate::engine::dispatch::lost_hits;
use crate::engine::os;
use crate::engine::os::fork;
use crate::engine::os::stderr::print_line;
#[cfg(feature = "metrics")]
use crate::report::metrics::{Metrics, count_lost};
use crate::report::{Staged, file};
use crate::session::spec::{Format, Rendered, Reported};
use probe_lang::destination::{Destination, Pattern, ProgramRun, by_path};

/// Attached consumers, and the destination of their reports. Clones share the attachments.
#[derive(Clone)]
pub(super) struct Output {
    run: ProgramRun,
    destination: Arc<Destination>,
    pub(super) attached: Arc<Vec<AttachedConsumer>>,
    /// The process that made the output.
    pub(super) process: u64,
    columns: Columns,
}

/// The columns that the environment variable `COLUMNS` gives a terminal, if it does.
#[derive(Clone, Copy)]
pub(super) struct Columns(Option<usize>);

impl Columns {
    /// Reads the variable. The end of a process is too late for that: other threads may change the
    /// environment.
    pub(super) fn read() -> Self {
        Self(env::var("COLUMNS").ok().and_then(|it| it.parse().ok()).filter(|columns| *columns != 0))
    }

    /// Returns the columns of text on stderr; `None` if it is no terminal.
    pub(super) fn of_stderr(self) -> Option<usize> {
        os::stderr::columns().map(|columns| self.0.unwrap_or(columns))
    }
}

/// One consumer, with its number and name in the variable.
pub(super) struct AttachedConsumer {
    pub(super) number: usize,
    pub(super) consumer: String,
    pub(super) reported: Arc<dyn Reported>,
}

impl Output {
    pub(super) fn new(run: ProgramRun, destination: Destination, attached: Vec<AttachedConsumer>) -> Self {
        let (destination, attached) = (Arc::new(destination), Arc::new(attached));
        Self { run, destination, attached, process: fork::process(), columns: Columns::read() }
    }

    /// Returns whether this process, or its parent, is a forked child of the one that made the
    /// output.
    pub(super) fn is_forked(&self) -> bool {
        self.run.is_forked || self.process != fork::process()
    }

    /// Returns the files that this output's reports replace.
    pub(super) fn replaced(&self) -> Vec<PathBuf> {
        match &*self.destination {
            Destination::Stderr => Vec::new(),
            Destination::Files(pattern) => {
                let files = self.paths(pattern).into_iter();
                files.filter(|path| !file::is_stream(path)).collect()
            }
        }
    }

    /// Renders the current reports, in the order in which they are to be written.
    pub(super) fn render(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        discover_probes();
        match &*self.destination {
            Destination::Stderr => {
                let columns = self.columns.of_stderr();
                for it in self.attached.iter() {
                    let text = it.rendered(&mut pieces, |reported| match columns {
                        Some(columns) => reported.report_within(columns),
                        None => reported.report(Format::Text),
                    });
                    pieces.extend(text.map(Piece::Said));
                }
            }
            Destination::Files(pattern) => {
                if pattern.format != Format::Text {
                    self.attached.iter().for_each(|it| it.note(&mut pieces));
                }
                let paths = self.paths(pattern);
                for all in by_path(&paths) {
                    let first = &self.attached[all[0]];
                    if first.reported.is_streamed(pattern.format) {
                        let staged = first.staged(pattern.format, paths[all[0]].clone(), &mut pieces);
                        pieces.extend(staged.map(Piece::Staged));
                        continue;
                    }
                    let content = self.content(pattern.format, &all, &mut pieces);
                    pieces.push(Piece::File(paths[all[0]].clone(), content));
                }
            }
        }
        pieces
    }

    /// Returns the file of each consumer.
    fn paths(&self, pattern: &Pattern) -> Vec<PathBuf> {
        let run = ProgramRun { process: process::id(), is_forked: false, ..self.run.clone() };
        let consumers: Vec<_> = self.attached.iter().map(|it| (it.number, it.consumer.as_str())).collect();
        let own = pattern.paths(&ProgramRun { is_forked: self.is_forked(), ..run.clone() }, &consumers);
        // A child shares its parent's stream; under another name there would be no stream.
        let paths = pattern.paths(&run, &consumers).into_iter().zip(own);
        paths.map(|(path, own)| if file::is_stream(&path) { path } else { own }).collect()
    }

    /// Renders the reports of these attachments, one after the other, each ending with a newline.
    fn content(&self, format: Format, all: &[usize], pieces: &mut Vec<Piece>) -> String {
        let attached = all.iter().map(|at| &self.attached[*at]);
        #[cfg(feature = "metrics")]
        if format == Format::Prometheus {
            let mut metrics = Metrics::default();
            for it in attached {
                let _ = it.contained(pieces, |reported| reported.measure(&mut metrics));
            }
            count_lost(lost_hits(), &mut metrics);
            return metrics.to_prometheus();
        }
        let mut content = String::new();
        for it in attached {
            let Some(report) = it.rendered(pieces, |reported| reported.report(format)) else { continue };
            content.push_str(&report);
            if !content.ends_with('\n') {
                content.push('\n');
            }
        }
        content
    }
}

impl AttachedConsumer {
    fn said(&self, text: &str) -> Piece {
        Piece::Said(format!("PROBES, consumer {} ({}): {text}", self.number, self.consumer))
    }

    /// Adds the notes that only text reports contain.
    fn note(&self, pieces: &mut Vec<Piece>) {
        for note in self.contained(pieces, Reported::notes).unwrap_or_default() {
            pieces.extend(note.lines().map(|line| self.said(line.trim_start())));
        }
    }

    /// Returns the content of a report. A line says which figures its format has no place for.
    fn rendered(
        &self,
        pieces: &mut Vec<Piece>,
        of: impl FnOnce(&dyn Reported) -> Rendered,
    ) -> Option<String> {
        let Rendered { content, missing } = self.contained(pieces, of)?;
        if !missing.is_empty() {
            pieces.push(self.said(&missing.join("; ")));
        }
        Some(content)
    }

    /// Writes a report beside its file. Formats that are streamed share no file.
    fn staged(&self, format: Format, path: PathBuf, pieces: &mut Vec<Piece>) -> Option<Staged> {
        let mut staged = Staged::new(path);
        let written = self.contained(pieces, |reported| {
            let missing = reported.write(format, &mut staged)?;
            staged.sync()?;
            Ok::<_, io::Error>(missing)
        })?;
        match written {
            Ok(missing) if missing.is_empty() => (),
            Ok(missing) => pieces.push(self.said(&missing.join("; "))),
            Err(error) => {
                pieces.push(Piece::Said(format!("PROBES_OUT: {}: {error}", staged.path.display())));
                return None;
            }
        }
        Some(staged)
    }

    /// Returns the result of the consumer's code. If that panics, a line says so besides the
    /// panic's message.
    fn contained<T>(&self, pieces: &mut Vec<Piece>, of: impl FnOnce(&dyn Reported) -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(|| of(&*self.reported)));
        if result.is_err() {
            pieces.push(self.said("its report panicked, and is left out"));
        }
        result.ok()
    }
}

/// A part of a report that is ready to be written.
#[derive(Debug)]
pub(super) enum Piece {
    /// Text for stderr.
    Said(String),
    File(PathBuf, String),
    /// A report whose content is written already.
    Staged(Staged),
}

impl Piece {
    /// Writes it, or says why it can't.
    pub(super) fn write(self) {
        match self {
            Self::Said(text) => print_line(&text),
            Self::File(path, content) => write_file(&path, &content),
            Self::Staged(staged) => {
                let path = staged.path.clone();
                if let Err(error) = staged.finish() {
                    print_line(&format!("PROBES_OUT: {} can't be written: {error}", path.display()));
                }
            }
        }
    }
}

/// Writes a file. If that fails, writes the reason and the content to stderr.
pub(super) fn write_file(path: &Path, content: &str) {
    if let Err(error) = file::write(path, content) {
        print_line(&format!("PROBES_OUT: {} can't be written: {error}; it would say:", path.display()));
        print_line(content.trim_end_matches('\n'));
    }
}
