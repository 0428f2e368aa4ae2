//! The index in use, by the threads of one phase.

use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::library::Library;
use crate::{ExpectedHits, Index};

/// An index in use: one thread renews it, and other threads search it.
pub struct Service {
    library: Library,
    queries: Vec<String>,
    index: Mutex<Arc<Index>>,
    searchers: usize,
}

impl Service {
    pub fn new(library: Library) -> Self {
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
    pub fn introduce(&self) {
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
    pub fn serve(&self, input: impl BufRead) -> io::Result<()> {
        let (mut out, mut expected) = (io::stdout().lock(), ExpectedHits::default());
        writeln!(out, "ready")?;
        for line in input.lines() {
            let found = self.index().query(&line?, &mut expected);
            writeln!(out, "{}", number_of("file", found.len()))?;
        }
        Ok(())
    }

    /// Runs all threads until `meanwhile` returns, which takes `time`.
    pub fn phase(&self, time: Duration, meanwhile: impl FnOnce(Duration)) -> Phase {
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

/// The work of one phase, and its duration.
pub struct Phase {
    pub expected: ExpectedHits,
    time: Duration,
}

impl Phase {
    pub fn print(&self, name: &str, note: &str) {
        let per_second = |count| grouped(u128::from(count) * 1_000_000 / self.time.as_micros().max(1));
        let (queries, tokens) = (per_second(self.expected.query), per_second(self.expected.token));
        println!("{name:<9} {queries:>12} {tokens:>13}   {note}");
    }
}

/// Formats `1234567` as `1,234,567`.
pub fn grouped(number: u128) -> String {
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
