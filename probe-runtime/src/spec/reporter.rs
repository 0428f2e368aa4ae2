//! The trait of consumers that a text may name. This crate's consumers are in the
//! [table](super::table) by the same trait as a program's own.

use super::format::Format;
use crate::control::{Attachment, Consumer};
#[cfg(feature = "metrics")]
use crate::metrics::Metrics;
use crate::report::notes;
use crate::syntax::{ParseError, Setting};

/// A [`Consumer`] that `PROBES` can name, and that reports. [`register`](crate::register) makes it
/// available beside those of this crate.
///
/// ```
/// use std::sync::Mutex;
///
/// use probe_runtime::{
///     Attachment, Consumer, Event, Format, ParseError, Rendered, Reporter, Setting, attach_spec, probe, register,
/// };
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
///         first.hits.lock().unwrap().join("\n").into()
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
    /// the ending of another format.
    const FORMATS: &'static [Format] = &[Format::Text];

    /// Makes a consumer from the options after its name, in the order of the text. Each option's
    /// name is one of [`OPTIONS`](Self::OPTIONS). It may be called more than once for a text.
    ///
    /// # Errors
    /// An error for an option that can't be read. [`Setting::invalid_value`] and
    /// [`Setting::invalid_name`] make an error that points at the option.
    fn from_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError>;

    /// Returns the current report in one of its formats.
    fn report(attachment: &Attachment<Self>, format: Format) -> Rendered;

    /// Returns the report as text for a terminal with this many columns.
    fn report_within(attachment: &Attachment<Self>, columns: usize) -> String {
        let _ = columns;
        Self::report(attachment, Format::Text).content
    }

    /// Returns notes that complete the report: a consumer that failed, hits that were not
    /// delivered, sites that were refused. They are written to stderr for formats other than text.
    /// A text report must itself end with them.
    fn notes(attachment: &Attachment<Self>) -> Vec<String> {
        notes(attachment.untyped())
    }

    /// Adds the measured figures to the report in [`Format::Prometheus`]. A consumer with that
    /// format is most likely [`Measured`](crate::metrics::Measured), and calls its method.
    #[cfg(feature = "metrics")]
    fn measure(attachment: &Attachment<Self>, into: &mut Metrics) {
        let _ = (attachment, into);
    }
}

/// A report in one [`Format`]. A `String` converts into a report from which nothing is missing.
///
/// ```
/// use probe_runtime::Rendered;
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
