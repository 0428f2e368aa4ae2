//! A Rust program and its C library, with probes in both, in one table.
//!
//! ```text
//! cargo run --release -p mixed-c                 # compresses its own sources
//! cargo run --release -p mixed-c -- FILES…       # these files
//! cargo run --release -p mixed-c -- --profile[=TREE.csv] [FILES…]   # who calls whom, and for how long
//! PROBES='squeeze_* kind=entry=count' cargo run --release -p mixed-c
//! ```
//!
//! The library, in `c/`, is a compressor. Its build script uses `probe_build::Build` instead of
//! `cc::Build`, which puts a probe at the entry and the exits of each of its functions. The C code
//! has two more probes, `PROBE_U64("match", length)` and its counterpart. The Rust functions are
//! marked with `#[probe]`.
//!
//! First the program compresses and expands all files once, and compares the probes' counts with
//! its own. Then threads continue to do so, while probes are attached and detached.
//!
//! With `--profile`, one call tree shows the functions of both languages, with every call counted
//! and timed. Then one profile shows them, from samples, while the threads continue.

#![deny(unsafe_code)]

mod squeeze;

use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use probe_runtime::patch::TextPolicy;
use probe_runtime::{Attachment, CallTree, Consumer, Count, Event, Kind, Profiler, probe, probes, select};

const THREADS: usize = 2;
const WHILE_IT_RUNS: Duration = Duration::from_millis(500);

/// Selects all of the program and its library, but no probes of other crates.
const ALL: &str = "mixed_c::**, @c/squeeze.c, @c/lz77.c, @c/huffman.c, @c/bits.c";

struct File {
    name: String,
    content: Vec<u8>,
}

#[probe]
fn archive(content: &[u8]) -> Vec<u8> {
    squeeze::compress(content)
}

#[probe]
fn restore(archive: &[u8], len: usize) -> Option<Vec<u8>> {
    squeeze::expand(archive, len)
}

/// Selects the functions, without the points.
const FUNCTIONS: &str =
    "mixed_c::**, @c/squeeze.c, @c/lz77.c, @c/huffman.c, @c/bits.c, !squeeze::match, !squeeze::copy";

/// Number of times that each thread processes all files while it is profiled.
const ROUNDS: usize = 100;

/// Compresses and expands a file; returns its compressed size in bytes.
#[probe]
fn round_trip(file: &File) -> Result<usize, String> {
    let archived = archive(&file.content);
    match restore(&archived, file.content.len()) {
        Some(restored) if restored == file.content => Ok(archived.len()),
        _ => Err(format!("{} is not what it was", file.name)),
    }
}

/// Sums a field of C code: the bytes that matches represent.
#[derive(Default)]
struct Bytes(Mutex<u64>);

impl Consumer for Bytes {
    fn hit(&self, event: &Event<'_>) {
        let length = event.field("value").and_then(probe_runtime::field::ValueRef::as_u64);
        if let Ok(mut sum) = self.0.lock() {
            *sum += length.unwrap_or_default();
        }
    }
}

impl Bytes {
    fn sum(&self) -> u64 {
        self.0.lock().map_or(0, |sum| *sum)
    }
}

fn files(names: Vec<String>) -> Result<Vec<File>, String> {
    let own: [(&str, &[u8]); 6] = [
        ("src/main.rs", include_bytes!("main.rs")),
        ("c/squeeze.h", include_bytes!("../c/squeeze.h")),
        ("c/squeeze.c", include_bytes!("../c/squeeze.c")),
        ("c/lz77.c", include_bytes!("../c/lz77.c")),
        ("c/huffman.c", include_bytes!("../c/huffman.c")),
        ("c/bits.c", include_bytes!("../c/bits.c")),
    ];
    if names.is_empty() {
        return Ok(own
            .map(|(name, content)| File { name: name.to_owned(), content: content.to_vec() })
            .into());
    }
    let read = |name: String| match fs::read(&name) {
        Ok(content) => Ok(File { name, content }),
        Err(error) => Err(format!("can't read {name}: {error}")),
    };
    names.into_iter().map(read).collect()
}

/// Lists the probes of both languages, with their places.
fn list() -> Result<(), Box<dyn Error>> {
    println!("probe                        kind   sites  where");
    for probe in select(ALL)?.probes() {
        let (path, kind) = (probe.path(), probe.kind());
        println!("{path:<28} {kind:<5}  {:>5}  {}:{}", probe.sites(), probe.file(), probe.line());
    }
    Ok(())
}

/// Checks the counts: each file is archived and restored once, through one C function each, and
/// every match is copied again.
fn check(counted: &Attachment<Count>, [matched, copied]: [u64; 2], files: u64) -> Result<(), String> {
    let counts = counted.counts();
    let hits = |path: &str, kind| counts.hits(path, kind).unwrap_or_default();
    let mut expected = Vec::new();
    for path in ["mixed_c::archive", "mixed_c::restore", "squeeze_compress", "squeeze_expand"] {
        expected.extend([(path, Kind::Entry, files), (path, Kind::Exit, files)]);
    }
    expected.push(("squeeze::match", Kind::Point, hits("squeeze::copy", Kind::Point)));
    for (path, kind, expected) in expected {
        let hits = hits(path, kind);
        if hits != expected {
            return Err(format!("{path} ({kind}) was counted {hits} times instead of {expected}"));
        }
    }
    if matched == copied { Ok(()) } else { Err(format!("{matched} bytes matched, {copied} copied")) }
}

fn once(files: &[File]) -> Result<(), Box<dyn Error>> {
    let counted = select(ALL)?.attach(Count::new())?;
    let matched = select("squeeze::match")?.attach(Bytes::default())?;
    let copied = select("squeeze::copy")?.attach(Bytes::default())?;
    for file in files {
        let len = round_trip(file)?;
        println!("{}: {} bytes, compressed {len}", file.name, file.content.len());
    }
    println!("{} bytes came from matches\n\n{counted}", matched.sum());
    check(&counted, [matched.sum(), copied.sum()], files.len() as u64)?;
    Ok(())
}

/// Attaches while threads work.
fn while_it_runs(files: &[File]) -> Result<(), Box<dyn Error>> {
    let is_over = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let work = || -> Result<(), String> {
            while !is_over.load(Ordering::Relaxed) {
                for file in files {
                    round_trip(file)?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let attached =
            select("mixed_c::archive, squeeze_compress, squeeze::match").map_err(Box::<dyn Error>::from);
        let counted = attached.and_then(|set| Ok(set.attach(Count::new())?));
        let before = done.load(Ordering::Relaxed);
        thread::sleep(WHILE_IT_RUNS);
        let during = done.load(Ordering::Relaxed) - before;
        let shown =
            counted.map(|counted| println!("\nWhile {THREADS} threads did {during} files:\n\n{counted}"));
        is_over.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| "a thread panicked")??;
        }
        shown
    })
}

/// Processes all files on each thread, `rounds` times.
fn on_threads(files: &[File], rounds: usize) -> Result<(), Box<dyn Error>> {
    thread::scope(|scope| {
        let work =
            || (0..rounds).try_for_each(|_| files.iter().try_for_each(|file| round_trip(file).map(drop)));
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}

/// Prints a call tree of both languages, then a profile. They run one after the other: the profiler
/// switches sites, and a call tree needs every call.
fn profile(files: &[File], csv: Option<&str>) -> Result<(), Box<dyn Error>> {
    let calls = select(FUNCTIONS)?.attach(CallTree::new())?;
    on_threads(files, 1)?;
    let tree = calls.tree();
    println!("{tree}\n");
    if let Some(csv) = csv {
        fs::write(csv, tree.to_csv()).map_err(|error| format!("can't write {csv}: {error}"))?;
    }
    drop(calls);
    let profiler = select(FUNCTIONS)?.text_policy(TextPolicy::Open).attach(Profiler::new())?;
    on_threads(files, ROUNDS)?;
    println!("{profiler}");
    Ok(())
}

fn run() -> Result<(), Box<dyn Error>> {
    let _probes = probe_runtime::init_from_env()?;
    let mut names: Vec<_> = std::env::args().skip(1).collect();
    let option = names.first().filter(|name| name.starts_with("--")).cloned();
    if let Some(option) = &option {
        if option != "--profile" && !option.starts_with("--profile=") {
            return Err(format!("what is `{option}`? Usage: mixed-c [--profile[=TREE.csv]] [FILES…]").into());
        }
        names.remove(0);
    }
    let files = files(names)?;
    if !probes().iter().any(|probe| probe.path() == "squeeze_compress") {
        return Err("this program was built without probes".into());
    }
    if let Some(option) = option {
        return profile(&files, option.strip_prefix("--profile="));
    }
    list()?;
    println!();
    once(&files)?;
    while_it_runs(&files)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mixed-c: {error}");
            ExitCode::FAILURE
        }
    }
}
