//! Screens of `list`, `latency` and `top`, compared with the texts in `screens`.
//!
//! Each number is shown as `#`, at the place of its last character. The names of functions begin
//! where they do.

use std::fmt::Write;
use std::fs;

use crate::program::{Folder, PROBECTL, Program, SCENARIO, name, this};
use crate::terminal::{LARGE, SMALL, Size, Terminal};

const SHOWN: &str = "live::shown::**";
const UNITS: [&str; 5] = [" ns", " µs", " ms", " s", " %"];

/// Waits until the screen is as in a file, with numbers masked.
#[track_caller]
fn becomes(terminal: &Terminal, (columns, rows): Size, file: &str) {
    let expected = expected((columns, rows), file);
    let mut found = String::new();
    let is_it = terminal.becomes(|screen| {
        found = masked(screen);
        found == expected
    });
    assert!(is_it, "expected:\n{expected}\nfound:\n{found}\nwhich is\n{}", terminal.screen());
}

/// Reads the text of a screen.
fn expected((columns, rows): Size, file: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/screens");
    fs::read_to_string(format!("{folder}/{file}-{columns}x{rows}.txt")).unwrap()
}

/// Masks numbers.
fn masked(screen: &str) -> String {
    let mut text = String::new();
    for line in screen.lines() {
        let line = line.replace(&name(&this()), "live");
        let masked = match () {
            () if line.starts_with("call") => heading(&line),
            () if ["* ", "  ", "live::", "(no ", "…"].iter().any(|it| line.starts_with(it)) => {
                numbers(&line, true)
            }
            () => numbers(&line, false),
        };
        writeln!(text, "{}", masked.trim_end()).unwrap();
    }
    text
}

/// Masks the seconds in the heading of a table of calls.
fn heading(line: &str) -> String {
    let (title, rest) = line.split_once(", ").unwrap();
    let columns = rest.split_once(" s ").unwrap().1.trim_start();
    let width = line.chars().count() - title.chars().count() - ", #".len();
    format!("{title}, #{columns:>width$}")
}

/// Masks the numbers of a line, with their units; if `is_row`, the rest stays where it is.
fn numbers(line: &str, is_row: bool) -> String {
    let chars: Vec<char> = line.chars().collect();
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let (mut masked, mut at) = (String::new(), 0);
    while at < chars.len() {
        let marks = usize::from(matches!(chars[at], '~' | '≥'));
        let begins = at == 0 || matches!(chars[at - 1], ' ' | '(');
        if !(begins && is_digit(at + marks)) {
            masked.push(chars[at]);
            at += 1;
            continue;
        }
        let digits = chars[at + marks..].iter().take_while(|it| matches!(it, '0'..='9' | '.' | 'k' | 'M'));
        let mut end = at + marks + digits.count();
        let rest: String = chars[end..].iter().take(3).collect();
        let unit = UNITS.iter().find(|unit| rest.starts_with(**unit));
        end += unit.map_or(0, |unit| unit.chars().count());
        masked.extend(std::iter::repeat_n(' ', if is_row { end - at - 1 } else { 0 }));
        masked.push('#');
        at = end;
    }
    masked
}

#[test]
fn a_list_has_one_line_for_each_probe() {
    let folder = Folder::new("screen-list");
    for size in [SMALL, LARGE] {
        let arguments = format!("list {} '{SHOWN}'", this().display());
        let Some(terminal) = Terminal::probectl(&folder, size, &arguments) else { return };
        assert_eq!(terminal.last(), expected(size, "list"));
    }
}

/// A list by `probectl`, and one by the program itself: both fit a terminal, or are asked to be
/// whole. A pipe always gets whole names.
#[test]
fn lists_fit_a_terminal_or_are_whole() {
    const ONE: &str = "live::shown::**::invoices_in_foreign_currencies kind=entry";
    const FITS: &str = "…_in_foreign_currencies  entry      1  …tests/live/shown.rs:32          billing";
    const WHOLE: &str = "live::shown::billing_of_customers_abroad::invoices_in_foreign_currencies  entry      1  \
                         probe-cli/tests/live/shown.rs:32          billing";
    let folder = Folder::new("screen-width");
    let (this, probectl) = (this().display().to_string(), PROBECTL.join(" "));
    let listed = format!("{probectl} list {this} '{ONE}'");
    let play =
        format!("PROBES='{ONE}=list' PROBE_TEST_SCENARIO=idle PROBE_AGENT=0 {this} {SCENARIO} </dev/null");
    for (line, expected) in [
        (listed.clone(), FITS),
        (format!("{listed} --wide"), WHOLE),
        (format!("COLUMNS=200 {listed}"), WHOLE),
        (format!("{listed} | cat"), WHOLE),
        (play.clone(), FITS),
        (format!("COLUMNS=200 {play}"), WHOLE),
        (format!("{play} 2>&1 | cat"), WHOLE),
    ] {
        let Some(terminal) = Terminal::start(&folder, SMALL, &line) else { return };
        let out = terminal.ran().out;
        let rows: Vec<_> = out.lines().filter(|line| line.contains("_in_foreign_currencies ")).collect();
        assert_eq!(rows, [expected], "{line}: {out}");
    }
}

/// Columns are as wide as their numbers, and there is one more if a call was under way at the
/// beginning. So a table may differ from the file, and another one does not.
#[test]
fn latencies_are_in_columns() {
    let folder = Folder::new("screen-latency");
    let mut program = Program::start(&folder);
    for size in [SMALL, LARGE] {
        let arguments = format!("latency -p {} --for 50ms '{SHOWN}'", program.pid());
        let (expected, mut found) = (expected(size, "latency"), String::new());
        for _ in 0..50 {
            let Some(terminal) = Terminal::probectl(&folder, size, &arguments) else { return };
            found = masked(&terminal.last());
            if found == expected {
                break;
            }
        }
        assert_eq!(found, expected, "in none of 50 tables");
    }
    program.is_as_before();
}

#[test]
fn top_uses_the_whole_terminal() {
    let folder = Folder::new("screen-top");
    let mut program = Program::start(&folder);
    for size in [SMALL, LARGE] {
        let arguments = format!("top -p {} '{SHOWN}'", program.pid());
        let Some(mut top) = Terminal::probectl(&folder, size, &arguments) else { return };
        top.until(|screen| screen.contains("shown"));
        // Rates change their order from one moment to the next.
        top.press("sssss");
        top.until(|screen| screen.contains("sorted by function"));
        top.press("A");
        becomes(&top, size, "top");
        // All calls of this one are from outside.
        top.press("jj\r");
        becomes(&top, size, "callers");
        top.press("\x1b");
        top.until(|screen| screen.contains("rate"));
        top.press("?");
        becomes(&top, size, "help");
        top.press("xt");
        top.until(|screen| screen.contains("waits") && screen.contains(" sleeping"));
        let shown = top.screen().clone();
        let is_row = |line: &&str| line.contains(" sleeping") || line.contains(" running");
        assert!(shown.lines().filter(is_row).count() > 2, "{shown}");
        assert!(shown.lines().any(|line| line.starts_with("probe-client")), "{shown}");
        top.press("\x1bq");
        assert_eq!(top.last(), "\n");
    }
    program.is_as_before();
}
