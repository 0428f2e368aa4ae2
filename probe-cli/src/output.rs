//! The output of a command, and its exit code.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Effects, Style};

use crate::table_width::{fit_table, stdout_width};
use crate::text::{escape_json, escape_lines};

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
    /// A file can't be read or written, or a program can't be asked.
    Input = 3,
    /// No probe matches.
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
}

impl Output {
    /// Shows a text, and ends well.
    pub fn text(out: String) -> Self {
        Self { out, has_heading: false, notes: Vec::new(), exit: Exit::Done }
    }

    /// Shows a text whose first line is a heading.
    pub fn table(out: String) -> Self {
        Self { has_heading: true, ..Self::text(out) }
    }
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
    /// Nobody reads the output any further.
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

    /// A file can't be read or written.
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
            match write(&shown) {
                // Nobody reads any further, as after `| head`.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => shown.exit,
                Err(error) => {
                    write_stderr(ERROR, "error: ", &format!("stdout can't be written: {error}"));
                    Exit::Input
                }
                Ok(()) => shown.exit,
            }
        }
        Err(Failure::Closed) => Exit::Done,
        Err(failure) => {
            write_stderr(ERROR, "error: ", &failure.to_string());
            failure.exit()
        }
    }
}

/// Writes a note to stderr, for a command that does not return.
pub(crate) fn print_note(text: &str) {
    write_stderr(Style::new(), "note: ", text);
}

fn write(shown: &Output) -> io::Result<()> {
    let is_json = shown.out.starts_with('{');
    let text = if is_json { escape_json(&shown.out) } else { escape_lines(&shown.out) };
    let is_table = shown.has_heading && io::stdout().is_terminal();
    let width = stdout_width().filter(|_| is_table);
    let text = width.map_or(Cow::Borrowed(&*text), |width| fit_table(&text, width));
    let rest = match text.split_once('\n').filter(|_| is_table) {
        Some((heading, rest)) => {
            writeln!(anstream::stdout(), "{HEADING}{heading}{HEADING:#}")?;
            rest
        }
        None => &text,
    };
    // It has no colours, which would have to be taken out.
    let mut out = io::stdout().lock();
    out.write_all(rest.as_bytes())?;
    out.flush()
}

/// Writes a line to stderr.
fn write_stderr(style: Style, what: &str, text: &str) {
    // There is nowhere else to say that stderr is closed.
    let _ = writeln!(anstream::stderr(), "{style}{what}{style:#}{}", escape_lines(text));
}
