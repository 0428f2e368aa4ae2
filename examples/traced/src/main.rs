//! A trace of a program that counts words, with threads and futures.
//!
//! ```text
//! cargo run --release -p traced [FILE.pftrace | FILE.json | FILE.firefox.json | FILE.folded]
//! ```
//!
//! One thread fetches pages as futures, several at a time. Workers count the words of each page and
//! put the counts together. Every hit goes to a file while the program runs. A `.pftrace` can be
//! opened at any time, at <https://ui.perfetto.dev>: each thread has a track with its calls and
//! their arguments, and each fetch has one with its waits. Other formats are made at the end, from
//! a file that `probe-trace` reads.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use probe_runtime::{Trace, probe, select};
use probe_trace::export::{Format, export};

const PAGES: usize = 60;
const WORKERS: usize = 3;
/// Pages that are fetched at the same time.
const AT_ONCE: usize = 4;

type Counts = BTreeMap<String, usize>;

/// Fetches a page, which arrives in parts.
#[probe(args(number))]
async fn fetch(number: usize) -> String {
    let mut page = String::new();
    for part in 0..3 {
        next_part().await;
        page += &compose(number, part);
    }
    page
}

/// Waits once.
async fn next_part() {
    let mut has_waited = false;
    future::poll_fn(
        |_| if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending },
    )
    .await;
}

/// Composes a part of a page, the same on every run.
#[probe]
fn compose(number: usize, part: usize) -> String {
    const WORDS: [&str; 7] = ["the", "tide", "lifts", "all", "boats", "and", "waits"];
    let word = |at: usize| WORDS[(number * 31 + part * 17 + at * at) % WORDS.len()];
    (0..400).map(word).collect::<Vec<_>>().join(" ")
}

/// Polls some futures in turn until all pages are sent.
#[probe]
fn fetch_all(pages: &SyncSender<String>) {
    for first in (0..PAGES).step_by(AT_ONCE) {
        let mut running: Vec<_> = (first..PAGES.min(first + AT_ONCE)).map(|it| Box::pin(fetch(it))).collect();
        let mut context = Context::from_waker(Waker::noop());
        while !running.is_empty() {
            running.retain_mut(|page| match pin!(page).poll(&mut context) {
                Poll::Ready(page) => pages.send(page).is_err(),
                Poll::Pending => true,
            });
        }
    }
}

#[probe(args(bytes = page.len()))]
fn count(page: &str) -> Counts {
    let mut counts = Counts::new();
    for word in page.split(' ') {
        *counts.entry(word.to_owned()).or_default() += 1;
    }
    counts
}

#[probe]
fn merge(all: &Mutex<Counts>, counts: Counts) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    for (word, count) in counts {
        *all.entry(word).or_default() += count;
    }
    probe!("words", known = all.values().sum::<usize>());
}

/// Counts pages until there are no more.
fn work(pages: &Mutex<Receiver<String>>, all: &Mutex<Counts>) {
    loop {
        let page = pages.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(page) = page else { return };
        merge(all, count(&page));
    }
}

/// Counts the words of all pages.
fn run() -> std::io::Result<Counts> {
    let (sender, receiver) = sync_channel(AT_ONCE);
    let (pages, all) = (Mutex::new(receiver), Arc::new(Mutex::new(Counts::new())));
    thread::scope(|scope| {
        for number in 0..WORKERS {
            let named = thread::Builder::new().name(format!("worker {number}"));
            named.spawn_scoped(scope, || work(&pages, &all))?;
        }
        let fetcher = thread::Builder::new().name("fetcher".to_owned());
        fetcher.spawn_scoped(scope, move || fetch_all(&sender))?;
        Ok::<_, std::io::Error>(())
    })?;
    Ok(std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn convert(from: &Path, format: Format, to: &Path) -> Result<(), Box<dyn Error>> {
    let mut trace = probe_trace::Trace::open(&[from])?;
    trace.problems().iter().for_each(|problem| eprintln!("{problem}"));
    export(format, trace.clocks(), trace.items(), File::create(to)?)?;
    Ok(())
}

/// Runs the program, traced, and writes the trace in the format that the file's ending names.
fn trace(to: &Path) -> Result<(), Box<dyn Error>> {
    let format = Format::from_path(to)?;
    let is_live = format == Format::Perfetto;
    let recorded = if is_live { to.to_owned() } else { to.with_extension("probetrace") };
    let trace = select("traced::**")?.attach(Trace::to_file(&recorded))?;
    let counts = run()?;
    let totals = trace.finish()?;
    if !is_live {
        convert(&recorded, format, to)?;
        fs::remove_file(&recorded)?;
    }
    println!("{} words, of which {} are `tide`", counts.values().sum::<usize>(), counts["tide"]);
    println!("{} events, and {} were lost: {}", totals.written, totals.lost, to.display());
    Ok(())
}

fn main() -> ExitCode {
    let to = env::args_os().nth(1).map_or_else(|| PathBuf::from("traced.pftrace"), PathBuf::from);
    trace(&to).map_or_else(
        |error| {
            eprintln!("traced: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
