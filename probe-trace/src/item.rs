//! The items that a reader of traces hands out, in the order of time.

use std::sync::Arc;

use crate::definition::Definition;
use crate::value::FieldValue;

/// A thread of one of the processes of a trace.
///
/// ```
/// fn name(thread: &probe_trace::ThreadId) -> String {
///     format!("thread {} of process {}", thread.tid, thread.process)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct ThreadId {
    /// Index of the file in the order in which the files were given.
    pub file: usize,
    /// Id of the process.
    pub process: u64,
    /// The thread's number in its process, from 1 in the order of first hits; never reused.
    pub thread: u64,
    /// The system's id of the thread, which a later thread may get again.
    pub tid: u64,
}

/// One thing that a trace tells. Items come in the order of their times, those of one thread in the
/// order in which they happened.
///
/// ```
/// use probe_trace::Item;
///
/// fn shown(item: &Item) -> Option<String> {
///     match item {
///         Item::Thread(thread) => Some(format!("{}: {}", thread.id.tid, thread.name)),
///         Item::Event(event) => Some(format!("{}: {}", event.time, event.definition.path)),
///         Item::Gap(gap) => Some(format!("{} hits were lost", gap.lost)),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Item {
    /// A thread, before its first event, and before the hits that it lost earlier.
    Thread(Thread),
    /// A hit.
    Event(TraceEvent),
    /// Hits of one thread that were lost.
    Gap(Gap),
}

/// A thread's name, and its program's.
///
/// ```
/// fn title(thread: &probe_trace::Thread) -> String {
///     format!("{}/{}", thread.program, thread.name)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Thread {
    /// The thread.
    pub id: ThreadId,
    /// Its name at its first hit; empty if the system had none.
    pub name: String,
    /// The program's name; empty if the file does not say it.
    pub program: Arc<str>,
}

/// One hit of a probe.
///
/// ```
/// fn shown(event: &probe_trace::TraceEvent) -> String {
///     let named = event.definition.fields.iter().zip(&event.fields);
///     let fields: Vec<_> = named.map(|(name, value)| format!("{name}={value}")).collect();
///     format!("{} {} {}", event.time, event.definition.path, fields.join(" "))
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct TraceEvent {
    /// The thread.
    pub thread: ThreadId,
    /// Nanoseconds of `CLOCK_MONOTONIC`, or of the time line that all files share.
    pub time: u64,
    /// The probe.
    pub definition: Arc<Definition>,
    /// The fields' values, in the order of [`Definition::fields`].
    pub fields: Vec<FieldValue>,
    /// The stack pointer of the call, for probes whose calls may end without an exit.
    pub frame: Option<u64>,
    /// The number of the period in which no site was switched. Entries and exits may be paired
    /// within one period.
    pub generation: u64,
}

/// Hits that a thread made, and that the trace lacks.
///
/// ```
/// fn shown(gap: &probe_trace::Gap) -> String {
///     format!("{} hits were lost in {} ns", gap.lost, gap.end.saturating_sub(gap.begin))
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Gap {
    /// The thread.
    pub thread: ThreadId,
    /// Time of the first lost hit, as [`TraceEvent::time`]; where that is not known, of the last
    /// event before.
    pub begin: u64,
    /// Time of the last lost hit; where that is not known, of the next event.
    pub end: u64,
    /// Number of lost hits.
    pub lost: u64,
}
