//! Shows reports one after the other: on a terminal each replaces the one before; a pipe gets all
//! of them.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use terminal_size::{Height, Width, terminal_size};

use crate::table_width::{fit_table, stdout_width};
use crate::text::{escape_json, escape_lines};

/// Shows reports on stdout.
pub struct Screen {
    is_json: bool,
    is_terminal: bool,
    /// Number of lines of the last report, which the next one replaces.
    shown: usize,
}

impl Screen {
    /// Shows reports on stdout: tables, or documents, which never replace each other.
    pub fn stdout(is_json: bool) -> Self {
        Self { is_json, is_terminal: !is_json && io::stdout().is_terminal(), shown: 0 }
    }

    /// Returns whether reports replace each other.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Escapes characters that a terminal could obey.
    fn escaped<'a>(&self, report: &'a str) -> Cow<'a, str> {
        if self.is_json { escape_json(report) } else { escape_lines(report) }
    }

    /// Shows a report in place of the last one.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&mut self, report: &str) -> io::Result<()> {
        let escaped = self.escaped(report);
        let text = if self.is_terminal { fit_to_screen(&escaped, size()) } else { escaped.into_owned() };
        let mut out = io::stdout().lock();
        if self.shown != 0 {
            write!(out, "\x1b[{}A\x1b[J", self.shown)?;
        }
        out.write_all(text.as_bytes())?;
        out.flush()?;
        self.shown = if self.is_terminal { text.lines().count() } else { 0 };
        Ok(())
    }

    /// Shows the final report, with all of its rows, in place of the last one.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(&mut self, report: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.shown != 0 {
            write!(out, "\x1b[{}A\x1b[J", self.shown)?;
        }
        self.shown = 0;
        let escaped = self.escaped(report);
        let width = stdout_width().filter(|_| self.is_terminal);
        let text = width.map_or(Cow::Borrowed(&*escaped), |width| fit_table(&escaped, width));
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

fn size() -> (u16, u16) {
    terminal_size().map_or((80, 24), |(Width(width), Height(height))| (width, height))
}

/// Cuts a text to a terminal's size: a line that is too long would become two, and a line above the
/// screen can't be replaced.
fn fit_to_screen(text: &str, (width, height): (u16, u16)) -> String {
    let rows = usize::from(height).saturating_sub(2).max(1);
    let mut cut = String::new();
    for line in fit_table(text, width.into()).lines().take(rows) {
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
        assert_eq!(fit_to_screen("one\ntwo\n", (80, 24)), "one\ntwo\n");
        assert_eq!(fit_to_screen("a long line\né\n", (6, 24)), "a long\né\n");
        assert_eq!(fit_to_screen("1\n2\n3\n4\n5\n", (80, 5)), "1\n2\n3\n… 2 more\n");
    }
}
