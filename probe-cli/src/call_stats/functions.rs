//! Adds up the calls of a trace by function.

use std::collections::HashMap;

use probe_trace::ThreadId;
use probe_trace::calls::{Begin, End, Ending, FutureId, Slice, Step, Track};

use super::durations::Durations;
use super::report::{FunctionRow, Losses};

/// The functions of a trace.
#[derive(Default)]
pub struct Functions {
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
    /// Whether it began before the trace: its time is not known.
    is_cut: bool,
}

impl Functions {
    /// Adds a step.
    pub fn step(&mut self, step: &Step) {
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
                if end.ending == Ending::Exit && !open.is_cut {
                    function.durations.add(whole);
                } else {
                    function.unfinished += 1;
                }
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
        // A future's own slice has its time and its end; polls have its work.
        if end.slice == Slice::Poll {
            return;
        }
        if is_outermost {
            function.total = function.total.saturating_add(whole);
        }
        if end.ending == Ending::Exit {
            function.durations.add(whole);
        } else {
            function.unfinished += 1;
        }
    }

    /// Returns a row for each function, those with the most time of their own first, and what the
    /// trace lacks.
    pub fn finish(self) -> (Vec<FunctionRow>, Losses) {
        let mut rows: Vec<_> = self.rows.into_iter().map(Function::row).collect();
        rows.sort_by(|a, b| b.self_ns.cmp(&a.self_ns).then_with(|| a.function.cmp(&b.function)));
        (rows, self.losses)
    }
}

impl Function {
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
