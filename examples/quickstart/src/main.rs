//! Probes in a program that does real work: a full-text search over your files.
//!
//! ```text
//! cargo run -p quickstart              # all text below the current folder
//! cargo run -p quickstart -- FILES…    # these files and folders
//! PROBES='quickstart::query=count' cargo run -p quickstart
//! PROBE_AGENT=1 cargo run -p quickstart --features agent -- --serve   # for `probectl -n quickstart`
//! ```
//!
//! One thread indexes the files repeatedly, and other threads answer queries. Meanwhile the probes
//! in [`tokenise`], [`Index::index_document`] and [`Index::query`] are latent, then active, then
//! latent again. The program also counts in the ordinary way, in [`ExpectedHits`] for each thread.
//! If the probes' counts differ, it says so and fails. The threads stop between the phases only for
//! that comparison: attaching does not need it, as the phase `toggling` shows.
//!
//! With `--serve` there are no phases. Each line of the input is a query, which is answered by the
//! number of documents, until the input ends. `probectl` attaches meanwhile.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::{Attachment, Count, probe, select};

use library::Library;
use service::{Service, grouped};

mod library;
mod service;

const PHASE: Duration = Duration::from_millis(300);
const WARM_UP: Duration = Duration::from_millis(100);

// ---- The program, with its probes ------------------------------------------------------------

/// Calls `each` with every word of the text, in lower case.
#[probe]
fn tokenise(text: &str, expected: &mut ExpectedHits, mut each: impl FnMut(&str)) {
    expected.tokenise += 1;
    let mut word = String::new();
    for token in text.split(|c: char| !c.is_alphanumeric()).filter(|token| !token.is_empty()) {
        probe!("token", bytes = token.len());
        expected.token += 1;
        word.clear();
        word.extend(token.chars().flat_map(char::to_lowercase));
        each(&word);
    }
}

/// The documents that contain a word, with the number of its occurrences; sorted by document.
type Postings = Vec<(usize, u32)>;

/// An inverted index: maps words to documents.
#[derive(Default)]
struct Index(HashMap<String, Postings>);

impl Index {
    #[probe]
    fn index_document(&mut self, document: usize, text: &str, expected: &mut ExpectedHits) {
        expected.index_document += 1;
        tokenise(text, expected, |word| {
            if !self.0.contains_key(word) {
                self.0.insert(word.to_owned(), Postings::new());
            }
            let Some(postings) = self.0.get_mut(word) else { return };
            match postings.last_mut() {
                Some((last, times)) if *last == document => *times += 1,
                _ => postings.push((document, 1)),
            }
        });
    }

    /// Returns the documents that contain all of the words, those with the most occurrences first.
    #[probe]
    fn query(&self, words: &str, expected: &mut ExpectedHits) -> Postings {
        expected.query += 1;
        let mut found: Option<Postings> = None;
        tokenise(words, expected, |word| {
            let postings = self.0.get(word).map_or(&[][..], Vec::as_slice);
            found = Some(match found.take() {
                None => postings.to_vec(),
                Some(found) => in_both(&found, postings),
            });
        });
        let mut found = found.unwrap_or_default();
        found.sort_by_key(|(document, times)| (Reverse(*times), *document));
        probe!("matched", documents = found.len());
        expected.matched += 1;
        found
    }
}

fn in_both(some: &[(usize, u32)], others: &[(usize, u32)]) -> Postings {
    let other = |document| others.binary_search_by_key(&document, |(document, _)| *document).ok();
    (some.iter())
        .filter_map(|(document, times)| Some((*document, times + others[other(*document)?].1)))
        .collect()
}

/// The hits that the probes should count, counted in the ordinary way.
#[derive(Clone, Copy, Default)]
struct ExpectedHits {
    tokenise: u64,
    token: u64,
    index_document: u64,
    query: u64,
    matched: u64,
}

impl ExpectedHits {
    fn rows(&self) -> [(&'static str, u64); 5] {
        [
            ("quickstart::tokenise", self.tokenise),
            ("quickstart::token", self.token),
            ("quickstart::index_document", self.index_document),
            ("quickstart::query", self.query),
            ("quickstart::matched", self.matched),
        ]
    }

    fn add(&mut self, other: Self) {
        self.tokenise += other.tokenise;
        self.token += other.token;
        self.index_document += other.index_document;
        self.query += other.query;
        self.matched += other.matched;
    }
}

// ---- The phases ------------------------------------------------------------------------------

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let _probes = probe_runtime::init_from_env()?;
    let mut arguments = std::env::args_os().skip(1).peekable();
    let is_serving = arguments.next_if(|it| it == "--serve").is_some();
    let library = Library::read(arguments.map(PathBuf::from).collect())?;
    if is_serving {
        return Ok(Service::new(library).serve(io::stdin().lock())?);
    }
    let probes = select("quickstart::*")?;
    let service = Service::new(library);
    service.introduce();

    println!("\nIts probes, and how many machine-code copies the compiler made of each:");
    for probe in probe_runtime::probes() {
        let (path, kind, state) = (probe.path(), probe.kind().name(), probe.state().name());
        let (sites, file, line) = (probe.sites(), probe.file(), probe.line());
        println!("  {path:<27} {kind:<5} {sites:>2}  {state:<6}  {file}:{line}");
    }

    service.phase(WARM_UP, thread::sleep);
    println!("\n{:<9} {:>12} {:>13}", "phase", "queries/s", "tokens/s");
    service.phase(PHASE, thread::sleep).print("latent", "nobody listens");

    let start = Instant::now();
    let hits = probes.attach(Count::new())?;
    let note = format!("attached in {:.0?}: {}", start.elapsed(), hits.report());
    let active = service.phase(PHASE, thread::sleep);
    let _ = hits.pause();
    active.print("active", &note);
    check(&hits, &active.expected)?;
    let table = hits.to_string();

    let mut toggles = 0_u64;
    let toggling = service.phase(PHASE, |time| {
        let start = Instant::now();
        while start.elapsed() < time {
            let _ = hits.resume();
            let _ = hits.pause();
            toggles += 2;
        }
    });
    toggling.print("toggling", &format!("switched {} times as they run", grouped(toggles.into())));

    drop(hits);
    service.phase(PHASE, thread::sleep).print("latent", "detached");

    println!("\nCounted in the active phase, exactly as the program itself counted:\n{table}");
    Ok(())
}

/// Compares the probes' counts with the program's own.
fn check(hits: &Attachment<Count>, expected: &ExpectedHits) -> Result<(), String> {
    let counts = hits.counts();
    for (path, own) in expected.rows() {
        let mut found = counts.iter().filter(|count| count.probe.path() == path).peekable();
        if found.peek().is_none() {
            return Err(format!("{path} was not counted"));
        }
        if let Some(wrong) = found.find(|count| count.hits != own) {
            let (kind, hits) = (wrong.probe.kind().name(), wrong.hits);
            return Err(format!("{path} {kind}: its probe counted {hits}, the program itself {own}"));
        }
    }
    Ok(())
}
