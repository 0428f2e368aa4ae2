//! Probes in a program that does real work: a full-text search over your files.
//!
//! ```text
//! cargo run --release --example quickstart            # all text below the current folder
//! cargo run --release --example quickstart -- FILES…  # these files and folders
//! PROBE_AGENT=1 cargo run --release --example quickstart -- --serve   # for `probectl -n quickstart`
//! PROBES='quickstart::query=count' cargo run --release --example quickstart
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
use std::ffi::OsStr;
use std::fs;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::{Attachment, Count, probe, select};

const PHASE: Duration = Duration::from_millis(1200);
const WARM_UP: Duration = Duration::from_millis(300);

/// Approximate number of different queries.
const QUERIES: usize = 500;

/// File extensions that count as text in a folder. A file that the command line names may have any.
const TEXT: [&str; 14] =
    ["c", "cpp", "css", "go", "h", "html", "java", "js", "md", "py", "rs", "sh", "toml", "txt"];

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

/// The work of one phase, and its duration.
struct Phase {
    expected: ExpectedHits,
    time: Duration,
}

impl Phase {
    fn print(&self, name: &str, note: &str) {
        let per_second = |count| grouped(u128::from(count) * 1_000_000 / self.time.as_micros().max(1));
        let (queries, tokens) = (per_second(self.expected.query), per_second(self.expected.token));
        println!("{name:<9} {queries:>12} {tokens:>13}   {note}");
    }
}

/// Formats `1234567` as `1,234,567`.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats `1 file`, `2 files`.
fn number_of(noun: &str, number: usize) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

// ---- The work --------------------------------------------------------------------------------

/// An index in use: one thread renews it, and other threads search it.
struct Service {
    library: Library,
    queries: Vec<String>,
    index: Mutex<Arc<Index>>,
    searchers: usize,
}

impl Service {
    fn new(library: Library) -> Self {
        let mut expected = ExpectedHits::default();
        let mut index = Index::default();
        for (document, text) in library.texts.iter().enumerate() {
            index.index_document(document, text, &mut expected);
        }
        let searchers = thread::available_parallelism().map_or(2, usize::from).clamp(3, 9) - 1;
        Self { queries: library.queries(), library, index: Mutex::new(Arc::new(index)), searchers }
    }

    /// Returns the current index.
    fn index(&self) -> Arc<Index> {
        Arc::clone(&self.index.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prints the amount of text to search, and one query with its answer.
    fn introduce(&self) {
        let Library { texts, paths } = &self.library;
        let bytes = texts.iter().map(|text| text.len() as u128).sum();
        println!("A full-text search over {} with {} bytes.", number_of("file", texts.len()), grouped(bytes));
        println!("One thread indexes the text again and again, {} answer queries.", self.searchers);
        let index = self.index();
        let answers =
            self.queries.iter().map(|query| (index.query(query, &mut ExpectedHits::default()), query));
        if let Some((found, query)) = answers.max_by_key(|(found, _)| found.len())
            && let Some((best, times)) = found.first()
        {
            let best = paths[*best].display();
            let files = number_of("file", found.len());
            println!("For instance \"{query}\": in {files}, most often ({times} times) in {best}.");
        }
    }

    /// Answers each line, until the input ends.
    fn serve(&self, input: impl BufRead) -> io::Result<()> {
        let (mut out, mut expected) = (io::stdout().lock(), ExpectedHits::default());
        writeln!(out, "ready")?;
        for line in input.lines() {
            let found = self.index().query(&line?, &mut expected);
            writeln!(out, "{}", number_of("file", found.len()))?;
        }
        Ok(())
    }

    /// Runs all threads until `meanwhile` returns, which takes `time`.
    fn phase(&self, time: Duration, meanwhile: impl FnOnce(Duration)) -> Phase {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let mut expected = ExpectedHits::default();
        thread::scope(|scope| {
            let mut workers = vec![scope.spawn(|| self.index_until(&stop))];
            workers.extend((0..self.searchers).map(|_| scope.spawn(|| self.search_until(&stop))));
            meanwhile(time);
            stop.store(true, Ordering::Relaxed);
            for worker in workers {
                expected.add(worker.join().expect("a worker does not panic"));
            }
        });
        Phase { expected, time: start.elapsed() }
    }

    fn index_until(&self, stop: &AtomicBool) -> ExpectedHits {
        let mut expected = ExpectedHits::default();
        loop {
            let mut index = Index::default();
            for (document, text) in self.library.texts.iter().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    return expected;
                }
                index.index_document(document, text, &mut expected);
            }
            *self.index.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(index);
        }
    }

    fn search_until(&self, stop: &AtomicBool) -> ExpectedHits {
        let mut expected = ExpectedHits::default();
        loop {
            let index = self.index();
            for query in &self.queries {
                if stop.load(Ordering::Relaxed) {
                    return expected;
                }
                black_box(index.query(query, &mut expected));
            }
        }
    }
}

/// The texts to search.
#[derive(Default)]
struct Library {
    paths: Vec<PathBuf>,
    texts: Vec<String>,
}

impl Library {
    /// Reads these files and folders, or else the current folder.
    fn read(mut roots: Vec<PathBuf>) -> Result<Self, String> {
        if roots.is_empty() {
            roots.push(PathBuf::from("."));
        }
        let mut library = Self::default();
        for root in &roots {
            library.add(root).map_err(|(path, error)| format!("can't read {}: {error}", path.display()))?;
        }
        if library.queries().is_empty() {
            return Err(String::from("there is no text to search in; name some files or folders"));
        }
        Ok(library)
    }

    /// Adds a file, or the text files below a folder, except hidden ones and those in `target`.
    fn add(&mut self, path: &Path) -> Result<(), (PathBuf, io::Error)> {
        let failed = |error| (path.to_owned(), error);
        if !path.is_dir() {
            let text = fs::read(path).map_err(failed)?;
            self.texts.push(String::from_utf8_lossy(&text).into_owned());
            self.paths.push(path.strip_prefix(".").unwrap_or(path).to_owned());
            return Ok(());
        }
        let entries: Result<Vec<_>, _> = fs::read_dir(path).and_then(Iterator::collect).map_err(failed);
        let mut entries = entries?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            let is_text = path.extension().and_then(OsStr::to_str).is_some_and(|end| TEXT.contains(&end));
            // A symbolic link is neither a file nor a folder, so there are no cycles.
            let kind = entry.file_type().map_err(failed)?;
            if !is_hidden && (kind.is_dir() && name != "target" || kind.is_file() && is_text) {
                self.add(&path)?;
            }
        }
        Ok(())
    }

    /// Returns some pairs of neighbouring longer words of each text, or words of a text without
    /// such pairs.
    fn queries(&self) -> Vec<String> {
        let share = QUERIES / self.texts.len().max(1) + 1;
        let mut queries = Vec::new();
        for text in &self.texts {
            let mut words = Vec::new();
            tokenise(text, &mut ExpectedHits::default(), |word| words.push(word.to_owned()));
            let is_long = |word: &String| word.len() > 3;
            let pairs = words.windows(2).filter(|pair| pair.iter().all(is_long) && pair[0] != pair[1]);
            let mut some: Vec<String> = pairs.map(|pair| pair.join(" ")).collect();
            if some.is_empty() {
                some = words;
            }
            let step = some.len() / share + 1;
            queries.extend(some.into_iter().step_by(step));
        }
        queries
    }
}
