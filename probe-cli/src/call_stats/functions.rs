//! Reads traces, and adds up their calls by function.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_trace::calls::{Begin, Calls, End, Ending, FutureId, Slice, Step, Track};
use probe_trace::{ThreadId, Trace};
use serde::{Deserialize, Serialize};

use super::durations::{Durations, Spread};
use crate::elf::open_regular;
use crate::output::Failure;
use crate::progress::Progress;

/// A file whose bytes are counted as they are read.
pub struct CountingReader {
    file: BufReader<File>,
    read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let many = self.file.read(into)?;
        self.read.fetch_add(many as u64, Ordering::Relaxed);
        Ok(many)
    }
}

impl Seek for CountingReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Opens traces as one, with the progress of reading them.
///
/// # Errors
/// The file, and why it can't be read.
pub fn open_traces(paths: &[PathBuf]) -> Result<(Trace, Progress), Failure> {
    let unreadable =
        |path: &PathBuf, error| Failure::Input(format!("{} can't be read: {error}", path.display()));
    let mut total = 0;
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| unreadable(path, error))?;
        if metadata.is_dir() {
            return Err(Failure::Input(format!("{} is a folder; name the traces in it", path.display())));
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
        // A slow file system takes long to open a file, and the progress shows that.
        let file = open_regular(path).map_err(|error| unreadable(path, error))?;
        files.push((path, CountingReader { file: BufReader::new(file), read: progress.done() }));
    }
    let trace = Trace::read(files).map_err(Failure::input)?;
    Ok((trace, progress))
}

/// The calls in some traces.
pub struct TraceStats {
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
pub fn read_stats(paths: &[PathBuf]) -> Result<TraceStats, Failure> {
    let (mut trace, _progress) = open_traces(paths)?;
    let problems = trace.problems().to_vec();
    let mut functions = Functions::default();
    let mut items = trace.items();
    for step in Calls::new(items.by_ref()) {
        functions.step(&step.map_err(Failure::input)?);
    }
    let losses = Losses { undefined: items.undefined(), ..functions.losses };
    let mut rows: Vec<_> = functions.rows.into_iter().map(Function::row).collect();
    rows.sort_by(|a, b| b.self_ns.cmp(&a.self_ns).then_with(|| a.function.cmp(&b.function)));
    Ok(TraceStats { rows, losses, problems })
}

/// The functions of a trace.
#[derive(Default)]
struct Functions {
    numbers: HashMap<String, usize>,
    rows: Vec<Function>,
    threads: HashMap<ThreadId, Thread>,
    futures: HashMap<FutureId, OpenFuture>,
    losses: Losses,
}

#[derive(Default)]
struct Function {
    path: String,
    durations: Durations,
    total: u64,
    own: u64,
    unfinished: u64,
}

/// A thread's open calls, from the outermost one.
#[derive(Default)]
struct Thread {
    open: Vec<Open>,
    /// How often each function is open, so that a recursion's time counts once.
    depths: HashMap<usize, u32>,
}

struct Open {
    function: usize,
    begin: u64,
    /// Time of the calls inside.
    inner: u64,
}

struct OpenFuture {
    function: usize,
    begin: u64,
    /// Whether it began before the trace, so that its time is not known.
    is_cut: bool,
}

impl Functions {
    /// Adds a step.
    fn step(&mut self, step: &Step) {
        match step {
            Step::Begin(begin) => self.begin(begin),
            Step::End(end) => self.end(end),
            Step::Gap(gap) => self.losses.hits = self.losses.hits.saturating_add(gap.lost),
            Step::Instant(instant) => self.losses.without_entry += u64::from(instant.lacks_entry),
            _ => (),
        }
    }

    fn number(&mut self, path: &str) -> usize {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        self.numbers.insert(path.to_owned(), self.rows.len());
        self.rows.push(Function { path: path.to_owned(), ..Function::default() });
        self.rows.len() - 1
    }

    fn begin(&mut self, begin: &Begin) {
        match begin.track {
            Track::Thread(thread) => {
                let function = self.number(&begin.fields.definition().path);
                let thread = self.threads.entry(thread).or_default();
                thread.open.push(Open { function, begin: begin.time, inner: 0 });
                *thread.depths.entry(function).or_default() += 1;
            }
            Track::Future(future) if begin.slice == Slice::Future => {
                let function = self.number(&begin.fields.definition().path);
                let open = OpenFuture { function, begin: begin.time, is_cut: begin.began_before };
                self.futures.insert(future, open);
            }
            _ => (),
        }
    }

    fn end(&mut self, end: &End) {
        match end.track {
            Track::Thread(thread) => self.end_on_thread(thread, end),
            Track::Future(future) if end.slice == Slice::Future => {
                let Some(open) = self.futures.remove(&future) else { return };
                let function = &mut self.rows[open.function];
                let whole = end.time.saturating_sub(open.begin);
                function.total = function.total.saturating_add(whole);
                function.add(whole, end.ending == Ending::Exit && !open.is_cut);
            }
            _ => (),
        }
    }

    fn end_on_thread(&mut self, thread: ThreadId, end: &End) {
        let Some(thread) = self.threads.get_mut(&thread) else { return };
        let Some(open) = thread.open.pop() else { return };
        let whole = end.time.saturating_sub(open.begin);
        if let Some(outer) = thread.open.last_mut() {
            outer.inner = outer.inner.saturating_add(whole);
        }
        let depth = thread.depths.entry(open.function).or_insert(1);
        *depth = depth.saturating_sub(1);
        let is_outermost = *depth == 0;
        if is_outermost {
            thread.depths.remove(&open.function);
        }
        let function = &mut self.rows[open.function];
        function.own = function.own.saturating_add(whole.saturating_sub(open.inner));
        // A future's own slice tells its time and its end, and its polls tell its work.
        if end.slice == Slice::Poll {
            return;
        }
        if is_outermost {
            function.total = function.total.saturating_add(whole);
        }
        function.add(whole, end.ending == Ending::Exit);
    }
}

impl Function {
    fn add(&mut self, time: u64, is_whole: bool) {
        if is_whole {
            self.durations.add(time);
        } else {
            self.unfinished += 1;
        }
    }

    fn row(mut self) -> FunctionRow {
        FunctionRow {
            calls: self.durations.count(),
            unfinished: self.unfinished,
            total_ns: self.total,
            self_ns: self.own,
            mean_ns: self.durations.mean(),
            error_ns: self.durations.error(),
            p50_ns: self.durations.quantile(0.5),
            p99_ns: self.durations.quantile(0.99),
            max_ns: self.durations.max(),
            spread: self.durations.spread(),
            function: self.path,
        }
    }
}

/// Numbers and times of one function's calls.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FunctionRow {
    /// Its path.
    pub function: String,
    /// Calls that ended in the trace. Of a future, those that had a result.
    pub calls: u64,
    /// Calls that the trace cuts off, and cancelled futures.
    pub unfinished: u64,
    /// Time from entries to exits, a recursion's once. Cut-off calls count up to where they are
    /// cut.
    pub total_ns: u64,
    /// The same, without the time of the calls inside. Of a future, the time of its polls.
    pub self_ns: u64,
    /// Mean time of a call.
    pub mean_ns: f64,
    /// Half the width of its interval of 95 % confidence; `None` with too few calls.
    pub error_ns: Option<f64>,
    /// The time that half of the calls don't exceed.
    pub p50_ns: u64,
    /// The time that 99 of 100 calls don't exceed.
    pub p99_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// All of the times, for `diff`; `None` with too few calls, and in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// Parts that traces lack.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Losses {
    /// Hits that found no room.
    pub hits: u64,
    /// Exits whose entries are missing.
    pub without_entry: u64,
    /// Events of probes that have no definition.
    pub undefined: u64,
}

/// The calls of some traces.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Report {
    /// Version of the format.
    pub schema: u64,
    /// The command that wrote it.
    pub command: String,
    /// Parts that the traces lack.
    pub lost: Losses,
    /// The functions.
    pub rows: Vec<FunctionRow>,
}
