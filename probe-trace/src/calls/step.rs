//! The steps that pairing makes of a trace's items.

use std::sync::Arc;

use crate::item::{Definition, FieldValue, Gap, Off, Thread, ThreadId};

/// A row of a timeline. The slices of one track always nest.
///
/// ```
/// use probe_trace::calls::Track;
/// fn process(track: Track) -> Option<u64> {
///     match track {
///         Track::Thread(thread) => Some(thread.process),
///         Track::Future(future) => Some(future.process),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Track {
    /// Calls and polls that a thread executes.
    Thread(ThreadId),
    /// Polls and waits of one future.
    Future(FutureId),
}

/// A future of one of the processes of a trace.
///
/// ```
/// fn label(future: probe_trace::calls::FutureId) -> String {
///     format!("future {} of process {}", future.number, future.process)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct FutureId {
    /// Index of the file, as [`ThreadId::file`].
    pub file: usize,
    /// Id of the process.
    pub process: u64,
    /// The future's number in the trace, from 1; never reused, unlike its address.
    pub number: u64,
}

/// One thing that a timeline shows.
///
/// ```
/// use probe_trace::calls::{Ending, Step};
/// fn is_complete(step: &Step) -> bool {
///     matches!(step, Step::End(end) if end.ending == Ending::Exit)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Step {
    /// A thread, before any other step of it.
    Thread(Thread),
    /// The begin of a slice.
    Begin(Begin),
    /// The end of the innermost open slice of its track.
    End(End),
    /// A moment.
    Instant(Instant),
    /// Lost hits, after the ends of the slices that they cut off.
    Gap(Gap),
    /// A time in which a thread was off the processor.
    Off(OffProcessor),
    /// Such times of a thread are not known, from this time up to its next hit.
    OffLost(ThreadId, u64),
}

/// The kinds of slices.
///
/// ```
/// assert_eq!(probe_trace::calls::Slice::Wait.name(), "wait");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Slice {
    /// A call of a function.
    Call,
    /// A future, from its first poll to its end.
    Future,
    /// A poll of a future, on the future's track and on that of the thread that polls.
    Poll,
    /// The time between two polls of a future.
    Wait,
}

impl Slice {
    /// Returns the kind's name: `call`, `future`, `poll`, or `wait`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Future => "future",
            Self::Poll => "poll",
            Self::Wait => "wait",
        }
    }
}

/// A time in which a thread was off the processor.
///
/// ```
/// fn line(off: &probe_trace::calls::OffProcessor) -> String {
///     let inside = off.inside.as_ref().map_or("no call", |probe| &*probe.path);
///     format!("{} ns in {inside}", off.until - off.off.begin)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct OffProcessor {
    /// The time.
    pub off: Off,
    /// Its end; if it has none, the latest time of its file, or its begin if the thread has ended.
    pub until: u64,
    /// Since when the thread was on a processor before; `None` if that is the end of the last such
    /// step of the thread, or not known.
    pub ran_from: Option<u64>,
    /// The innermost call that was open: it waited.
    pub inside: Option<Arc<Definition>>,
}

/// The begin of a slice.
///
/// ```
/// fn line(begin: &probe_trace::calls::Begin) -> String {
///     format!("{} {} {}", begin.time, begin.slice.name(), begin.fields.definition().path)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Begin {
    /// The track.
    pub track: Track,
    /// Nanoseconds, as [`TraceEvent::time`](crate::TraceEvent::time).
    pub time: u64,
    /// The kind of slice.
    pub slice: Slice,
    /// The fields of the hit that begins the slice, and its probe.
    pub fields: Fields,
    /// Whether the future began before the trace, or before the events that are missing.
    pub began_before: bool,
    /// The future that a poll on a thread's track belongs to.
    pub future: Option<FutureId>,
}

/// The end of a slice.
///
/// ```
/// fn is_cut_off(end: &probe_trace::calls::End) -> bool {
///     end.ending.cause().is_some()
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct End {
    /// The track.
    pub track: Track,
    /// Nanoseconds, as [`TraceEvent::time`](crate::TraceEvent::time).
    pub time: u64,
    /// The kind of slice.
    pub slice: Slice,
    /// The probe that began the slice.
    pub definition: Arc<Definition>,
    /// The fields of the hit that ends the slice, if such a hit does.
    pub fields: Option<Fields>,
    /// Why the slice ends here.
    pub ending: Ending,
}

/// Why a slice ends.
///
/// ```
/// use probe_trace::calls::Ending;
/// assert_eq!(Ending::Exit.cause(), None);
/// assert_eq!(Ending::Gap.cause(), Some("cut off by lost events"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Ending {
    /// The program ended it: an exit, a suspension, or a resumption.
    Exit,
    /// The future was dropped before it had a result.
    Cancelled,
    /// The program has left it, and no exit was seen: `longjmp` left it, or only its entry was
    /// traced.
    Skipped,
    /// Lost hits follow, which may contain its end.
    Gap,
    /// Sites were switched, so its end may have no hit.
    Generation,
    /// The trace ends.
    Trace,
    /// Its thread has too many open slices; see [`Calls`](super::Calls).
    Limit,
}

impl Ending {
    /// Says in words why a slice has no exit; `None` if it has one.
    pub const fn cause(self) -> Option<&'static str> {
        match self {
            Self::Exit => None,
            Self::Cancelled => Some("cancelled"),
            Self::Skipped => Some("left without an exit"),
            Self::Gap => Some("cut off by lost events"),
            Self::Generation => Some("cut off by a switch of probes"),
            Self::Trace => Some("open at the end of the trace"),
            Self::Limit => Some("cut off because too many calls are open"),
        }
    }
}

/// A moment on a thread.
///
/// ```
/// fn line(instant: &probe_trace::calls::Instant) -> String {
///     format!("{} {}", instant.time, instant.fields.definition().path)
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Instant {
    /// The thread.
    pub thread: ThreadId,
    /// Nanoseconds, as [`TraceEvent::time`](crate::TraceEvent::time).
    pub time: u64,
    /// The hit's fields, and its probe.
    pub fields: Fields,
    /// Whether the hit ends a call or a future whose begin the trace lacks.
    pub lacks_entry: bool,
}

/// The fields of one hit, with their names.
///
/// ```
/// fn text(fields: &probe_trace::calls::Fields) -> String {
///     fields.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Fields {
    pub(super) definition: Arc<Definition>,
    pub(super) values: Vec<FieldValue>,
    /// Number of leading fields to hide, such as a future's address at its later hits.
    pub(super) hidden: usize,
}

impl Fields {
    /// Returns the probe.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// Returns the values with their numbers in [`Definition::fields`], but for hidden ones.
    #[cfg(feature = "perfetto")]
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &FieldValue)> {
        let values = self.values.iter().take(self.definition.fields.len());
        values.enumerate().skip(self.hidden)
    }

    /// Returns the calls that led to the hit, from the innermost; nothing if they are not known.
    pub(crate) fn stack(&self) -> &[Arc<str>] {
        match self.values.last() {
            Some(FieldValue::Stack(calls)) => calls,
            _ => &[],
        }
    }

    /// Returns names and values. The address of a future comes with the future's begin only.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FieldValue)> {
        self.definition.fields.iter().map(String::as_str).zip(&self.values).skip(self.hidden)
    }
}
