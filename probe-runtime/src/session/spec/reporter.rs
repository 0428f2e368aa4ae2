//! The trait of consumers that a text may name. This crate's consumers are in the
//! [table](super::table) by the same trait as a program's own.

use std::io::{self, Write};
use std::path::Path;

use super::Format;
use crate::engine::control::{Attachment, Consumer};
use crate::engine::registry::ProbeId;
#[cfg(feature = "metrics")]
use crate::report::metrics::Metrics;
use crate::report::{ReportSource, notes};
use probe_lang::{ParseError, Setting};

/// A [`Consumer`] that `PROBES` can name, and that reports. [`register`](crate::spec::register)
/// makes it available beside those of this crate.
///
/// ```
/// use std::sync::Mutex;
///
/// use probe_runtime::spec::{Format, ParseError, Rendered, Reporter, Setting, attach_spec, register};
/// use probe_runtime::{Attachment, Consumer, Event, probe};
///
/// /// Keeps the first hits: `PROBES='db::**=first(limit=10)'`.
/// struct First {
///     limit: usize,
///     hits: Mutex<Vec<String>>,
/// }
///
/// impl Consumer for First {
///     fn hit(&self, event: &Event<'_>) {
///         let mut hits = self.hits.lock().unwrap();
///         if hits.len() < self.limit {
///             hits.push(event.path().to_owned());
///         }
///     }
/// }
///
/// impl Reporter for First {
///     const NAME: &'static str = "first";
///     const ABOUT: &'static str = "the probes that were hit first";
///     const OPTIONS: &'static [&'static str] = &["limit"];
///     const EXAMPLE: &'static str = "limit=10";
///
///     fn from_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
///         let limit = match settings.last() {
///             Some(it) => it.value().parse().map_err(|_| it.invalid_value("write a number of hits"))?,
///             None => 10,
///         };
///         Ok(Self { limit, hits: Mutex::default() })
///     }
///
///     fn report(first: &Attachment<Self>, _format: Format) -> Rendered {
///         // A thread may hold the lock in `hit`; after a fork, that thread is not in the child.
///         let hits = first.hits.try_lock().map_or_else(|_| Vec::new(), |hits| hits.clone());
///         hits.join("\n").into()
///     }
/// }
///
/// #[probe]
/// fn query() {}
///
/// register::<First>()?;
/// let attached = attach_spec("**::query=first(limit=1)")?;
/// query();
/// assert!(attached[0].to_string().ends_with("::query"));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
///
/// # Rendering
/// With `PROBES`, a report is rendered on the thread that drops the guard, on the thread that calls
/// `exit`, and on a thread of this crate for signals and intervals, also on several of them at
/// once. This crate holds no lock meanwhile. Yet `exit` may come while its thread, or another one,
/// holds a lock of the program. A forked child also reports, and a thread of its parent may have
/// held a lock when it forked. So a report takes locks by `try_lock`, or reads atomics. It must
/// not call `exit`. A panic leaves out this report, and no other.
pub trait Reporter: Consumer + Sized {
    /// Its name in `PROBES`: small letters, digits, `-` and `_`.
    const NAME: &'static str;

    /// A short description of the report, for `PROBES=help`.
    const ABOUT: &'static str;

    /// The names of its options. Every consumer has the option `text`, which is not passed on.
    const OPTIONS: &'static [&'static str] = &[];

    /// An example of its options, for `PROBES=help`: `limit=10`.
    const EXAMPLE: &'static str = "";

    /// The formats of its reports, among them [`Format::Text`]. `PROBES_OUT` refuses a file with
    /// the ending of another format. [`Format::Prometheus`] is among them if there is a `MEASURE`.
    const FORMATS: &'static [Format] = &[Format::Text];

    /// Formats whose reports may be too large for memory, or are no text. [`write`](Self::write)
    /// makes them, where there is a file.
    const STREAMED: &'static [Format] = &[];

    /// Whether its text reports end with the [`notes`](Self::notes). If not, they are added.
    const TEXT_HAS_NOTES: bool = false;

    /// Whether clients of the [agent](crate::agent) may attach it, and choose its options. They may
    /// be other programs of the same user, with fewer rights than this one. An option must not let
    /// them do more than this program means to allow: name a file to be written, run a command.
    const FOR_CLIENTS: bool = false;

    /// Adds the measured figures to a report in [`Format::Prometheus`]:
    /// `Some(<Self as Measured>::measure)`.
    #[cfg(feature = "metrics")]
    const MEASURE: Option<fn(&Attachment<Self>, &mut Metrics)> = None;

    /// Makes a consumer from the options after its name, in the order of the text. Each option's
    /// name is one of [`OPTIONS`](Self::OPTIONS). It may be called more than once for a text.
    ///
    /// # Errors
    /// An error for an option that can't be read. [`Setting::invalid_value`] and
    /// [`Setting::invalid_name`] make an error that points at the option, [`ParseError::new`] one
    /// about options that are missing or contradict each other.
    fn from_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError>;

    /// Tells a consumer, before it is attached, the file of its report. A consumer that writes a
    /// file while the program runs puts it beside that one.
    fn follow(&mut self, report: &Path) {
        let _ = report;
    }

    /// Writes the current report, in one of the formats that are [`STREAMED`](Self::STREAMED).
    /// Returns notes on missing parts, a line each. A report that writes nothing leaves the file as
    /// it is.
    ///
    /// # Errors
    /// If the report can't be made or written. There is no file then.
    fn write(attachment: &Attachment<Self>, format: Format, out: &mut dyn Write) -> io::Result<Vec<String>> {
        let Rendered { content, missing } = Self::report(attachment, format);
        out.write_all(content.as_bytes())?;
        Ok(missing)
    }

    /// Returns the current report, in one of its [`FORMATS`](Self::FORMATS) other than
    /// [`Format::Prometheus`].
    fn report(attachment: &Attachment<Self>, format: Format) -> Rendered;

    /// Returns the values of a report of this crate's consumers, without the functions that have
    /// none of these probes; an empty slice is for all. Other crates can't name its type.
    /// What [Rendering](#rendering) says holds for it, too.
    #[doc(hidden)]
    fn source(attachment: &Attachment<Self>, only: &[ProbeId]) -> Option<Box<dyn ReportSource>> {
        let _ = (attachment, only);
        None
    }

    /// Returns the report as text for a terminal with this many columns.
    fn report_within(attachment: &Attachment<Self>, columns: usize) -> Rendered {
        let _ = columns;
        Self::report(attachment, Format::Text)
    }

    /// Returns notes that complete the report: a consumer that failed, hits that were not
    /// delivered, sites that were refused. They are written to stderr for formats other than text.
    fn notes(attachment: &Attachment<Self>) -> Vec<String> {
        notes(attachment.untyped())
    }
}

/// A report in one [`Format`]. A `String` converts into a report from which nothing is missing.
///
/// ```
/// use probe_runtime::spec::Rendered;
/// let mut rendered = Rendered::from("hits\n7\n".to_owned());
/// rendered.missing.push("2 calls were not measured".to_owned());
/// ```
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Rendered {
    /// Content of the file.
    pub content: String,
    /// Notes on missing figures, a line each, if the format has no place for them. They are written
    /// to stderr.
    pub missing: Vec<String>,
}

impl From<String> for Rendered {
    fn from(content: String) -> Self {
        Self { content, missing: Vec::new() }
    }
}
