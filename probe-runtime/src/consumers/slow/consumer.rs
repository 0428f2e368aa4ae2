//! Reports calls that took longer than a limit, each as it ends.

use std::fmt;
use std::num::ParseIntError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::LimitedCalls;
use super::line::{Escaped, Line};
use crate::engine::calls::{CallEnd, Function, Meter, add_single_writer};
use crate::engine::control::{Consumer, ProbeSet};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::Local;
use probe_core::abi::Kind;
use probe_lang::units::time;
use probe_lang::{ParseError, Setting};
use probe_report::reports::{FunctionSlow, SlowCalls};

/// Reports each call that took longer than a limit, as it ends: the function, the time, the fields
/// of its entry, the thread. A report is a line on stderr, or goes [to a closure](Self::to). The
/// attachment prints as a table of the functions, with the number of their slow calls.
///
/// Entries and exits are paired as described in [`calls`](crate::calls); select both (`db::*`,
/// without a `kind`). A future's time is from its entry to its exit. Its fields are reported if it
/// had only one poll.
///
/// At most [`at_most`](Self::at_most) calls a second are reported, a hundred by default. The others
/// are [counted](SlowCalls::unsaid). The first 120 bytes of fields are kept, for a thread's
/// outermost 128 measured calls.
///
/// Cost: that of [`Calls`](crate::calls::Calls). Each entry with fields formats them. A slow call
/// writes its line, which is a system call on stderr. The consumer itself uses no heap and no lock
/// on a hit, so it may be attached to an allocator. Fields with `?` or `%` run their own code, and
/// so does a closure. If stderr is a full pipe, writing to it blocks.
///
/// ```
/// use std::sync::Mutex;
/// use std::time::{Duration, Instant};
/// use probe_runtime::{Slow, probe, select};
///
/// static SLOW: Mutex<Vec<String>> = Mutex::new(Vec::new());
///
/// #[probe(args(*))]
/// fn query(table: &str, ms: u64) {
///     std::thread::sleep(Duration::from_millis(ms));
/// }
/// query("a", 0);
///
/// let slow = Slow::over(Duration::from_millis(5)).to(|call| SLOW.lock().unwrap().push(call.to_string()));
/// let slow = select("**::query")?.attach(slow)?;
/// query("users", 20);
/// let said = SLOW.lock().unwrap();
/// // rust_out::query took 20.1 ms (table = users, ms = 20) in thread 1
/// assert!(said[0].contains("::query took ") && said[0].contains(" (table = users, ms = 20) in thread "));
/// println!("{slow}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub struct Slow {
    sink: SlowCallback,
    reports: RateLimiter,
    timed: LimitedCalls<Self>,
}

type SlowCallback = Box<dyn Fn(&SlowCall<'_>) + Send + Sync>;

/// A slow call, for the closure of [`Slow::to`]. It prints as the line on stderr does, with control
/// characters escaped (`\n`, `\u{1b}`).
///
/// ```
/// let slow = probe_runtime::Slow::over(std::time::Duration::from_millis(5))
///     .to(|call| eprintln!("{} {:?} [{}]", call.path(), call.elapsed(), call.fields()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SlowCall<'a> {
    path: &'a str,
    elapsed: Duration,
    fields: &'a str,
    thread: u64,
}

impl<'a> SlowCall<'a> {
    /// Returns the function's path.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// Returns the time that it took, from entry to exit.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the fields of its entry as text, `table = users, ms = 20`, 120 bytes at most; empty
    /// if there are none.
    pub fn fields(&self) -> &'a str {
        self.fields
    }

    /// Returns the thread on which it ended, as [`Event::thread`] counts them.
    pub fn thread(&self) -> u64 {
        self.thread
    }
}

impl fmt::Display for SlowCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} took {:.3?}", Escaped(self.path), self.elapsed)?;
        if !self.fields.is_empty() {
            write!(f, " ({})", Escaped(self.fields))?;
        }
        write!(f, " in thread {}", self.thread)
    }
}

/// The limit if the options name none.
const LIMIT: Duration = Duration::from_millis(100);

/// The words that hold a call's fields. The first one is their length.
const WORDS: usize = 16;
/// The number of nested calls on a thread that keep their fields.
const DEPTH: usize = 128;

/// A thread's number, and the fields of its calls under way.
type Head = (AtomicU64, [[AtomicU64; WORDS]; DEPTH]);
/// Calls that have ended, slow calls, and the longest one in ticks.
type SlowCounts = [AtomicU64; 3];

thread_local! {
    /// The fields of the entry whose hit is under way.
    static ENTERED: Line<{ (WORDS - 1) * 8 }> = const { Line::new() };
}

impl Slow {
    /// Creates a consumer with these options, `over` and `at_most`.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        let (mut over, mut at_most) = (None, None);
        for it in settings {
            if it.name() == "over" {
                over = Some(time(it.value()).map_err(|why| it.invalid_value(why))?);
            } else {
                let why = |_| format!("`{}` is not a number of calls a second", it.value());
                at_most =
                    Some(it.value().parse().map_err(|error: ParseIntError| it.invalid_value(why(error)))?);
            }
        }
        let slow = Self::over(over.unwrap_or(LIMIT));
        Ok(match at_most {
            Some(per_second) => slow.at_most(per_second),
            None => slow,
        })
    }

    /// Creates a consumer that reports calls that take longer than this, on stderr.
    pub fn over(limit: Duration) -> Self {
        Self { sink: Box::new(on_stderr), reports: RateLimiter::new(100), timed: LimitedCalls::new(limit) }
    }

    /// Reports calls to a closure instead, on the thread that made the call, in its hit. Hits of
    /// probes in the closure are not delivered.
    #[must_use]
    pub fn to(mut self, closure: impl Fn(&SlowCall<'_>) + Send + Sync + 'static) -> Self {
        self.sink = Box::new(closure);
        self
    }

    /// Reports at most this many calls a second.
    ///
    /// ```
    /// let slow = probe_runtime::Slow::over(std::time::Duration::from_millis(5)).at_most(10);
    /// # drop(slow);
    /// ```
    #[must_use]
    pub fn at_most(mut self, per_second: u32) -> Self {
        self.reports = RateLimiter::new(per_second);
        self
    }

    /// Returns the numbers of calls and of slow calls of each function, on all threads, ended
    /// threads included.
    ///
    /// ```
    /// use probe_runtime::{Slow, probe, select};
    /// #[probe]
    /// fn sluggish() {}
    /// sluggish();
    /// let slow = select("**::sluggish")?.attach(Slow::over(std::time::Duration::ZERO).at_most(0))?;
    /// sluggish();
    /// let calls = slow.slow_calls();
    /// assert_eq!((calls[0].calls(), calls[0].slow(), calls.unsaid()), (1, 1, 1));
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn slow_calls(&self) -> SlowCalls {
        let Some((calls, scale)) = self.timed.calls.get().zip(self.timed.scale.get()) else {
            return SlowCalls::default();
        };
        let period = calls.period();
        let function = |(number, function): (usize, &Function)| {
            let sum = |at: usize| calls.parts(number).map(|part| part[at].load(Relaxed)).sum();
            let longest = calls.parts(number).map(|part| part[2].load(Relaxed)).max().unwrap_or(0);
            FunctionSlow::new(function.clone(), sum(0), sum(1), scale.nanoseconds(longest))
        };
        let mut functions: Vec<_> = calls.functions().iter().enumerate().map(function).collect();
        crate::engine::order::sort_by(&mut functions, |a, b| {
            b.slow().cmp(&a.slow()).then_with(|| a.path().cmp(b.path()))
        });
        let (left_out, unsaid) = (calls.left_out(), self.reports.suppressed());
        SlowCalls::new(functions, left_out, calls.lost(), unsaid, period)
    }

    #[cold]
    fn report(&self, function: usize, elapsed: Duration, (thread, texts): &Head, note: u64) {
        if !self.reports.admits() {
            return;
        }
        let Some(function) = self.timed.calls.get().and_then(|calls| calls.functions().get(function)) else {
            return;
        };
        let mut bytes = [0; (WORDS - 1) * 8];
        let text = usize::try_from(note).ok().and_then(|depth| texts.get(depth.wrapping_sub(1)));
        let len = text.map_or(0, |text| {
            for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&text[1..]) {
                *bytes = word.load(Relaxed).to_le_bytes();
            }
            usize::try_from(text[0].load(Relaxed)).unwrap_or(0)
        });
        let fields = bytes.get(..len).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
        let thread = thread.load(Relaxed);
        (self.sink)(&SlowCall { path: function.path(), elapsed, fields, thread });
    }
}

/// Writes a line to stderr, in one write without lock and heap.
fn on_stderr(call: &SlowCall<'_>) {
    let line = Line::<512>::new();
    line.show(format_args!("slow: {call}"));
    line.with(|text| {
        let mut whole = [b'\n'; 513];
        whole[..text.len()].copy_from_slice(text.as_bytes());
        let _whole = crate::engine::os::cancel::Uncancellable::new();
        crate::engine::os::stderr::print(&whole[..=text.len()]);
    });
}

impl Meter<1> for Slow {
    type Head = Head;
    type Part = SlowCounts;

    const NOTES: bool = true;

    reads_clock!(timed.clock);

    /// Returns the depth, from 1, as the note.
    #[inline]
    fn begin(&self, local: Local<'_, Head, ()>, _function: usize, outer: u64) -> u64 {
        let (thread, texts) = local.head();
        thread.store(local.thread(), Relaxed);
        if let Some(text) = usize::try_from(outer).ok().and_then(|depth| texts.get(depth)) {
            // Late in a thread's end this variable is gone, and so are the fields.
            let is_kept = ENTERED.try_with(|entered| entered.take_into(text)).is_ok();
            if !is_kept {
                text[0].store(0, Relaxed);
            }
        }
        outer + 1
    }

    #[inline]
    fn end(&self, ended: &CallEnd<'_, 1, Head, SlowCounts>) {
        let Some(call) = ended.completed else { return };
        let [total] = call.total;
        let [calls, slow, longest] = ended.part;
        add_single_writer(calls, 1);
        longest.store(longest.load(Relaxed).max(total), Relaxed);
        if let Some(elapsed) = self.timed.over(total) {
            add_single_writer(slow, 1);
            self.report(ended.function, elapsed, ended.head, ended.note);
        }
    }
}

impl Consumer for Slow {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.timed.prepare(probes)
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.timed.calls.join(probes)
    }

    fn hit(&self, event: &Event<'_>) {
        if event.kind() == Kind::Entry {
            let _ = ENTERED.try_with(|entered| {
                entered.clear();
                for (at, (name, value)) in event.fields().filter(|(name, _)| *name != "future").enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    entered.show(format_args!("{comma}{name} = {value}"));
                }
            });
        }
        self.timed.calls.hit(event, self);
        if event.kind() == Kind::Entry {
            // If no call began, a later call must not get these fields.
            let _ = ENTERED.try_with(Line::clear);
        }
    }
}

impl_display!(Slow: slow_calls);

impl_debug!(Slow: timed, reports);

/// Counts the reports in this second, and those that were suppressed because there were too many.
#[derive(Debug)]
struct RateLimiter {
    start: Instant,
    per_second: u32,
    /// The current second in the upper half, and its number of reports in the lower half.
    now: AtomicU64,
    suppressed: AtomicU64,
}

impl RateLimiter {
    fn new(per_second: u32) -> Self {
        Self { start: Instant::now(), per_second, now: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Returns whether one more call may be reported, and counts the answer.
    fn admits(&self) -> bool {
        self.admits_in(self.start.elapsed().as_secs())
    }

    fn admits_in(&self, second: u64) -> bool {
        let more = |now: u64| {
            // A thread that was delayed counts in the second that other threads have reached.
            let (in_second, reports) = (now >> 32, now & u64::from(u32::MAX));
            let (second, reports) = if second > in_second { (second, 0) } else { (in_second, reports) };
            (reports < u64::from(self.per_second)).then_some(second << 32 | (reports + 1))
        };
        let is_admitted = self.now.fetch_update(Relaxed, Relaxed, more).is_ok();
        if !is_admitted {
            self.suppressed.fetch_add(1, Relaxed);
        }
        is_admitted
    }

    fn suppressed(&self) -> u64 {
        self.suppressed.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_a_limited_number_of_reports() {
        let limiter = RateLimiter::new(2);
        let is_admitted: Vec<_> =
            [0, 0, 0, 1, 0, 1, 7, 7, 7].into_iter().map(|second| limiter.admits_in(second)).collect();
        assert_eq!(is_admitted, [true, true, false, true, true, false, true, true, false]);
        assert_eq!(limiter.suppressed(), 3);
        assert!(!RateLimiter::new(0).admits());
    }

    #[test]
    fn a_call_is_one_line_whatever_its_fields_hold() {
        let fields = "name = a\nslow: b\u{1b}[2J\u{9b}é";
        let call = SlowCall { path: "a::b", elapsed: Duration::from_millis(20), fields, thread: 1 };
        assert_eq!(call.to_string(), r"a::b took 20.000ms (name = a\nslow: b\u{1b}[2J\u{9b}é) in thread 1");
        assert_eq!(call.fields(), fields);
    }
}
