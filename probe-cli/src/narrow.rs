//! Tables on a terminal: each row stays one line.
//!
//! A terminal breaks lines that are longer than itself, and a table is no table then. So the widest
//! columns lose text until the rows fit: paths and files their beginnings, lists of fields their
//! ends. Files and pipes get whole rows.
//!
//! Cost: two passes over the text.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;

/// Spaces between two columns.
const GAP: usize = 2;
/// No column gets narrower.
const LEAST: usize = 8;
/// The heading of the column whose beginning matters.
const BEGINS: &str = "fields";
/// The first headings of tables. Other texts, such as trees of calls, stay as they are.
const TABLES: [&str; 3] = ["probe", "function", "object"];

/// Cuts the rows of a table to this many columns. Lines below the table stay as they are.
pub fn narrowed(text: &str, width: usize) -> Cow<'_, str> {
    let heading = text.split_whitespace().next().unwrap_or_default();
    if !TABLES.contains(&heading) {
        return text.into();
    }
    // No sentence has two spaces in a row.
    let rows: Vec<Vec<char>> =
        text.lines().take_while(|line| line.contains("  ")).map(|line| line.chars().collect()).collect();
    if rows.iter().all(|row| row.len() <= width) {
        return text.into();
    }
    let columns = columns(&rows);
    let widths: Vec<_> = columns.iter().map(Range::len).collect();
    let cap = cap(&widths, width);
    let mut out = String::with_capacity(text.len());
    let is_begun = |at: &Range<usize>| cell(&rows[0], at) == BEGINS;
    for row in &rows {
        let mut line = String::new();
        for (at, column) in columns.iter().enumerate() {
            let gap = if at == 0 { 0 } else { GAP };
            line.extend(iter::repeat_n(' ', gap));
            if column.len() <= cap {
                line.extend((column.clone()).map(|at| row.get(at).copied().unwrap_or(' ')));
                continue;
            }
            let whole = cell(row, column);
            let cut = if is_begun(column) { beginning(&whole, cap) } else { ending(&whole, cap) };
            line.push_str(&cut);
            line.extend(iter::repeat_n(' ', cap.saturating_sub(cut.chars().count())));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for line in text.lines().skip(rows.len()) {
        out.push_str(line);
        out.push('\n');
    }
    out.into()
}

/// Cuts the beginning of a name to a width: names differ at their ends.
pub fn ending(name: &str, width: usize) -> Cow<'_, str> {
    let length = name.chars().count();
    if length <= width {
        return name.into();
    }
    let kept = name.chars().skip(length - width.saturating_sub(1));
    iter::once('…').chain(kept).take(width).collect::<String>().into()
}

fn beginning(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(iter::once('…')).collect::<String>().into()
}

fn cell(row: &[char], column: &Range<usize>) -> String {
    let text: String = column.clone().filter_map(|at| row.get(at)).collect();
    text.trim().to_owned()
}

/// Finds the columns: between them, all rows have spaces.
fn columns(rows: &[Vec<char>]) -> Vec<Range<usize>> {
    let end = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut is_blank = vec![true; end];
    for row in rows {
        row.iter().zip(&mut is_blank).for_each(|(c, is_blank)| *is_blank &= *c == ' ');
    }
    let (mut columns, mut start, mut at) = (Vec::new(), 0, 0);
    while at < end {
        let gap = is_blank[at..].iter().take_while(|it| **it).count();
        if gap >= GAP {
            columns.push(start..at);
            start = at + gap;
        }
        at += gap.max(1);
    }
    columns.push(start..end);
    columns
}

/// Returns the greatest width of a column with which rows of these widths fit.
fn cap(widths: &[usize], width: usize) -> usize {
    let fits = |cap: usize| {
        let gaps = GAP * widths.len().saturating_sub(1);
        widths.iter().map(|it| cap.min(*it)).sum::<usize>() + gaps <= width
    };
    let widest = widths.iter().copied().max().unwrap_or(0);
    (LEAST..widest).rev().find(|cap| fits(*cap)).unwrap_or(LEAST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "\
function                    calls     self
app::store::read_the_whole      7  3.21 ms
app::go                        12   100 ns
1 hit was lost: there was no memory for its thread's counters
";

    #[test]
    fn wide_columns_become_narrow() {
        assert_eq!(narrowed(TABLE, 42), TABLE);
        let expected = "\
function             calls     self
…re::read_the_whole      7  3.21 ms
app::go                 12   100 ns
1 hit was lost: there was no memory for its thread's counters
";
        assert_eq!(narrowed(TABLE, 35), expected);
    }

    #[test]
    fn fields_keep_their_beginnings() {
        let table = "probe    kind   fields\napp::go  point  bytes: u64, request: str\n";
        let expected = "probe    kind   fields\napp::go  point  bytes: u64, re…\n";
        assert_eq!(narrowed(table, 31), expected);
    }

    #[test]
    fn other_texts_stay() {
        for text in ["", "error: no  probe\n", "  total    share  call tree\n1 ms  2 %  a\n"] {
            assert_eq!(narrowed(text, 4), text);
        }
    }

    proptest! {
        #[test]
        fn a_row_fits_or_its_columns_are_as_narrow_as_can_be(
            names in prop::collection::vec(("[a-z:µ]{1,60}", "[0-9]{1,6}", "[a-z: ,]{0,60}"), 1..9),
            width in 0_usize..120,
        ) {
            let mut table = probe_runtime::__tools::Table::new(&["probe", "hits", "fields"]);
            for (name, hits, fields) in names {
                table.row(vec![name, hits, fields.split_whitespace().collect::<Vec<_>>().join(" ")]);
            }
            let text = format!("{table}\n");
            let cut = narrowed(&text, width);
            prop_assert_eq!(cut.lines().count(), text.lines().count());
            let widest = cut.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            prop_assert!(widest <= width.max(3 * LEAST + 2 * GAP), "{widest}: {cut}");
        }
    }
}
