//! The width of the terminal, in which views are drawn: each row stays one line.
//!
//! A terminal breaks lines that are longer than its width, which makes a table unreadable. Files
//! and pipes get whole rows, and so does a terminal with `--wide`.

use std::borrow::Cow;
use std::env;
use std::fmt::{self, Write};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use probe_report::View;
use terminal_size::{Width, terminal_size};

use crate::text::{escape, escape_lines};

static IS_WIDE: AtomicBool = AtomicBool::new(false);

/// Keeps tables whole from now on.
pub fn keep_whole() {
    IS_WIDE.store(true, Ordering::Relaxed);
}

/// Returns the width for the last or only view on stdout: that of the variable `COLUMNS`, or the
/// terminal's; `None` if the view stays whole.
pub fn stdout_width() -> Option<usize> {
    if IS_WIDE.load(Ordering::Relaxed) || !io::stdout().is_terminal() {
        return None;
    }
    let asked = env::var("COLUMNS").ok().and_then(|it| it.parse().ok()).filter(|columns| *columns != 0);
    Some(asked.unwrap_or_else(|| terminal_columns().into()))
}

/// Returns the width of the terminal itself.
pub fn terminal_columns() -> u16 {
    terminal_size().map_or(80, |(Width(width), _)| width)
}

/// The most bytes of a view that is drawn. A program that is not ours could ask for any number by a
/// column as wide as a frame.
const MAX_DRAWN: usize = if cfg!(test) { 1 << 20 } else { 512 << 20 };

/// Text up to a length.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DRAWN {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Draws a view: lines without spaces at their ends, and with control characters escaped. Cells are
/// escaped before they get their widths, so callers leave them as they are.
pub fn draw(mut view: View<'_>, width: Option<usize>) -> String {
    view.map_texts(|text| match escape(text) {
        Cow::Owned(escaped) => Some(escaped),
        Cow::Borrowed(_) => None,
    });
    let mut text = Bounded(String::new());
    let drawn = match width {
        Some(width) => write!(text, "{view:width$}"),
        None => write!(text, "{view}"),
    };
    let Bounded(mut text) = text;
    if drawn.is_err() {
        text.push_str("\n… and more than can be shown");
    }
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
        let expected = "probe           group\napp::\\u{1b}[2J\n1 hit was lost\\r\n";
        assert_eq!(draw(view, None), expected);
        assert_eq!(draw(View::text(""), None), "");
        // Names stay in their rows, and in the width.
        let mut table = Table::new(["probe", "hits"]);
        table.row(["a\nshop::pay  999", "1"]);
        assert_eq!(
            draw(View::table(table.clone()), None),
            "probe              hits\na\\nshop::pay  999     1\n"
        );
        assert_eq!(draw(View::table(table), Some(18)), "probe         hits\n…p::pay  999     1\n");
    }

    #[test]
    fn a_view_of_any_size_is_drawn_up_to_a_length() {
        let mut table = Table::new(["hits"]);
        table.push("1".repeat(64 << 10));
        (0..200).for_each(|_| _ = table.push(None::<u64>));
        let text = draw(View::table(table), None);
        assert!(text.len() <= MAX_DRAWN + 100 && text.ends_with("\n… and more than can be shown\n"));
    }
}
