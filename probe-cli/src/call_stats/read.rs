//! Opens traces, and counts the bytes that are read.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_trace::Trace;
use probe_trace::calls::Calls;

use super::functions::Functions;
use super::report::{FunctionRow, Losses};
use crate::elf::open_regular;
use crate::progress::Progress;

/// A file whose bytes are counted as they are read.
pub struct Counted {
    file: BufReader<File>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let many = self.file.read(into)?;
        self.read.fetch_add(many as u64, Ordering::Relaxed);
        Ok(many)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Opens traces as one, with the progress of reading them.
///
/// # Errors
/// The file, and why it can't be read.
pub fn open(paths: &[PathBuf]) -> Result<(Trace, Progress), String> {
    let unreadable = |path: &PathBuf, error| format!("{} can't be read: {error}", path.display());
    let mut total = 0;
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| unreadable(path, error))?;
        if metadata.is_dir() {
            return Err(format!("{} is a folder; name the traces in it", path.display()));
        }
        total += metadata.len();
    }
    let what = match paths {
        [path] => format!("reading {}", path.display()),
        _ => format!("reading {} traces", paths.len()),
    };
    let progress = Progress::start(&what, total);
    let mut files = Vec::new();
    for path in paths {
        let file = open_regular(path).map_err(|error| unreadable(path, error))?;
        files.push((path, Counted { file: BufReader::new(file), read: progress.done() }));
    }
    let sources = files.into_iter();
    Ok((Trace::read(sources).map_err(|error| error.to_string())?, progress))
}

/// Adds up the calls of a trace.
///
/// # Errors
/// If the file can't be read further.
fn functions(trace: &mut Trace) -> Result<(Vec<FunctionRow>, Losses), String> {
    let mut functions = Functions::default();
    let mut items = trace.items();
    for step in Calls::new(items.by_ref()) {
        functions.step(&step.map_err(|error| error.to_string())?);
    }
    let undefined = items.undefined();
    let (rows, losses) = functions.finish();
    Ok((rows, Losses { undefined, ..losses }))
}

/// The calls in some traces.
pub struct Measured {
    /// The functions, those with the most time of their own first.
    pub rows: Vec<FunctionRow>,
    /// Parts that the traces lack.
    pub losses: Losses,
    /// The files' missing parts and doubtful ones, a line each.
    pub problems: Vec<String>,
}

/// Reads traces as one, and adds up their calls.
///
/// # Errors
/// The file, and why it can't be read.
pub fn measure(paths: &[PathBuf]) -> Result<Measured, String> {
    let (mut trace, _progress) = open(paths)?;
    let problems = trace.problems().to_vec();
    let (rows, losses) = functions(&mut trace)?;
    Ok(Measured { rows, losses, problems })
}
