//! Selectors in messages: with a caret below a place in it, or cut to a length.

use std::borrow::Cow;
use std::fmt;

/// Number of characters shown on each side of the place.
const AROUND: usize = 72;

/// Writes two indented lines: the text, and a caret below the byte `at`. Of a long text, only the
/// part around that byte is shown.
pub fn pointed(text: &str, at: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (before, after) = text.split_at(at);
    let start = before.char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
    let end = after.char_indices().nth(AROUND).map_or(after.len(), |(at, _)| at);
    let (before, after) = (&before[start..], &after[..end]);
    let lead = if start == 0 { "" } else { "…" };
    let trail = if at + end == text.len() { "" } else { "…" };
    let shown = [lead, before, after, trail].concat().replace(char::is_control, " ");
    let column = lead.chars().count() + before.chars().count() + 1;
    writeln!(f, "  {shown}")?;
    write!(f, "  {:>column$}", "^")
}

/// Returns the selector, cut to a length that people still read.
pub fn shortened(selector: &str) -> Cow<'_, str> {
    const SHOWN: usize = 200;
    match selector.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &selector[..end]).into(),
        None => selector.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pointed<'a>(&'a str, usize);

    impl fmt::Display for Pointed<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            pointed(self.0, self.1, f)
        }
    }

    #[test]
    fn a_short_text_is_shown_whole() {
        assert_eq!(Pointed("é::b\tc", 5).to_string(), "  é::b c\n      ^");
        assert_eq!(Pointed("", 0).to_string(), "  \n  ^");
    }

    #[test]
    fn a_long_text_is_shown_around_the_place() {
        let long = "é".repeat(100_000);
        for (at, shown, column) in [
            (0, format!("{}…", "é".repeat(AROUND)), 1),
            (150_000, format!("…{}…", "é".repeat(2 * AROUND)), AROUND + 2),
            (200_000, format!("…{}", "é".repeat(AROUND)), AROUND + 2),
        ] {
            assert_eq!(Pointed(&long, at).to_string(), format!("  {shown}\n  {:>column$}", "^"));
        }
    }
}
