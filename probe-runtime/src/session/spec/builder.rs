//! Consumers of a spec, before they are attached; and the files that they may write besides their
//! reports.
//!
//! A builder makes its consumer when the spec is parsed, which checks its options, and again each
//! time that the spec is attached anew.

use std::any::Any;
use std::fmt;
#[cfg(probe_agent)]
use std::fs::File;
use std::mem;
use std::path::Path;
#[cfg(probe_agent)]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::parse::unknown;
use super::reported::Reported;
use super::reporter::Reporter;
use super::table::{AGGREGATIONS, ConsumerRow};
#[cfg(probe_agent)]
use crate::consumers::Count;
#[cfg(feature = "trace")]
use crate::consumers::Trace;
use crate::consumers::{Aggregate, Memory};
use crate::engine::control::ProbeSet;
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;
use crate::engine::sites::TextPolicy;
use probe_lang::aggregation::{Aggregation, Ends};
use probe_lang::expression::Predicate;
use probe_lang::spec::ConsumerText;
use probe_lang::{ParseError, Setting};

/// A consumer of a spec. Prints as it was written.
pub(crate) struct ConsumerBuilder {
    pub(crate) row: &'static ConsumerRow,
    text: String,
    options: Option<String>,
    aggregation: Option<Aggregation>,
    /// Whether triggers may take snapshots of it.
    pub(super) is_recorder: bool,
    /// The reason why a client may not attach it without a file.
    #[cfg(probe_agent)]
    pub(crate) confined: Option<String>,
    /// The consumer, until it is attached for the first time.
    built: Mutex<Option<Built>>,
}

/// A consumer that is ready to be attached.
pub(super) struct Built {
    pub(super) attach: Attach,
    pub(super) text: TextPolicy,
    is_recorder: bool,
    #[cfg(probe_agent)]
    confined: Result<(), Error>,
}

impl ConsumerBuilder {
    /// Builds a consumer from its text, if clients or whoever else wrote it may have it.
    pub(super) fn new(
        consumer: &ConsumerText<'_>,
        is_allowed: fn(&ConsumerRow) -> bool,
    ) -> Result<Self, ParseError> {
        let name = consumer.name;
        let named = || match &consumer.aggregation {
            Some(_) => AGGREGATIONS.iter().find(|row| row.name == name),
            None => ConsumerRow::named(name),
        };
        let row = named().ok_or_else(|| ParseError::new(unknown(name)))?;
        if !is_allowed(row) {
            return Err(ParseError::new(format!(
                "`{name}` is not for clients; its program may allow it, by `FOR_CLIENTS` in its `Reporter`"
            )));
        }
        let options = consumer.options;
        let built = build(row, options, consumer.aggregation.as_ref())
            .map_err(|error| error.within(options.unwrap_or_default()).after(consumer.options_at()))?;
        Ok(Self {
            row,
            text: consumer.to_string(),
            options: options.map(str::to_owned),
            aggregation: consumer.aggregation.clone(),
            is_recorder: built.is_recorder,
            #[cfg(probe_agent)]
            confined: built.confined.as_ref().err().map(ToString::to_string),
            built: Mutex::new(Some(built)),
        })
    }

    /// Returns the further probes that it listens to.
    pub(super) fn ends(&self) -> Option<&Ends> {
        self.aggregation.as_ref()?.ends.as_ref()
    }

    /// Takes the consumer, or builds another one.
    pub(super) fn build(&self) -> Result<Built, Error> {
        let first = mem::take(&mut *self.built.lock().unwrap_or_else(PoisonError::into_inner));
        let another = || build(self.row, self.options.as_deref(), self.aggregation.as_ref());
        // A consumer that has read its options once may change its mind.
        first.map_or_else(another, Ok).map_err(|error| Error::Consumer(error.into()))
    }
}

impl fmt::Display for ConsumerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn build(
    row: &ConsumerRow,
    options: Option<&str>,
    aggregation: Option<&Aggregation>,
) -> Result<Built, ParseError> {
    aggregation.map_or_else(|| row.read(options), |aggregation| Ok(build_aggregation(aggregation)))
}

/// Attaches a consumer, and tells it the file of its reports. A recorder is attached to further
/// probes, too, which are off at first.
type Attach = Box<
    dyn FnOnce(
            &ProbeSet,
            OutputPolicy<'_>,
            &[ProbeId],
            Option<&Predicate>,
        ) -> Result<Arc<dyn Reported>, Error>
        + Send,
>;

pub(super) fn build_consumer<C: Reporter>(settings: &[Setting<'_>]) -> Result<Built, ParseError> {
    let mut consumer = C::from_settings(settings)?;
    let is_recorder = is_recorder(&consumer);
    #[cfg(probe_agent)]
    let confined = confine(&mut consumer, None);
    let attach: Attach = Box::new(move |set, writes, more, predicate| {
        match writes {
            OutputPolicy::Anywhere => (),
            OutputPolicy::Beside(report) => consumer.follow(report),
            #[cfg(probe_agent)]
            OutputPolicy::Only(opened) => confine(&mut consumer, opened.as_ref())?,
        }
        let more = if is_recorder {
            let disarmed = more.iter().copied().filter(|id| set.ids().binary_search(id).is_err());
            let disarmed: Vec<_> = disarmed.collect();
            set_disarmed(&mut consumer, &disarmed);
            disarmed
        } else {
            needed_besides(&consumer)
        };
        let set = set.clone().with(&more);
        Ok(match predicate {
            Some(predicate) => Arc::new(set.attach_if_or(predicate, consumer, more)?),
            None => Arc::new(set.attach(consumer)?),
        })
    });
    Ok(Built {
        attach,
        text: TextPolicy::default(),
        is_recorder,
        #[cfg(probe_agent)]
        confined,
    })
}

/// Returns whether triggers may take snapshots of a consumer: it is a trace in memory.
fn is_recorder(consumer: &dyn Any) -> bool {
    #[cfg(feature = "trace")]
    return consumer.downcast_ref().is_some_and(Trace::is_in_memory);
    #[cfg(not(feature = "trace"))]
    return {
        let _ = consumer;
        false
    };
}

/// Returns the probes that a consumer needs, whatever is selected.
fn needed_besides(consumer: &dyn Any) -> Vec<ProbeId> {
    if consumer.is::<Memory>() { Memory::of_allocator() } else { Vec::new() }
}

/// Leaves these probes of a recorder off at first.
fn set_disarmed(consumer: &mut dyn Any, disarmed: &[ProbeId]) {
    #[cfg(feature = "trace")]
    consumer.downcast_mut().into_iter().for_each(|trace: &mut Trace| trace.set_disarmed(disarmed));
    #[cfg(not(feature = "trace"))]
    let _ = (consumer, disarmed);
}

fn build_aggregation(aggregation: &Aggregation) -> Built {
    let aggregate = Aggregate::of(aggregation.clone());
    let attach: Attach = Box::new(move |set, writes, _, predicate| {
        #[cfg(probe_agent)]
        if let OutputPolicy::Only(opened) = writes {
            refuse(Count::NAME, opened.as_ref())?;
        }
        let _ = writes;
        let aggregate = match predicate {
            Some(predicate) => aggregate.only_if(predicate.clone()),
            None => aggregate,
        };
        Ok(Arc::new(set.attach(aggregate)?))
    });
    Built {
        attach,
        text: TextPolicy::default(),
        is_recorder: false,
        #[cfg(probe_agent)]
        confined: Ok(()),
    }
}

/// The files that a consumer may write.
pub(crate) enum OutputPolicy<'a> {
    /// Those that its options name, or else some in the working directory.
    Anywhere,
    /// The same, or else some beside the file of its report.
    Beside(&'a Path),
    /// None by a name: a client that could not open a file itself must not have it written. But
    /// maybe one that the client has opened.
    #[cfg(probe_agent)]
    Only(Option<Opened>),
}

/// A file that a client has opened, and its name, which chooses the format.
#[cfg(probe_agent)]
#[derive(Clone)]
#[cfg_attr(not(feature = "trace"), expect(dead_code, reason = "traces alone write files"))]
pub(crate) struct Opened {
    pub(crate) file: Arc<File>,
    pub(crate) name: PathBuf,
}

/// Lets a consumer of a client write this file only, or none.
#[cfg(probe_agent)]
fn confine<C: Reporter>(consumer: &mut C, opened: Option<&Opened>) -> Result<(), Error> {
    let any: &mut dyn Any = consumer;
    #[cfg(feature = "trace")]
    if let Some(trace) = any.downcast_mut::<Trace>() {
        return trace.confine(opened.map(|it| (&it.file, it.name.as_path())));
    }
    let _ = any;
    refuse(C::NAME, opened)
}

/// Refuses the file of a client for a consumer that writes none.
#[cfg(probe_agent)]
fn refuse(consumer: &str, opened: Option<&Opened>) -> Result<(), Error> {
    match opened {
        None => Ok(()),
        Some(_) => {
            Err(Error::Consumer(format!("`{consumer}` writes no file while it runs; `trace` does").into()))
        }
    }
}
