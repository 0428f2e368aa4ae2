//! The bytes that `top` writes for each picture: nothing is erased, and no cell is written that
//! shows the same already. The marks of synchronized updates begin and end a picture.

use vt100::Parser;

use crate::program::{Folder, Program, until};
use crate::terminal::{LARGE, SMALL, Size, Terminal};

const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// Returns the pictures, and checks that nothing is written between two.
fn pictures(written: &str) -> Vec<&str> {
    let mut parts = written.split(BEGIN);
    // Before the first one, the terminal is taken.
    assert!(parts.next().unwrap().ends_with("\x1b[?1049h"), "{written:?}");
    parts
        .map(|part| {
            let (picture, after) = part.split_once(END).unwrap_or((part, ""));
            assert!(
                after.is_empty() || after.starts_with("\x1b[?1049l") || after.starts_with(END),
                "{after:?}"
            );
            picture
        })
        .collect()
}

/// Splits a text into sequences that a terminal obeys, and characters that it shows.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let len = match rest.strip_prefix("\x1b[") {
            Some(after) => 3 + after.find(|it| matches!(it, '@'..='~')).expect("a whole sequence"),
            None => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(len);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Plays pictures on a screen. Returns the number of cells that each has written.
#[track_caller]
fn play(pictures: &[&str], (columns, rows): Size) -> Vec<usize> {
    let [rows, columns] = [rows, columns].map(|it| it.try_into().unwrap());
    let mut screen = Parser::new(rows, columns, 0);
    let mut written = Vec::new();
    for (at, picture) in pictures.iter().enumerate() {
        let mut cells = 0;
        for piece in pieces(picture) {
            let is_sequence = piece.starts_with('\x1b');
            let erases = is_sequence && piece.ends_with(['J', 'K', 'X', 'P', '@', 'L', 'M']);
            assert!(!erases, "picture {at} erases: {picture:?}");
            let (row, column) = screen.screen().cursor_position();
            let before = screen.screen().cell(row, column).cloned();
            screen.process(piece.as_bytes());
            if !is_sequence {
                let after = screen.screen().cell(row, column).cloned();
                assert!(at == 0 || before != after, "picture {at}, {row}:{column}, {piece:?}: {picture:?}");
                cells += 1;
            }
        }
        written.push(cells);
    }
    written
}

#[test]
fn top_writes_only_the_cells_that_change() {
    shows("flicker", SMALL);
}

#[test]
fn top_writes_only_the_cells_that_change_on_a_large_terminal() {
    shows("flicker-large", LARGE);
}

fn shows(folder: &str, size: Size) {
    let folder = Folder::new(folder);
    let mut program = Program::start(&folder);
    let arguments = format!("top -p {} 'live::**'", program.pid());
    let Some(mut top) = Terminal::probectl(&folder, size, &arguments) else { return };
    top.until(|screen| screen.contains("live::program::work"));
    let count = |top: &Terminal| String::from_utf8_lossy(&top.written()).matches(END).count();
    // Rates change; then other rows, columns, pages.
    for keys in ["", "j", "A", "s", "k", "?", "x", "\r", "\x1b"] {
        let before = count(&top);
        top.press(keys);
        until(|| count(&top) >= before + 3);
    }
    top.press("q");
    let ran = top.ran();
    let pictures = pictures(&ran.out);
    let cells = play(&pictures, size);
    assert!(cells.len() > 27 && cells.iter().sum::<usize>() > 1000, "{cells:?}");
    // Most pictures are new numbers: a small part of the cells.
    let mut sorted = cells.clone();
    sorted.sort_unstable();
    let all = usize::from(size.0) * usize::from(size.1);
    assert!(sorted[sorted.len() / 2] < all / 8, "{cells:?}");
    program.is_as_before();
}
