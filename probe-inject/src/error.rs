//! The errors of this crate.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

/// The reason why nothing was called, or why the result of a call is unknown.
///
/// The program itself has not changed. The memory for calls may have been mapped, and stays. After
/// [`TimedOut`](Self::TimedOut), and [`System`](Self::System) during a call, a thread may still
/// make the call.
///
/// ```
/// use probe_inject::InjectError;
///
/// let error = InjectError::Traced { pid: 7, tracer: 12, name: "strace".to_owned() };
/// assert_eq!(error.to_string(), "process 7 is traced by process 12 (strace) already, and can have one tracer; end that first");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum InjectError {
    /// There is no such process.
    NoProcess(u32),
    /// The system does not let this process trace that one.
    NotAllowed {
        /// The process.
        pid: u32,
        /// The likely reason, and what to do.
        reason: String,
    },
    /// Another process traces it: a debugger, `strace`.
    Traced {
        /// The process.
        pid: u32,
        /// Its tracer.
        tracer: u32,
        /// The tracer's name.
        name: String,
    },
    /// Nothing can be called in a process of its kind, or in its state.
    Unable {
        /// The process.
        pid: u32,
        /// The reason, as the rest of a sentence about the process.
        problem: String,
    },
    /// No thread was seen at a safe point.
    NoSafePoint {
        /// The process.
        pid: u32,
        /// The length of the search.
        within: Duration,
        /// A line about each of some threads.
        threads: Vec<String>,
    },
    /// No thread can ever make a call: the filters of system calls (seccomp) of all of them refuse
    /// that.
    Refused {
        /// The process.
        pid: u32,
        /// A line about each of some threads.
        threads: Vec<String>,
    },
    /// Another process has it open, to call something there or to stop its threads.
    Busy {
        /// The process.
        pid: u32,
        /// The other process and its name, if the system tells them.
        holder: Option<(u32, String)>,
    },
    /// A call has not returned: this one, or an earlier one whose caller has died.
    TimedOut {
        /// The process.
        pid: u32,
        /// The thread that makes it.
        thread: u32,
        /// The length of the wait for its end.
        within: Duration,
    },
    /// The system refuses a step.
    System {
        /// The process.
        pid: u32,
        /// The failed step, as a sentence.
        step: &'static str,
        /// The system's reason.
        error: io::Error,
    },
}

impl fmt::Display for InjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess(pid) => write!(f, "there is no process {pid}"),
            Self::NotAllowed { pid, reason } => write!(f, "process {pid} can't be traced: {reason}"),
            Self::Traced { pid, tracer, name } => write!(
                f,
                "process {pid} is traced by process {tracer} ({name}) already, and can have one tracer; end that first"
            ),
            Self::Unable { pid, problem } => write!(f, "process {pid} {problem}"),
            Self::NoSafePoint { pid, within, threads } => {
                write!(
                    f,
                    "no thread of process {pid} was in a place where it can be asked, for {within:?}; try again"
                )?;
                threads.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::Refused { pid, threads } => {
                write!(f, "no thread of process {pid} can be asked")?;
                threads.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::Busy { pid, holder } => {
                match holder {
                    Some((holder, name)) => write!(f, "process {holder} ({name})")?,
                    None => f.write_str("another process")?,
                }
                write!(
                    f,
                    " attaches to process {pid}, or counts there from outside; try again when it has ended"
                )
            }
            Self::TimedOut { pid, thread, within } => write!(
                f,
                "thread {thread} of process {pid} was asked, and has not finished for {within:?}: it waits for another \
                 thread, or gets no time. It goes on by itself when it has; try again then"
            ),
            Self::System { pid, step, error } => write!(f, "process {pid}: {step}: {error}"),
        }
    }
}

impl Error for InjectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}
