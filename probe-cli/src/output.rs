//! The output of a command: text, a table, a JSON document, or a file; and its exit code.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use clap::builder::styling::{AnsiColor, Effects, Style};
use probe_report::View;
use serde::Serialize;
use tempfile::{Builder, TempPath};

use crate::terminal_width::{draw, stdout_width};
use crate::text::{escape_json, escape_lines};

/// The version of the JSON documents, as that of the runtime's reports.
pub const SCHEMA: u64 = 1;

const HEADING: Style = Style::new().effects(Effects::BOLD);
const ERROR: Style = AnsiColor::Red.on_default().effects(Effects::BOLD);

/// How `probectl` ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// All is done.
    Done = 0,
    /// `audit`, `diff --fail` or `doctor` has found something.
    Finding = 1,
    /// The command line is wrong, or a selector in it.
    Usage = 2,
    /// A file can't be read or written, or ends early, or a program can't be asked.
    Input = 3,
    /// No probe matches the selector, a file has none, or points match only where calls are timed.
    NoMatch = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The output of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// For stdout: text or a JSON document.
    pub out: String,
    /// Whether the first line of the text is a heading.
    pub has_heading: bool,
    /// For stderr, a line each.
    pub notes: Vec<String>,
    /// How the command ends.
    pub exit: Exit,
    /// How the program has ended that the command has started, if that matters to callers.
    pub ended: Option<ExitStatus>,
}

impl Output {
    /// Shows a text.
    pub fn text(out: String) -> Self {
        Self { out, has_heading: false, notes: Vec::new(), exit: Exit::Done, ended: None }
    }

    /// Shows a view, in the width of stdout.
    pub fn view(view: View<'_>) -> Self {
        Self { has_heading: view.has_heading(), ..Self::text(draw(view, stdout_width())) }
    }

    /// Shows a view whose texts are sentences, which no width cuts.
    pub fn whole(view: View<'_>) -> Self {
        Self { has_heading: view.has_heading(), ..Self::text(draw(view, None)) }
    }

    /// Shows notes only.
    pub fn notes(notes: Vec<String>) -> Self {
        Self { notes, ..Self::text(String::new()) }
    }
}

/// An object of JSON with these members, in their order. The type of a member has the name of the
/// member.
macro_rules! object {
    ($($name:ident: $value:expr),+ $(,)?) => {{
        #[derive(serde::Serialize)]
        struct Object<$($name),+> { $($name: $name),+ }
        Object { $($name: $value),+ }
    }};
}
pub(crate) use object;

/// Returns a JSON document: the version of the format, the command, these members, then the rows,
/// each on a line of its own, as the runtime's reports have them.
///
/// # Errors
/// If a path in it is not UTF-8.
pub fn document<R: Serialize>(
    command: &str,
    members: &impl Serialize,
    rows: impl IntoIterator<Item = R>,
) -> Result<String, Failure> {
    let members = serde_json::to_string(members).map_err(Failure::input)?;
    // An object in braces, or `null`.
    let members = members.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    let members = members.map_or_else(String::new, |it| format!(",{it}"));
    let mut out = format!("{{\"schema\":{SCHEMA},\"command\":\"{command}\"{members},\"rows\":[").into_bytes();
    for (at, row) in rows.into_iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\n" } else { b",\n" });
        serde_json::to_writer(&mut out, &row).map_err(Failure::input)?;
    }
    out.extend_from_slice(b"\n]}\n");
    String::from_utf8(out).map_err(Failure::input)
}

/// Returns the JSON document of a command that makes something, in place of rows.
///
/// # Errors
/// As those of [`document`].
pub fn document_without_rows(command: &str, members: &impl Serialize) -> Result<String, Failure> {
    document(command, members, [(); 0])
}

/// Why a command failed, and what to do.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// A file can't be read or written.
    Input(String),
    /// No probe matches.
    NoMatch(String),
    /// The reader of the output has gone.
    Closed,
}

impl Failure {
    /// Returns how the command ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Input(_) => Exit::Input,
            Self::NoMatch(_) => Exit::NoMatch,
            Self::Closed => Exit::Done,
        }
    }

    /// Describes a file that can't be read or written.
    pub fn input(error: impl fmt::Display) -> Self {
        Self::Input(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Input(text) | Self::NoMatch(text) => f.write_str(text),
            Self::Closed => f.write_str("nobody reads the output any further"),
        }
    }
}

/// Writes the output of a command, with control characters escaped. Colours are for terminals only,
/// and for those who want them: see `NO_COLOR`.
pub fn print(result: Result<Output, Failure>) -> Exit {
    match result {
        Ok(shown) => {
            for note in &shown.notes {
                print_note(note);
            }
            match map_pipe_error(write(&shown)) {
                // Nobody reads any further, as after `| head`.
                Ok(()) | Err(Failure::Closed) => shown.exit,
                Err(failure) => print_failure(&failure),
            }
        }
        Err(Failure::Closed) => Exit::Done,
        Err(failure) => print_failure(&failure),
    }
}

fn print_failure(failure: &Failure) -> Exit {
    write_stderr(ERROR, "error: ", &failure.to_string());
    failure.exit()
}

/// Ends the command if writing to stdout has failed: without a word if nobody reads any further.
pub(crate) fn map_pipe_error(result: io::Result<()>) -> Result<(), Failure> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Input(format!("stdout can't be written: {error}")),
    })
}

/// Writes a note to stderr, for a command that does not return.
pub(crate) fn print_note(text: &str) {
    write_stderr(Style::new(), "note: ", text);
}

fn write(shown: &Output) -> io::Result<()> {
    let is_json = shown.out.starts_with('{');
    let text = if is_json { escape_json(&shown.out) } else { escape_lines(&shown.out) };
    let is_table = shown.has_heading && io::stdout().is_terminal();
    let rest = match text.split_once('\n').filter(|_| is_table) {
        Some((heading, rest)) => {
            writeln!(anstream::stdout(), "{HEADING}{heading}{HEADING:#}")?;
            rest
        }
        None => &text,
    };
    // The rest has no colours, which would have to be removed for some readers.
    let mut out = io::stdout().lock();
    out.write_all(rest.as_bytes())?;
    out.flush()
}

/// Writes a line to stderr.
fn write_stderr(style: Style, what: &str, text: &str) {
    // If stderr is closed, there is nowhere to say so.
    let _ = writeln!(anstream::stderr(), "{style}{what}{style:#}{}", escape_lines(text));
}

/// A file that is being written. It replaces another one when it is whole, and not before.
pub(crate) struct NewFile {
    /// The file.
    pub(crate) file: File,
    /// Its path beside the one that it gets; `None` if it is written in place. Dropping it removes
    /// the file.
    paths: Option<(TempPath, PathBuf)>,
}

impl NewFile {
    /// Begins to write a file. A pipe or a device is written in place.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Ok(Self { file: OpenOptions::new().write(true).open(path)?, paths: None });
        }
        let mut prefix = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        prefix.push(".partial-");
        let folder = path.parent().unwrap_or(Path::new(""));
        // Files and links that exist already belong to others. A new file has the usual rights.
        let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let (file, partial) = Builder::new().prefix(&prefix).make_in(folder, create)?.into_parts();
        Ok(Self { file, paths: Some((partial, path.to_owned())) })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// The system's. An earlier file then stays.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Some((partial, path)) = self.paths else { return Ok(()) };
        partial.persist(path).map_err(|error| error.error)
    }
}
