//! Shows reports one after the other: on a terminal each replaces the one before; a pipe gets all
//! of them.

use std::io::{self, IsTerminal, Write};
use std::mem;

use probe_report::View;
use terminal_size::{Height, Width, terminal_size};

use crate::terminal_width::{draw, stdout_width};
use crate::text::escape_json;

/// Shows reports on stdout.
pub struct Screen {
    is_terminal: bool,
    /// Number of lines of the last report, which the next one replaces.
    shown: usize,
}

impl Screen {
    /// Shows reports on stdout: tables, or documents, which never replace each other.
    pub fn stdout(is_json: bool) -> Self {
        Self { is_terminal: !is_json && io::stdout().is_terminal(), shown: 0 }
    }

    /// Returns whether reports replace each other.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Shows a report in place of the last one.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&mut self, report: &Shown) -> io::Result<()> {
        let text = match report {
            Shown::View(view) if self.is_terminal => fit_to_screen(view, size()),
            report => report.drawn(None),
        };
        self.write(&text)?;
        self.shown = if self.is_terminal { text.lines().count() } else { 0 };
        Ok(())
    }

    /// Shows the final report, with all of its rows, in place of the last one.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(&mut self, report: &Shown) -> io::Result<()> {
        self.write(&report.drawn(stdout_width().filter(|_| self.is_terminal)))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match mem::take(&mut self.shown) {
            0 => (),
            // The terminal may have written `^C` at the cursor.
            lines => write!(out, "\r\x1b[{lines}A\x1b[J")?,
        }
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// A report as a command shows it.
#[derive(Clone, PartialEq, Debug)]
pub enum Shown {
    /// A document.
    Json(String),
    /// Tables and texts.
    View(View<'static>),
}

impl Shown {
    /// Returns the text of it, with characters escaped that a terminal could obey.
    pub fn drawn(&self, width: Option<usize>) -> String {
        match self {
            Self::Json(json) => escape_json(json).into_owned(),
            Self::View(view) => draw(view.clone(), width),
        }
    }
}

fn size() -> (u16, u16) {
    terminal_size().map_or((80, 24), |(Width(width), Height(height))| (width, height))
}

/// Cuts a view to a terminal's size: a line that is too long would become two, and a line above the
/// screen can't be replaced.
fn fit_to_screen(view: &View<'_>, (width, height): (u16, u16)) -> String {
    let rows = usize::from(height).saturating_sub(2).max(1);
    let text = draw(view.clone(), Some(width.into()));
    let mut cut = String::new();
    for line in text.lines().take(rows) {
        cut.extend(line.chars().take(width.into()));
        cut.push('\n');
    }
    let left_out = text.lines().count().saturating_sub(rows);
    if left_out != 0 {
        cut.push_str(&format!("… {left_out} more\n").chars().take(width.into()).collect::<String>());
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_cut_to_the_terminal() {
        let fit = |text: &'static str, size| fit_to_screen(&View::text(text), size);
        assert_eq!(fit("one\ntwo\n", (80, 24)), "one\ntwo\n");
        assert_eq!(fit("a long line\né\n", (6, 24)), "a long\né\n");
        assert_eq!(fit("1\n2\n3\n4\n5\n", (80, 5)), "1\n2\n3\n… 2 more\n");
    }
}
