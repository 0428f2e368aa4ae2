//! A spec as a value: what `PROBES` does, for programs.

use std::any::Any;
use std::env;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Index;
use std::path::Path;
use std::process;
use std::slice;
use std::str::FromStr;
use std::sync::Arc;

use super::Format;
use super::attach::{AttachedText, ReportFiles, Triggers, attach_ast, own_file};
#[cfg(probe_agent)]
use super::builder::Opened;
use super::builder::OutputPolicy;
#[cfg(probe_agent)]
use super::parse::parse_client_spec;
use super::parse::{SpecAst, parse};
use super::reported::Reported;
use super::table::ConsumerRow;
use crate::engine::control::{Attachment, Consumer};
use crate::engine::error::Error;
use crate::engine::sites::{UnmatchedTerm, unmatched_lines};
use crate::report::program;
use probe_lang::ParseError;
use probe_lang::selector::{MAX_LEN, too_long};

/// Selectors and their consumers, as in the environment variable `PROBES`: `web::**=latency,
/// db::**=count(text=alias)` (see [`init_from_env`](crate::init_from_env)). A spec parses from
/// text, prints as text that parses to the same spec, and attaches. Triggers are part of it, as in
/// `when latency(db::query) > 5ms then snapshot, **=trace(flight)`; they are printed last. Their
/// snapshots are `PROGRAM-PROCESS-NUMBER-CONSUMER-snapshot-1.pftrace` in the working directory.
///
/// The selectors are [persistent](crate::ProbeSet::persistent), but for those of triggers: they may
/// match nothing yet, and probes that appear later join.
///
/// ```
/// use probe_runtime::spec::Spec;
/// use probe_runtime::{Count, probe};
///
/// #[probe]
/// fn respec() {}
/// respec();
///
/// let spec: Spec = "**::respec kind=entry = count".parse()?;
/// assert_eq!(spec.to_string(), "**::respec kind=entry=count");
/// let attached = spec.attach()?;
/// respec();
/// assert_eq!(attached[0].attachment::<Count>().unwrap().total(), 1);
/// println!("{attached}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Spec(Arc<SpecAst>);

impl FromStr for Spec {
    type Err = Error;

    /// # Errors
    /// [`Error::Spec`] if the text is malformed, with the place of the mistake.
    fn from_str(text: &str) -> Result<Self, Error> {
        let spec = Self(Arc::new(parse(text).map_err(|mistake| malformed(text, mistake))?));
        // The printed form may be longer than the text, and too long to parse again.
        match too_long(&spec.to_string()) {
            Some(_) => {
                let problem = format!("at most {MAX_LEN} bytes are read, and its printed form has more");
                Err(malformed(text, ParseError::new(problem)))
            }
            None => Ok(spec),
        }
    }
}

fn malformed(text: &str, ParseError { at, problem }: ParseError) -> Error {
    Error::Spec { spec: text.to_owned(), at, problem }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Spec {}

impl Hash for Spec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_string().hash(state);
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spec").field(&self.to_string()).finish()
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Spec {
    /// Attaches each consumer to its probes, in the order of the text.
    ///
    /// # Errors
    /// The error of [`select`](crate::select) or [`ProbeSet::attach`](crate::ProbeSet::attach) for
    /// the first consumer that can't be attached. Nothing stays attached then.
    pub fn attach(&self) -> Result<SpecAttachments, Error> {
        attach(&self.0, &|_| OutputPolicy::Anywhere)
    }
}

/// The spec of a client of this process.
#[cfg(probe_agent)]
pub(crate) struct ClientSpec<'a> {
    text: &'a str,
    spec: SpecAst,
}

#[cfg(probe_agent)]
impl<'a> ClientSpec<'a> {
    /// # Errors
    /// [`Error::Spec`] if the text is malformed, or has a trigger, which would write files, or a
    /// consumer that is not for clients.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Error> {
        let spec = parse_client_spec(text).map_err(|mistake| malformed(text, mistake))?;
        Ok(Self { text, spec })
    }

    /// Returns the number of consumers.
    pub(crate) fn len(&self) -> usize {
        self.spec.items.len()
    }

    /// Attaches the consumers, which forked children leave behind. The one consumer that writes
    /// while it runs writes to the file that the client has opened.
    ///
    /// # Errors
    /// Those of [`Spec::attach`].
    pub(crate) fn attach(&self, opened: Option<&Opened>) -> Result<SpecAttachments, Error> {
        if opened.is_some() && self.len() != 1 {
            let problem = "one file is for one consumer; attach the others by themselves".to_owned();
            return Err(malformed(self.text, ParseError { at: 0, problem }));
        }
        attach(&self.spec, &|_| OutputPolicy::Only(opened.cloned()))
    }
}

fn attach(spec: &SpecAst, writes: &dyn Fn(&Path) -> OutputPolicy<'_>) -> Result<SpecAttachments, Error> {
    let folder = env::current_dir().unwrap_or_default();
    let names = spec.items.iter().zip(1..).map(|(it, number)| (number, it.consumer.row.name));
    let file = |(number, name)| folder.join(own_file(&program(), process::id(), number, name));
    let reports = ReportFiles { files: names.map(file).collect(), format: Format::Text };
    let attached = attach_ast(spec, &reports, writes, &mut |_, error| Err(error))?;
    let AttachedText { consumers, triggers, unmatched } = attached;
    let attached = consumers.into_iter().map(|(at, listening)| {
        let item = &spec.items[at];
        SpecAttachment {
            selector: item.selector.text().to_owned(),
            consumer: item.consumer.row,
            reported: listening.reported,
            // Notes on triggers come with the recorder, whose snapshots they take.
            unmatched: if item.consumer.is_recorder { unmatched.clone() } else { Vec::new() },
        }
    });
    let attachments = attached.collect();
    Ok(SpecAttachments { _triggers: triggers, attachments })
}

/// Attaches the consumers that a text names, as `PROBES` would: `web::**=latency, db::**=count`.
/// The same as parsing a [`Spec`] and attaching it.
///
/// # Errors
/// [`Error::Spec`] if the text is malformed, and the errors of [`Spec::attach`].
///
/// ```
/// #[probe_runtime::probe]
/// fn specified() {}
/// specified();
/// let attached = probe_runtime::spec::attach_spec("**::specified=count")?;
/// specified();
/// assert_eq!((attached.len(), attached[0].consumer()), (1, "count"));
/// println!("{}", attached[0].to_json());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn attach_spec(text: &str) -> Result<SpecAttachments, Error> {
    text.parse::<Spec>()?.attach()
}

/// The attachments of a [`Spec`], in the order of the text, without its triggers. Dropping them
/// detaches. Prints as all reports, one after the other.
///
/// ```
/// # #[probe_runtime::probe]
/// # fn both() {}
/// # both();
/// use probe_runtime::spec::attach_spec;
///
/// let attached = attach_spec("**::both kind=entry=count, **::both kind=exit=count")?;
/// for one in &attached {
///     println!("{}: {}", one.selector(), one.consumer());
/// }
/// assert_eq!(attached.len(), 2);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[must_use = "dropping them makes their probes latent"]
#[derive(Debug)]
pub struct SpecAttachments {
    /// Dropped first: snapshots under way are written.
    _triggers: Triggers,
    attachments: Vec<SpecAttachment>,
}

impl SpecAttachments {
    /// Iterates over the attachments.
    pub fn iter(&self) -> slice::Iter<'_, SpecAttachment> {
        self.attachments.iter()
    }

    /// Returns the number of attachments.
    pub fn len(&self) -> usize {
        self.attachments.len()
    }

    /// Returns whether there are no attachments, which never happens after [`Spec::attach`].
    pub fn is_empty(&self) -> bool {
        self.attachments.is_empty()
    }
}

impl<'a> IntoIterator for &'a SpecAttachments {
    type Item = &'a SpecAttachment;
    type IntoIter = slice::Iter<'a, SpecAttachment>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Index<usize> for SpecAttachments {
    type Output = SpecAttachment;

    fn index(&self, at: usize) -> &SpecAttachment {
        &self.attachments[at]
    }
}

impl fmt::Display for SpecAttachments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, one) in self.iter().enumerate() {
            if at != 0 {
                writeln!(f)?;
            }
            write!(f, "{one}")?;
        }
        Ok(())
    }
}

/// One consumer of a [`Spec`], attached. Prints as its report.
///
/// ```
/// #[probe_runtime::probe]
/// fn reported() {}
/// reported();
/// let attached = probe_runtime::spec::attach_spec("**::reported=count")?;
/// println!("{} of {}:\n{}", attached[0].consumer(), attached[0].selector(), attached[0]);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub struct SpecAttachment {
    selector: String,
    consumer: &'static ConsumerRow,
    reported: Arc<dyn Reported>,
    /// Terms of the triggers' selectors that match no probe.
    unmatched: Vec<UnmatchedTerm>,
}

impl SpecAttachment {
    /// Returns the selector, as the text has it.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// Returns the consumer's name, as the text has it: `count`.
    pub fn consumer(&self) -> &str {
        self.consumer.name
    }

    /// Returns the formats of its reports.
    #[cfg(probe_agent)]
    pub(crate) fn formats(&self) -> &'static [Format] {
        self.consumer.formats
    }

    /// Returns the attachment, whatever its consumer.
    #[cfg(probe_agent)]
    pub(crate) fn reported(&self) -> &dyn Reported {
        &*self.reported
    }

    /// Returns the attachment if `C` is its consumer's type: [`Count`](crate::Count) for `count`.
    pub fn attachment<C: Consumer>(&self) -> Option<&Attachment<C>> {
        let any: &dyn Any = &*self.reported;
        any.downcast_ref()
    }

    /// Returns notes that complete the report: terms of the selector that match no probe, as
    /// `PROBES` prints them on stderr; a consumer that failed, hits that were not delivered, sites
    /// that were refused or changed. Empty if there is nothing to note. The report as text ends
    /// with them, and JSON has them as `notes`; CSV has no place for them.
    ///
    /// ```
    /// #[probe_runtime::probe]
    /// fn dispatch() {}
    /// dispatch();
    /// let attached = probe_runtime::spec::attach_spec("**::dispatch, **::dispach=count")?;
    /// assert!(attached[0].notes()[0].contains("**::dispach"));
    /// attached[0].notes().iter().for_each(|note| eprintln!("{note}"));
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn notes(&self) -> Vec<String> {
        let notes = self.reported.notes();
        self.unmatched_besides(&notes.join("\n")).chain(notes.iter().cloned()).collect()
    }

    /// Returns a line for each term that matches no probe, unless the report of refused sites in
    /// `said` already names it.
    fn unmatched_besides(&self, said: &str) -> impl Iterator<Item = String> {
        unmatched_lines(&self.unmatched).filter(move |line| !said.contains(line.as_str()))
    }

    /// Returns the report as JSON, see the chapter on reports. A consumer of the program without
    /// that format reports as text.
    pub fn to_json(&self) -> String {
        self.reported.report(Format::Json).content
    }

    /// Returns the rows of the report as comma-separated values (RFC 4180). A consumer of the
    /// program without that format reports as text.
    pub fn to_csv(&self) -> String {
        self.reported.report(Format::Csv).content
    }
}

impl fmt::Display for SpecAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.reported.report(Format::Text).content;
        f.write_str(&text)?;
        self.unmatched_besides(&text).try_for_each(|line| write!(f, "\n{line}"))
    }
}

impl fmt::Debug for SpecAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpecAttachment")
            .field("selector", &self.selector)
            .field("consumer", &self.consumer.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        let spec: Spec = text.parse().unwrap();
        let written = spec.to_string();
        assert_eq!(written.parse::<Spec>().unwrap(), spec, "{text}");
        written
    }

    #[test]
    fn a_spec_prints_as_its_text() {
        for (text, written) in [
            ("a::*=count", "a::*=count"),
            (" a , !b = count ,c=count( text = alias )", "a , !b=count, c=count( text = alias )"),
            ("geo::operator===count", "geo::operator===count"),
            ("geo::operator= = count", "geo::operator==count"),
            (r"F<a,b=c>::d=count, x\,y=count", r"F<a,b=c>::d=count, x\,y=count"),
        ] {
            assert_eq!(again(text), written);
        }
    }

    #[test]
    fn a_mistake_is_pointed_at() {
        let error = "a=count, b:c=count".parse::<Spec>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "malformed spec, column 11: `:` can't be part of a path\n  a=count, b:c=count\n            ^"
        );
    }

    #[test]
    fn a_spec_whose_printed_form_is_too_long_is_refused() {
        let fits = "a=count,".repeat(MAX_LEN / 9);
        assert!(fits.parse::<Spec>().is_ok());
        let error = "a=count,".repeat(MAX_LEN / 8).parse::<Spec>().unwrap_err();
        assert!(error.to_string().contains("at most 65536 bytes are read"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn the_printed_form_parses_to_the_same_spec(text in r"[ab:*!=, ()\\<>]{0,24}=count") {
            if let Ok(spec) = text.parse::<Spec>() {
                proptest::prop_assert_eq!(spec.to_string().parse::<Spec>().ok(), Some(spec));
            }
        }
    }
}
