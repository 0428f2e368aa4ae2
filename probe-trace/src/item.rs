//! The items of a trace, in the order of time: threads, hits and losses; the probes that were hit,
//! and the values of their fields.

use std::fmt;
use std::sync::Arc;

use probe_core::abi::Kind;

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

/// An entry of a trace. Items come in the order of their times, those of one thread in the order in
/// which they happened.
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
    /// A time in which a thread was off the processor.
    Off(Off),
    /// Such times of a thread, up to its next hit, are not known.
    OffLost(ThreadId),
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

/// A time in which a thread was off the processor, as the kernel has recorded it. Traces have it
/// where they were asked for it; a thread's other time between its hits is on a processor, unless
/// the times [are polled](Self::is_polled).
///
/// ```
/// fn shown(off: &probe_trace::Off) -> String {
///     let state = if off.is_ready { "ready" } else { "blocked" };
///     match off.end {
///         Some(end) => format!("{state} for {} ns", end - off.begin),
///         None => format!("{state} since {}", off.begin),
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Off {
    /// The thread.
    pub thread: ThreadId,
    /// Nanoseconds, as [`TraceEvent::time`].
    pub begin: u64,
    /// The same of its end; `None` if the thread was still off when the trace ended.
    pub end: Option<u64>,
    /// Whether the thread could have continued, but other threads had the processor. If not, it
    /// slept, or waited for another thread, a file or a device.
    pub is_ready: bool,
    /// Whether the thread has ended.
    pub has_ended: bool,
    /// Whether it lasts from one look into `/proc` to another, and somewhat longer. Shorter times,
    /// and those of ready threads, are not known then.
    pub is_polled: bool,
    /// The numbers of the processors before and after; 0 where they are not known, as of a thread
    /// that was about to end.
    pub processors: [u32; 2],
    /// The system call in which `/proc` showed the thread in this time; `None` if nobody looked in
    /// this time, as is usual for short ones.
    pub call: Option<SystemCall>,
}

/// A system call in which a thread waits.
///
/// ```
/// fn is_a_lock(off: &probe_trace::Off) -> bool {
///     off.call.as_ref().is_some_and(|call| call.name == "futex")
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SystemCall {
    /// The kernel's name of it, its number as text if the writer does not know its name, or
    /// `no system call` for a thread that waits for a page of memory, and the like.
    pub name: String,
    /// Its first argument: the descriptor for `read`, the address for `futex`.
    pub argument: u64,
}

/// The name for a thread that waits elsewhere.
const NO_CALL: &str = "no system call";

impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, argument } = self;
        if name == NO_CALL {
            return f.write_str(name);
        }
        // Descriptors and flags are small, addresses are not.
        if *argument < 0x1_0000 {
            write!(f, "{name}({argument})")
        } else {
            write!(f, "{name}({argument:#x})")
        }
    }
}

/// One probe of a trace.
///
/// ```
/// fn place(probe: &probe_trace::Definition) -> String {
///     format!("{} at {}:{}", probe.path, probe.file, probe.line)
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Definition {
    /// The probe's number in its process.
    pub probe: u32,
    /// The kind; `None` if this reader does not know it.
    pub kind: Option<Kind>,
    /// Whether calls of the function may end without an exit (C code).
    pub may_skip_exit: bool,
    /// Whether all hits of a call have one stack pointer, which no other open call has.
    pub has_frame: bool,
    /// Whether the first field tells futures of this probe apart.
    pub is_future: bool,
    /// The path, such as `app::net::handle`. The entry and the exits of a function have one path.
    pub path: String,
    /// The source file.
    pub file: String,
    /// The line in the source file.
    pub line: u32,
    /// Names of the fields.
    pub fields: Vec<String>,
}

/// The names of a stack's calls, from the innermost.
pub(crate) type Stack = Arc<[Arc<str>]>;

/// One field's value. Text is cut where the writer's limit was; `cut` is then the number of bytes
/// that are missing.
///
/// ```
/// use probe_trace::FieldValue;
/// let value = FieldValue::Str { text: "GET /ind".to_owned(), cut: 7 };
/// assert_eq!(value.to_string(), "GET /ind… (7 bytes more)");
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum FieldValue {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer of 128 bits.
    U128(u128),
    /// A signed integer of 128 bits.
    I128(i128),
    /// A floating-point number.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// A Unicode scalar value.
    Char(char),
    /// Text. Bytes that are not UTF-8 are replaced.
    Str {
        /// The stored part.
        text: String,
        /// Bytes that were cut off.
        cut: u32,
    },
    /// Text that the value's own code wrote.
    Formatted {
        /// The stored part.
        text: String,
        /// Bytes that were cut off.
        cut: u32,
    },
    /// Bytes.
    Bytes {
        /// The stored part.
        bytes: Vec<u8>,
        /// Bytes that were cut off.
        cut: u32,
    },
    /// A value that can't be shown; the name of its type.
    Opaque(String),
    /// No value: the result of a function that was left by a panic.
    Absent,
    /// No value: a field of the hit panicked while it was evaluated.
    Failed,
    /// A value of a type that the writer or this reader does not know.
    Unknown,
    /// A value for which the record had no room.
    LeftOut,
    /// No value: a string of C whose bytes can't be read.
    Unreadable,
    /// The names of the functions whose calls led to the hit, from the innermost. `…` stands for
    /// further ones, `(unknown)` for those that nobody knows.
    Stack(Stack),
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = match self {
            Self::U64(value) => return value.fmt(f),
            Self::I64(value) => return value.fmt(f),
            Self::U128(value) => return value.fmt(f),
            Self::I128(value) => return value.fmt(f),
            Self::F64(value) => return value.fmt(f),
            Self::Bool(value) => return value.fmt(f),
            Self::Char(value) => return value.fmt(f),
            Self::Str { text, cut } | Self::Formatted { text, cut } => {
                f.write_str(text)?;
                *cut
            }
            Self::Bytes { bytes, cut } => {
                bytes.escape_ascii().fmt(f)?;
                *cut
            }
            Self::Opaque(name) => return write!(f, "({name})"),
            Self::Absent => return f.write_str("(absent)"),
            Self::Failed => return f.write_str("(failed)"),
            Self::Unknown => return f.write_str("(unknown)"),
            Self::LeftOut => return f.write_str("(left out)"),
            Self::Unreadable => return f.write_str("(unreadable)"),
            Self::Stack(calls) => return show_stack(calls, f),
        };
        if cut == 0 { Ok(()) } else { write!(f, "… ({cut} bytes more)") }
    }
}

/// Shows a stack from the outermost call, with a `;` between calls. In a name, it is a `:`.
fn show_stack(calls: &[Arc<str>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, call) in calls.iter().rev().enumerate() {
        let separator = if at == 0 { "" } else { ";" };
        write!(f, "{separator}{}", call.replace(';', ":"))?;
    }
    Ok(())
}
