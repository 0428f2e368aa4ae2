//! Runs regular expressions with `regex` over a real text: the Apache licence, paragraph by
//! paragraph.

use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::probe;
use regex::Regex;

use crate::{Done, Program, on_threads};

/// The program; a unit of work is one reading of the text.
pub const PROGRAM: Program =
    Program { name: "patterns", probes: "probe_programs::patterns::**", unit: "readings", work: 400, run };

const TEXT: &str = include_str!("../../../LICENSE-APACHE");

/// The names and texts of the patterns.
const PATTERNS: [(&str, &str); 6] = [
    ("words", r"[A-Za-z]+"),
    ("capitalised", r"\b[A-Z][a-z]+\b"),
    ("-ing", r"\b\w+ing\b"),
    ("quoted", r#""[^"]+""#),
    ("addresses", r"https?://[^\s)]+"),
    ("years", r"\b(?:19|20)\d\d\b"),
];

/// The matches of one pattern.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Tally {
    matches: u64,
    letters: u64,
    longest: &'static str,
}

#[probe(all)]
impl Tally {
    fn note(&mut self, found: &'static str) {
        self.matches += 1;
        self.letters += found.len() as u64;
        if found.len() > self.longest.len() {
            self.longest = found;
        }
    }

    fn add(&mut self, other: &Self) {
        self.matches += other.matches;
        self.letters += other.letters;
        if (other.longest.len(), self.longest) > (self.longest.len(), other.longest) {
            self.longest = other.longest;
        }
    }
}

#[probe]
fn compile() -> Vec<Regex> {
    PATTERNS.iter().map(|(_, pattern)| Regex::new(pattern).expect("a pattern of this program")).collect()
}

#[probe]
fn paragraphs() -> impl Iterator<Item = &'static str> {
    TEXT.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty())
}

/// Tallies all matches in a paragraph.
#[probe]
fn find(pattern: &Regex, paragraph: &'static str, tally: &mut Tally) {
    for found in pattern.find_iter(paragraph) {
        tally.note(found.as_str());
    }
}

/// Tallies all patterns in the whole text.
#[probe]
fn read(patterns: &[Regex]) -> [Tally; PATTERNS.len()] {
    let mut tallies: [Tally; PATTERNS.len()] = Default::default();
    for paragraph in paragraphs() {
        for (pattern, tally) in patterns.iter().zip(&mut tallies) {
            find(pattern, paragraph, tally);
        }
    }
    tallies
}

/// Reads the text until all threads together have read it `readings` times.
#[probe]
fn work(patterns: &[Regex], next: &AtomicU64, readings: u64) -> [Tally; PATTERNS.len()] {
    let mut all: [Tally; PATTERNS.len()] = Default::default();
    while next.fetch_add(1, Ordering::Relaxed) < readings {
        let tallies = read(patterns);
        all.iter_mut().zip(&tallies).for_each(|(all, tally)| all.add(tally));
    }
    all
}

#[probe]
fn run(readings: u64, threads: usize) -> Done {
    let patterns = compile();
    let next = AtomicU64::new(0);
    let mut all: [Tally; PATTERNS.len()] = Default::default();
    for tallies in on_threads(threads, |_| work(&patterns, &next, readings)) {
        all.iter_mut().zip(&tallies).for_each(|(all, tally)| all.add(tally));
    }
    let kinds = PATTERNS.len() as u64;
    let paragraphs = TEXT.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()).count() as u64;
    let line = |((name, _), tally): (&(&str, &str), &Tally)| {
        let Tally { matches, letters, longest } = tally;
        format!("{name}: {matches}, {letters} letters, the longest {longest}")
    };
    Done {
        result: PATTERNS.iter().zip(&all).map(line).collect::<Vec<_>>().join("\n"),
        calls: vec![
            ("run", 1),
            ("work", threads as u64),
            ("compile", 1),
            ("read", readings),
            ("paragraphs", readings),
            ("find", readings * paragraphs * kinds),
            ("Tally::note", all.iter().map(|tally| tally.matches).sum()),
            ("Tally::add", (readings + threads as u64) * kinds),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_ascii_letters() {
        let words: Vec<_> =
            TEXT.split(|c: char| !c.is_ascii_alphabetic()).filter(|it| !it.is_empty()).collect();
        let [all, capitalised, ..] = read(&compile());
        assert_eq!(all.matches, words.len() as u64);
        assert_eq!(all.letters, words.iter().map(|word| word.len() as u64).sum::<u64>());
        assert!(capitalised.matches > 100 && capitalised.matches < all.matches, "{capitalised:?}");
    }
}
