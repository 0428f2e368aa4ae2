//! The reasons why nothing can be called in a process.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why nothing was called, or why the end of a call is not known.
///
/// The program itself is as it was. The memory of calls may have been mapped by then, and stays.
/// With [`TimedOut`](Self::TimedOut), and [`System`](Self::System) during a call, the call was
/// asked for, and may be made.
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
    /// No thread was seen where it is safe to call something.
    NoMoment {
        /// The process.
        pid: u32,
        /// The time for which it was looked at.
        within: Duration,
        /// A line about each of some threads.
        threads: Vec<String>,
    },
    /// No thread may ever be asked: the filters of system calls (seccomp) of all of them refuse
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
        /// The other process and its name, if the system tells.
        holder: Option<(u32, String)>,
    },
    /// A call was asked for, and has not returned: this one, or one whose caller has died.
    TimedOut {
        /// The process.
        pid: u32,
        /// The thread that was told to make it.
        thread: u32,
        /// The time for which its end was waited for.
        within: Duration,
    },
    /// The system refuses a step.
    System {
        /// The process.
        pid: u32,
        /// The step.
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
            Self::NoMoment { pid, within, threads } => {
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
