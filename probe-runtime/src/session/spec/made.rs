//! Consumers that a text's options have made, before they are attached.

use std::any::Any;
use std::sync::Arc;

use super::reported::Reported;
use super::reporter::Reporter;
use super::writes::Writes;
#[cfg(probe_agent)]
use super::writes::{confine, refuse};
use crate::consumers::Aggregate;
#[cfg(probe_agent)]
use crate::consumers::Count;
#[cfg(feature = "trace")]
use crate::consumers::Trace;
use crate::engine::control::ProbeSet;
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;
use probe_lang::expression::Predicate;
use probe_lang::{ParseError, Setting};

/// A consumer that is ready to be attached.
pub(super) struct Made {
    pub(super) attach: Attach,
    /// Whether triggers may take snapshots of it.
    pub(super) is_recorder: bool,
    /// The reason why a client may not attach it without a file.
    #[cfg(probe_agent)]
    pub(super) confined: Result<(), Error>,
}

/// Attaches a consumer, and tells it the file of its reports. A recorder is attached to further
/// probes, too, which are off at first.
type Attach = Box<
    dyn FnOnce(&ProbeSet, Writes<'_>, &[ProbeId], Option<&Predicate>) -> Result<Arc<dyn Reported>, Error>,
>;

pub(super) fn make<C: Reporter>(settings: &[Setting<'_>]) -> Result<Made, ParseError> {
    let mut consumer = C::from_settings(settings)?;
    let is_recorder = is_recorder(&consumer);
    #[cfg(probe_agent)]
    let confined = confine(&mut consumer, None);
    let attach: Attach = Box::new(move |set, writes, more, predicate| {
        match writes {
            Writes::Anywhere => (),
            Writes::Beside(report) => consumer.follow(report),
            #[cfg(probe_agent)]
            Writes::Only(opened) => confine(&mut consumer, opened.as_ref())?,
        }
        if !is_recorder {
            return Ok(match predicate {
                Some(predicate) => Arc::new(set.attach_if(predicate, consumer)?),
                None => Arc::new(set.attach(consumer)?),
            });
        }
        let disarmed = more.iter().copied().filter(|id| set.ids().binary_search(id).is_err());
        let disarmed: Vec<_> = disarmed.collect();
        set_disarmed(&mut consumer, &disarmed);
        let set = set.clone().with(&disarmed);
        Ok(match predicate {
            Some(predicate) => Arc::new(set.attach_if_or(predicate, consumer, disarmed)?),
            None => Arc::new(set.attach(consumer)?),
        })
    });
    Ok(Made {
        attach,
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

/// Leaves these probes of a recorder off at first.
fn set_disarmed(consumer: &mut dyn Any, disarmed: &[ProbeId]) {
    #[cfg(feature = "trace")]
    consumer.downcast_mut().into_iter().for_each(|trace: &mut Trace| trace.set_disarmed(disarmed));
    #[cfg(not(feature = "trace"))]
    let _ = (consumer, disarmed);
}

/// Makes an aggregation from its text.
pub(super) fn made_of(text: &str) -> Result<Made, ParseError> {
    let aggregate = Aggregate::new(text)?;
    let attach: Attach = Box::new(move |set, writes, _, predicate| {
        #[cfg(probe_agent)]
        if let Writes::Only(opened) = writes {
            refuse(Count::NAME, opened.as_ref())?;
        }
        let _ = writes;
        let aggregate = match predicate {
            Some(predicate) => aggregate.only_if(predicate.clone()),
            None => aggregate,
        };
        Ok(Arc::new(set.attach(aggregate)?))
    });
    Ok(Made {
        attach,
        is_recorder: false,
        #[cfg(probe_agent)]
        confined: Ok(()),
    })
}
