//! Runs regular expressions over sources: parses and compiles them anew each time, then searches
//! with each engine.

use regex_automata::dfa::Automaton;
use regex_automata::dfa::{dense, onepass};
use regex_automata::hybrid::regex::Regex as Lazy;
use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::{backtrack::BoundedBacktracker, pikevm::PikeVM};
use regex_automata::{Anchored, Input};

const PATTERNS: [&str; 7] = [
    r"(?m)^\s*(?:pub(?:\([a-z]+\))?\s+)?(?:unsafe\s+)?fn\s+(\w+)",
    r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b",
    r"(?i)\b(?:todo|fixme|safety|panics|errors):",
    r#""(?:[^"\\]|\\.)*""#,
    r"0x[0-9a-fA-F_]+|\b[0-9][0-9_]*(?:\.[0-9]+)?\b",
    r"(?:->|=>)\s*[\p{L}_][\p{L}\p{N}_:<>]*",
    r"unwrap_or_else|expect\(|matches!|assert_eq!",
];
/// Size of a piece of the text, for slow engines.
const PIECE: usize = 20_000;

pub fn work(text: &str, times: u64) -> usize {
    let piece = piece(text, PIECE);
    (0..times).map(|_| all(text) + each(piece)).sum()
}

/// Returns the first lines, with at most `length` bytes.
fn piece(text: &str, length: usize) -> &str {
    let end = text.bytes().take(length).rposition(|byte| byte == b'\n').expect("lines");
    &text[..end]
}

/// Searches with the default engine, like a program.
fn all(text: &str) -> usize {
    let several = Regex::new_many(&PATTERNS).expect("patterns");
    PATTERNS
        .iter()
        .map(|pattern| {
            let regex = Regex::new(pattern).expect("a pattern");
            regex.find_iter(text).count() + regex.captures_iter(piece(text, PIECE)).count()
        })
        .sum::<usize>()
        + several.find_iter(text).count()
}

/// Searches with each engine separately.
fn each(text: &str) -> usize {
    let mut found = 0;
    for pattern in PATTERNS {
        let lazy = Lazy::new(pattern.trim_start_matches(r"\b").trim_end_matches(r"\b"));
        if let Ok(lazy) = lazy {
            found += lazy.find_iter(&mut lazy.create_cache(), text).count();
        }
        let vm = PikeVM::new(pattern).expect("a pattern");
        found += vm.find_iter(&mut vm.create_cache(), piece(text, PIECE / 8)).count();
        let backtracker = BoundedBacktracker::new(pattern).expect("a pattern");
        let mut cache = backtracker.create_cache();
        found += text.lines().take(200).filter(|line| matches!(backtracker.try_is_match(&mut cache, *line), Ok(true))).count();
    }
    let words = onepass::DFA::new(r"(\w+)\s+(\w+)").ok();
    if let Some(words) = words {
        let (mut cache, mut captures) = (words.create_cache(), words.create_captures());
        for line in text.lines() {
            let input = Input::new(line.trim_start()).anchored(Anchored::Yes);
            words.captures(&mut cache, input, &mut captures);
            found += usize::from(captures.is_match());
        }
    }
    let dense = dense::DFA::new("unsafe [a-z]+|pub fn [a-z_]+").expect("a pattern");
    found + text.lines().filter(|line| matches!(dense.try_search_fwd(&Input::new(line)), Ok(Some(_)))).count()
}
