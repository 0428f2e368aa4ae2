//! Tables on a terminal: each row stays one line.
//!
//! A terminal breaks lines that are longer than its width, which makes a table unreadable. So
//! tables are drawn again for that width: see [`Table`]. Files and pipes get whole rows, and so
//! does a terminal with `--wide`.
//!
//! Cost: two passes over the text.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

pub use probe_runtime::__tools::ending;
use probe_runtime::__tools::{Table, count, shortened};
use terminal_size::{Width, terminal_size};

/// Spaces between two columns.
const COLUMN_GAP: usize = 2;
/// The first headings of tables. Texts with other beginnings stay as they are.
const TABLE_HEADINGS: [&str; 4] = ["probe", "function", "object", "site"];
/// The last heading of a tree of calls, whose rows begin with lines of the tree.
const TREE_HEADING: &str = "call tree";
/// No name in a tree is cut below this.
const MIN_NAME_WIDTH: usize = 20;

static IS_WIDE: AtomicBool = AtomicBool::new(false);

/// Keeps tables whole from now on.
pub fn keep_whole() {
    IS_WIDE.store(true, Ordering::Relaxed);
}

/// Returns the width for the last or only table on stdout; `None` if it stays whole.
pub fn stdout_width() -> Option<usize> {
    if IS_WIDE.load(Ordering::Relaxed) || !io::stdout().is_terminal() {
        return None;
    }
    Some(terminal_size().map_or(80, |(Width(width), _)| width.into()))
}

/// Draws a table for stdout.
#[cfg(target_os = "linux")]
pub fn draw_for_stdout(table: &Table) -> String {
    stdout_width().map_or_else(|| table.to_string(), |width| format!("{table:width$}"))
}

/// Cuts the rows of a table to this width. Lines below the table stay as they are.
pub fn fit_table(text: &str, width: usize) -> Cow<'_, str> {
    let heading = text.lines().next().unwrap_or_default();
    if heading.ends_with(TREE_HEADING) {
        return fit_tree(text, heading, width);
    }
    if !heading.split_whitespace().next().is_some_and(|first| TABLE_HEADINGS.contains(&first)) {
        return text.into();
    }
    // No sentence has two spaces in a row.
    let rows: Vec<Vec<char>> =
        text.lines().take_while(|line| line.contains("  ")).map(|line| line.chars().collect()).collect();
    if rows.iter().all(|row| row.len() <= width) {
        return text.into();
    }
    let columns = columns(&rows);
    let cells = |row: &[char]| columns.iter().map(|column| cell(row, column)).collect::<Vec<_>>();
    let heading = cells(&rows[0]);
    let mut table = Table::new(&heading.iter().map(String::as_str).collect::<Vec<_>>());
    rows[1..].iter().for_each(|row| table.row(cells(row)));
    let mut out = String::with_capacity(text.len());
    let drawn = format!("{table:width$}");
    for line in drawn.lines().map(str::trim_end).chain(text.lines().skip(rows.len())) {
        out.push_str(line);
        out.push('\n');
    }
    out.into()
}

/// Cuts the names of a tree of calls, and leaves out places that are too deep.
fn fit_tree<'a>(text: &'a str, heading: &str, width: usize) -> Cow<'a, str> {
    let begin = heading.chars().count() - TREE_HEADING.len();
    let (mut out, mut deep) = (String::with_capacity(text.len()), 0);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next_if(|line| line.contains("  ")) {
        let is_drawn = |c: char| " │├└┄─".contains(c);
        let lead = line.chars().skip(begin).take_while(|c| is_drawn(*c)).count() + begin;
        let room = width.saturating_sub(lead);
        if room < MIN_NAME_WIDTH && lead > begin {
            deep += 1;
            continue;
        }
        let at = line.char_indices().nth(lead).map_or(line.len(), |(at, _)| at);
        let (numbers, name) = line.split_at(at);
        out.extend([numbers, &shortened(name, room.max(MIN_NAME_WIDTH)), "\n"]);
    }
    lines.for_each(|line| out.extend([line, "\n"]));
    if deep != 0 {
        // Writing to a string never fails.
        let _ = writeln!(out, "{} too deep for this width not shown", count(deep, "place"));
    }
    out.into()
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
        if gap >= COLUMN_GAP {
            columns.push(start..at);
            start = at + gap;
        }
        at += gap.max(1);
    }
    columns.push(start..end);
    columns
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
        assert_eq!(fit_table(TABLE, 42), TABLE);
        let expected = "\
function             calls     self
…re::read_the_whole      7  3.21 ms
app::go                 12   100 ns
1 hit was lost: there was no memory for its thread's counters
";
        assert_eq!(fit_table(TABLE, 35), expected);
    }

    #[test]
    fn fields_keep_their_beginnings() {
        let table = "probe    kind   fields\napp::go  point  bytes: u64, request: str\n";
        let expected = "probe    kind   fields\napp::go  point  bytes: u64, re…\n";
        assert_eq!(fit_table(table, 31), expected);
    }

    #[test]
    fn trees_of_calls_keep_their_shape() {
        let tree = "\
total   calls  call tree
7.0 ms      1  app::run
5.0 ms      2  ├─ app::store::Pool<int, std::less<int>>::read_the_whole_file
4.0 ms      2  │  └─ app::store::read_a_part_of_it
1 place with less than 0.1 % each not shown
";
        assert_eq!(fit_table(tree, 80), tree);
        let expected = "\
total   calls  call tree
7.0 ms      1  app::run
5.0 ms      2  ├─ …::read_the_whole_file
1 place with less than 0.1 % each not shown
1 place too deep for this width not shown
";
        assert_eq!(fit_table(tree, 40), expected);
    }

    #[test]
    fn other_texts_stay() {
        for text in ["", "error: no  probe\n", "check  result\na long one  1\n"] {
            assert_eq!(fit_table(text, 4), text);
        }
    }

    proptest! {
        #[test]
        fn a_row_fits_or_its_columns_are_as_narrow_as_can_be(
            names in prop::collection::vec(("[a-z:µ]{1,60}", "[0-9]{1,6}", "[a-z: ,]{0,60}"), 1..9),
            width in 0_usize..120,
        ) {
            let mut table = Table::new(&["probe", "hits", "fields"]);
            for (name, hits, fields) in names {
                table.row(vec![name, hits, fields.split_whitespace().collect::<Vec<_>>().join(" ")]);
            }
            let text = format!("{table}\n");
            let cut = fit_table(&text, width);
            prop_assert_eq!(cut.lines().filter(|it| !it.starts_with("too wide")).count(), text.lines().count());
            let widest = cut.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            prop_assert!(widest <= width.max(12 + 6 + 8 + 2 * COLUMN_GAP), "{widest}: {cut}");
        }
    }
}
