//! A consumer behind a predicate: it gets the hits that fulfil it.
//!
//! Life: [`ProbeSet::attach_if`] puts it between the hits and the consumer; it goes with the
//! attachment. Cost: see [`judge`](super::judge), and the consumer's own. Hits that are only
//! counted are delivered to it and counted here, since a counting block evaluates no fields.

use std::sync::{Arc, OnceLock};

use super::counted::Counted;
use super::judge::{Asked, Judge, Plan};
use crate::engine::control::{Attachment, Consumer, ProbeSet, Screen, Start, Switch, Wants};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;
use probe_lang::expression::{Predicate, Scope};

struct Filtered<C> {
    inner: Arc<C>,
    judge: Judge,
    predicate: Predicate,
    /// Probes that the predicate is not about.
    others: Vec<ProbeId>,
    counted: OnceLock<Counted>,
}

impl ProbeSet {
    /// Attaches a consumer that gets the hits which fulfil a [`Predicate`]. All else is as with
    /// [`attach`](Self::attach).
    ///
    /// Of a call, the entry decides: if it does not pass, neither does its exit. A predicate about
    /// the exit's fields or about `latency` is decided there, and only exits pass. A consumer that
    /// [pairs](Consumer::pairs_calls) calls can't have such a predicate. Probes that lack a field
    /// of the predicate, or have it with another type, are left out and stay latent; the report
    /// names them.
    ///
    /// # Errors
    /// [`Error::Expression`] if the predicate fits none of the probes, with the place and the
    /// fields there are; [`Error::Consumer`] for a consumer that counts most calls without looking
    /// at them (`Profiler`); and those of [`attach`](Self::attach).
    ///
    /// ```
    /// use probe_runtime::{Count, probe, select};
    ///
    /// #[probe(args(bytes))]
    /// fn send(bytes: usize) {}
    ///
    /// let large = select("**::send kind=entry")?.attach_if(&"bytes > 1K".parse()?, Count::new())?;
    /// (0..10).for_each(|n| send(n * 500));
    /// assert_eq!(large.total(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach_if<C: Consumer>(&self, predicate: &Predicate, consumer: C) -> Result<Attachment<C>, Error> {
        self.attach_if_or(predicate, consumer, Vec::new())
    }

    /// The same for a set with probes that the predicate is not about.
    pub(crate) fn attach_if_or<C: Consumer>(
        &self,
        predicate: &Predicate,
        consumer: C,
        others: Vec<ProbeId>,
    ) -> Result<Attachment<C>, Error> {
        let inner = Arc::new(consumer);
        let filtered = Filtered {
            inner: Arc::clone(&inner),
            judge: Judge::new(),
            predicate: predicate.clone(),
            others,
            counted: OnceLock::new(),
        };
        self.attach_behind(inner, filtered)
    }
}

impl<C: Consumer> Consumer for Filtered<C> {
    fn needs_thread(&self) -> bool {
        self.inner.needs_thread()
    }

    fn needs_order(&self) -> bool {
        self.inner.needs_order()
    }

    fn pairs_calls(&self) -> bool {
        self.inner.pairs_calls()
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        match self.inner.wants() {
            Wants::Hits => (),
            Wants::Counts => _ = self.counted.set(Counted::new(probes)?),
            Wants::Switchable => {
                let problem = "this consumer counts most calls without looking at their fields, \
                               so it can't have a predicate";
                return Err(Error::Consumer(problem.into()));
            }
        }
        self.judge.prepare(probes, self.plan(probes)?)?;
        self.inner.prepare(probes)
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.counted.get().map_or(Ok(()), |counted| counted.join(probes))?;
        let set = self.judge.joined_by(probes);
        self.judge.join(&set, self.plan(&set)?)?;
        self.inner.join(probes)
    }

    fn start(&self, probe: ProbeId) -> Start {
        self.judge.start(probe, self.inner.start(probe))
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        self.judge.attached(&switch);
        self.inner.attached(switch)
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        let pass = || match self.counted.get() {
            None => self.inner.hit(event),
            Some(counted) => counted.count(event),
        };
        self.judge.hit(
            event,
            |_| pass(),
            |_, _| {
                pass();
                0
            },
        );
    }
}

impl<C: Consumer> Filtered<C> {
    fn plan(&self, probes: &ProbeSet) -> Result<Plan, Error> {
        let needs_entries = "this is known at the exit of a call, and the consumer needs its entry, too; \
                             `count`, `sum` or `latency by(…)` do without";
        let fits = |_: &Scope<'_>| Ok(());
        let asked = Asked {
            predicate: Some(&self.predicate),
            text: "",
            keys: &fits,
            value: &fits,
            asks_latency: false,
            asks_time: false,
            is_of_one_hit: false,
            others: &self.others,
            needs_entries: self.inner.pairs_calls().then_some(needs_entries),
        };
        Plan::of(probes, &asked)
    }
}

impl<C: Consumer> Screen for Filtered<C> {
    fn notes(&self) -> Vec<String> {
        let mut notes = self.judge.notes();
        notes.extend(self.counted.get().and_then(Counted::note));
        notes
    }

    fn counted(&self, id: ProbeId) -> Option<u64> {
        self.counted.get()?.hits(id)
    }
}
