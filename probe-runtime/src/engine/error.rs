//! The crate's error type.

use std::ops::Range;
use std::{error, fmt, io};

use crate::engine::sites::{ALIAS_WORKS, Report, TextPolicy};
use probe_lang::SelectorError;
use probe_lang::error::{mistake, shortened};
use probe_lang::selector::did_you_mean;

/// The reason why a request failed. `Debug` prints the same text as `Display`, so `main` may return
/// it.
///
/// ```
/// use probe_runtime::{Error, select};
///
/// match select("no::such::function") {
///     Err(Error::NoMatch { .. }) => {}
///     other => panic!("{other:?}"),
/// }
/// // Prints the selector and the nearest probes.
/// println!("{}", select("no::such::function").unwrap_err());
/// ```
#[non_exhaustive]
pub enum Error {
    /// The selector is malformed.
    Selector(SelectorError),
    /// The selector names no probe of this program.
    NoMatch {
        /// The selector.
        selector: String,
        /// Number of probes in the program.
        probes: usize,
        /// Whether functions of `-finstrument-functions` code may become probes later, when they
        /// are first called.
        discovers: bool,
        /// Similar selectors that match some probes, the likeliest first, each with its number of
        /// probes.
        wider: Vec<(String, usize)>,
        /// Paths of the likeliest probes, best first.
        nearest: Vec<String>,
        /// Objects whose probes have a later version, see
        /// [`unreadable_objects`](crate::losses::unreadable_objects).
        unread: Vec<String>,
    },
    /// The selector names only functions that a block with `#[probe]` has left out.
    Skipped {
        /// The selector.
        selector: String,
        /// Path of each function, and the reason: see
        /// [`ProbeInfo::skipped`](crate::ProbeInfo::skipped).
        skipped: Vec<(String, String)>,
    },
    /// No site could be activated.
    Refused(Box<Report>),
    /// Not every site of the function could be activated, so it was not replaced. Some calls may
    /// have run the replacement during the attempt.
    NotReplaced(Box<Report>),
    /// The function of C can't be replaced.
    #[cfg(feature = "c-values")]
    NotReplaceable {
        /// Its name, as it was given.
        function: String,
        /// The reason, and a remedy.
        problem: String,
    },
    /// The program was built without probes (`--cfg probe_off`, or a target without support), so no
    /// function can be replaced.
    WithoutProbes,
    /// The system does not let text stay writable.
    TextProtected {
        /// Address range of the text.
        text: Range<usize>,
        /// The system's reason.
        error: io::Error,
        /// The text policy to ask for instead, if it was tried and found to work:
        /// [`TextPolicy::Alias`].
        alternative: Option<TextPolicy>,
    },
    /// The consumer needs more counters than are left.
    OutOfCounters {
        /// Number of counters that the consumer needs.
        wanted: usize,
    },
    /// Patching does not work on this machine or in this process:
    /// [`self_test`](crate::patch::self_test()).
    SelfTest {
        /// The instruction that failed: `aligned` or `straddling`.
        path: &'static str,
        /// The failure.
        problem: String,
    },
    /// The dynamic linker can't keep the object loaded that holds this copy of the crate, for
    /// example a plugin. Active sites would jump into it.
    Unpinned {
        /// The object's file.
        object: String,
        /// The dynamic linker's reason.
        reason: String,
    },
    /// The consumer refused the request with an error of its own. The consumers of this crate
    /// return `UnusableBudget` and `NoEvents`; test for them with
    /// [`downcast_ref`](trait@error::Error#method.downcast_ref).
    Consumer(Box<dyn error::Error + Send + Sync>),
    /// The system could not start a thread that the consumer needs.
    Thread(io::Error),
    /// The agent can't be started: [`agent::start`](crate::agent::start).
    #[cfg(feature = "agent")]
    Agent {
        /// The reason, and a remedy.
        problem: String,
    },
    /// A consumer can't be [registered](crate::spec::register).
    Register {
        /// The consumer's name.
        name: &'static str,
        /// The reason why it can't be named, and a remedy.
        problem: String,
    },
    /// A [`Spec`](crate::spec::Spec) is malformed.
    Spec {
        /// The spec's text.
        spec: String,
        /// Byte offset of the mistake.
        at: usize,
        /// The mistake, and the correct form.
        problem: String,
    },
    /// A predicate or an aggregation does not fit the probes: none of them has such a field, or its
    /// type is another one.
    Expression {
        /// The expression's text.
        text: String,
        /// Byte offset of the mistake.
        at: usize,
        /// The mistake, and the fields there are.
        problem: String,
    },
    /// A file of functions for [modules](crate::modules) can't be read, or has a mistake.
    #[cfg(feature = "modules")]
    Module {
        /// The file, the line, and the mistake.
        problem: String,
    },
    /// An environment variable is malformed.
    Environment {
        /// Name of the variable.
        variable: &'static str,
        /// Value of the variable.
        value: String,
        /// Byte offset of the mistake in the value.
        at: usize,
        /// The mistake, and the correct form.
        problem: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selector(error) => fmt::Display::fmt(error, f),
            Self::NoMatch { selector, probes, discovers, wider, nearest, unread } => {
                write!(f, "no probe matches `{}`; ", shortened(selector))?;
                match (wider.as_slice(), nearest.as_slice(), probes) {
                    _ if cfg!(probe_backend = "off") => write!(f, "this program was built without probes"),
                    (_, _, 0) if *discovers => write!(
                        f,
                        "this program has no probes yet: functions of -finstrument-functions code become probes when \
                         they are first called"
                    ),
                    (_, _, 0) => write!(f, "this program has no probes"),
                    ([], [], 1) => write!(f, "this program has one other probe"),
                    ([], [], n) => {
                        write!(f, "this program has {n} others (see `probes()`, or run it with PROBES=list)")
                    }
                    (wider, nearest, _) => did_you_mean(wider, nearest, f),
                }?;
                for object in unread {
                    write!(
                        f,
                        "; {object} has probes of a later version of probe-runtime, which {} can't read: update it",
                        env!("CARGO_PKG_VERSION")
                    )?;
                }
                Ok(())
            }
            Self::Skipped { selector, skipped } => {
                write!(f, "`{}` matches only functions that were left out: ", shortened(selector))?;
                for (at, (path, reason)) in skipped.iter().take(3).enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}`{path}` ({reason})")?;
                }
                if skipped.len() > 3 {
                    write!(f, " and {} more", skipped.len() - 3)?;
                }
                let is_light = |(_, reason): &(String, String)| reason == "inline" || reason == "small";
                f.write_str(if skipped.iter().any(is_light) {
                    "; put `#[probe]` on the function itself, or `all` on its block"
                } else {
                    "; see `ProbeInfo::skipped`"
                })
            }
            Self::Refused(report) => write!(f, "no site could be activated: {report}"),
            Self::NotReplaced(report) => {
                write!(
                    f,
                    "the function can't be replaced, for not all of its sites could be activated: {report}"
                )
            }
            #[cfg(feature = "c-values")]
            Self::NotReplaceable { function, problem } => {
                write!(f, "`{}` can't be replaced: {problem}", shortened(function))
            }
            Self::WithoutProbes => {
                f.write_str("the function can't be replaced; this program was built without probes")
            }
            Self::TextProtected { text, error, alternative } => {
                let (start, end) = (text.start, text.end);
                write!(f, "text at {start:#x}..{end:#x} can't be kept writable: {error}; ")?;
                match alternative {
                    Some(_) => f.write_str(ALIAS_WORKS),
                    None => f.write_str("allow the program to change the protection of its code"),
                }
            }
            Self::OutOfCounters { wanted } => {
                write!(f, "there are not {wanted} counters left; detach something, or select fewer probes")
            }
            Self::SelfTest { path, problem } => {
                write!(f, "patching code does not work here: {path} instruction: {problem}")
            }
            Self::Unpinned { object, reason } => write!(
                f,
                "{object} holds this copy of probe-runtime and can't be kept loaded: {reason}; \
                 attach from an object that is never unloaded"
            ),
            Self::Consumer(error) => fmt::Display::fmt(error, f),
            Self::Thread(error) => write!(f, "the consumer's thread can't be started: {error}"),
            #[cfg(feature = "agent")]
            Self::Agent { problem } => write!(f, "other processes can't ask this program: {problem}"),
            Self::Register { name, problem } => {
                write!(f, "the consumer `{name}` can't be registered: {problem}")
            }
            Self::Spec { spec, at, problem } => mistake("malformed spec", spec, *at, problem, f),
            Self::Expression { text, at, problem } => {
                mistake("this does not fit the probes", text, *at, problem, f)
            }
            #[cfg(feature = "modules")]
            Self::Module { problem } => f.write_str(problem),
            Self::Environment { variable, value, at, problem } => mistake(variable, value, *at, problem, f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Selector(error) => Some(error),
            Self::TextProtected { error, .. } => Some(error),
            Self::Consumer(error) => error.source(),
            _ => None,
        }
    }
}

impl From<SelectorError> for Error {
    fn from(error: SelectorError) -> Self {
        Self::Selector(error)
    }
}
