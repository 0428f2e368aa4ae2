//! The width of the terminal, in which views are drawn: each row stays one line.
//!
//! A terminal breaks lines that are longer than its width, which makes a table unreadable. Files
//! and pipes get whole rows, and so does a terminal with `--wide`.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use probe_report::View;
use terminal_size::{Width, terminal_size};

use crate::text::escape_lines;

static IS_WIDE: AtomicBool = AtomicBool::new(false);

/// Keeps tables whole from now on.
pub fn keep_whole() {
    IS_WIDE.store(true, Ordering::Relaxed);
}

/// Returns the width for the last or only view on stdout; `None` if it stays whole.
pub fn stdout_width() -> Option<usize> {
    if IS_WIDE.load(Ordering::Relaxed) || !io::stdout().is_terminal() {
        return None;
    }
    Some(terminal_size().map_or(80, |(Width(width), _)| width.into()))
}

/// Draws a view: lines without spaces at their ends, and with control characters escaped.
pub fn draw(view: &View<'_>, width: Option<usize>) -> String {
    let mut text = String::new();
    // Writing to a string never fails.
    let _ = match width {
        Some(width) => write!(text, "{view:width$}"),
        None => write!(text, "{view}"),
    };
    let mut lines = String::with_capacity(text.len() + 1);
    for line in escape_lines(&text).lines() {
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use probe_report::Table;

    use super::*;

    #[test]
    fn lines_end_with_their_text_and_can_not_control_a_terminal() {
        let mut table = Table::new(["probe", "group"]);
        table.row(["app::\x1b[2J", ""]);
        let view = View { notes: vec!["1 hit was lost\r".to_owned()], ..View::table(table) };
        let expected = "probe      group\napp::\\u{1b}[2J\n1 hit was lost\\r\n";
        assert_eq!(draw(&view, None), expected);
        assert_eq!(draw(&View::text(""), None), "");
    }
}
