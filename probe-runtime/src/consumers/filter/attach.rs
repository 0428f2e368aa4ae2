//! Consumers behind a filter: a predicate, or the thread that has attached them.
//!
//! Life: [`ProbeSet::attach_if`] and [`ProbeSet::attach_in_thread`] put a filter between the hits
//! and the consumer; it goes with the attachment.
//!
//! Cost: that of a predicate, see [`filter`](super); a hit of another thread takes a delivered hit
//! and one comparison. A counting block looks at nothing of a hit, so it can't leave any out. For a
//! consumer that has its hits counted, they are delivered to the filter, which counts those that
//! pass: a look-up of the probe, and one addition in the thread's own memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use super::{CallFilter, Expressions, Plan};
use crate::engine::by_probe::Numbers;
use crate::engine::c_values::WantedFields;
use crate::engine::calls::add_single_writer;
use crate::engine::control::{Attachment, Consumer, DeliveryMode, HitFilter, ProbeSet, Start, Switch};
use crate::engine::dispatch::{Event, current_thread};
use crate::engine::error::Error;
use crate::engine::per_thread::PerThread;
use crate::engine::registry::ProbeId;
use probe_lang::expression::Predicate;

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
        let predicate = predicate.clone();
        self.attach_filtered(consumer, ByPredicate { filter: CallFilter::new(), predicate, others })
    }

    /// Attaches a consumer that gets the hits of the calling thread only. All else is as with
    /// [`attach`](Self::attach). So a test can count its own calls while other tests run the same
    /// functions on other threads.
    ///
    /// The scope is the attachment's life. The sites are active for all threads meanwhile: a hit of
    /// another thread is delivered (1.4 to 3 ns) and dropped. A future's polls on other threads are
    /// other threads' hits, too.
    ///
    /// # Errors
    /// [`Error::Consumer`] for a consumer that counts most calls without looking at them
    /// (`Profiler`), or if no memory is left to tell the thread apart; and those of
    /// [`attach`](Self::attach).
    ///
    /// ```
    /// use std::thread;
    /// use probe_runtime::{Count, probe, select};
    ///
    /// #[probe]
    /// fn parse() {}
    ///
    /// let mine = select("**::parse kind=entry")?.attach_in_thread(Count::new())?;
    /// thread::spawn(|| (0..10).for_each(|_| parse())).join().unwrap();
    /// parse();
    /// assert_eq!(mine.total(), 1);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    pub fn attach_in_thread<C: Consumer>(&self, consumer: C) -> Result<Attachment<C>, Error> {
        let no_memory = "no memory is left for this thread's number, so its hits can't be told apart";
        let thread = current_thread().ok_or_else(|| Error::Consumer(no_memory.into()))?;
        self.attach_filtered(consumer, ByThread(thread))
    }

    fn attach_filtered<C: Consumer>(&self, consumer: C, filter: impl Filter) -> Result<Attachment<C>, Error> {
        let inner = Arc::new(consumer);
        let filtered = Filtered { inner: Arc::clone(&inner), filter, counted: OnceLock::new() };
        self.attach_with_filter(inner, filtered)
    }
}

/// Decides which hits a consumer gets.
trait Filter: Send + Sync + 'static {
    /// The reason why a consumer that switches its probes can't have this filter.
    const NOT_SWITCHABLE: &str;

    fn wanted_fields(&self) -> WantedFields {
        WantedFields::default()
    }

    fn prepare(&self, _probes: &ProbeSet, _consumer: &impl Consumer) -> Result<(), Error> {
        Ok(())
    }

    fn join(&self, _probes: &ProbeSet, _consumer: &impl Consumer) -> Result<(), Error> {
        Ok(())
    }

    fn start(&self, _probe: ProbeId, of_consumer: Start) -> Start {
        of_consumer
    }

    fn attached(&self, _switch: &Switch) {}

    /// Calls `pass` if the hit passes.
    fn hit(&self, event: &Event<'_>, pass: impl Fn());

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

struct ByPredicate {
    filter: CallFilter,
    predicate: Predicate,
    /// Probes that the predicate is not about.
    others: Vec<ProbeId>,
}

impl ByPredicate {
    fn plan(&self, probes: &ProbeSet, consumer: &impl Consumer) -> Result<Plan, Error> {
        let needs_entries = "this is known at the exit of a call, and the consumer needs its entry, too; \
                             `count`, `sum` or `latency by(…)` do without";
        let expressions = Expressions {
            predicate: Some(&self.predicate),
            others: &self.others,
            needs_entries: consumer.pairs_calls().then_some(needs_entries),
            ..Expressions::NONE
        };
        Plan::of(probes, &expressions)
    }
}

impl Filter for ByPredicate {
    const NOT_SWITCHABLE: &str = "this consumer counts most calls without looking at their fields, \
                                  so it can't have a predicate";

    fn wanted_fields(&self) -> WantedFields {
        WantedFields::named(self.predicate.node().fields())
    }

    fn prepare(&self, probes: &ProbeSet, consumer: &impl Consumer) -> Result<(), Error> {
        self.filter.prepare(probes, self.plan(probes, consumer)?)
    }

    fn join(&self, probes: &ProbeSet, consumer: &impl Consumer) -> Result<(), Error> {
        let set = self.filter.joined_by(probes);
        self.filter.join(&set, self.plan(&set, consumer)?)
    }

    fn start(&self, probe: ProbeId, of_consumer: Start) -> Start {
        self.filter.start(probe, of_consumer)
    }

    fn attached(&self, switch: &Switch) {
        self.filter.attached(switch);
    }

    #[inline(always)]
    fn hit(&self, event: &Event<'_>, pass: impl Fn()) {
        self.filter.hit(
            event,
            |_| pass(),
            |_, _| {
                pass();
                0
            },
        );
    }

    fn notes(&self) -> Vec<String> {
        self.filter.notes()
    }
}

/// By the number of the thread that has attached the consumer.
struct ByThread(u64);

impl Filter for ByThread {
    const NOT_SWITCHABLE: &str = "this consumer counts most calls without looking at their thread, \
                                  so it can't be attached for one thread";

    #[inline(always)]
    fn hit(&self, event: &Event<'_>, pass: impl Fn()) {
        if event.thread() == self.0 {
            pass();
        }
    }
}

struct Filtered<C, F> {
    inner: Arc<C>,
    filter: F,
    counted: OnceLock<PassedHits>,
}

impl<C: Consumer, F: Filter> Consumer for Filtered<C, F> {
    fn needs_thread(&self) -> bool {
        self.inner.needs_thread()
    }

    fn needs_order(&self) -> bool {
        self.inner.needs_order()
    }

    fn pairs_calls(&self) -> bool {
        self.inner.pairs_calls()
    }

    fn look_at_objects(&self) {
        self.inner.look_at_objects();
    }

    fn wanted_fields(&self) -> WantedFields {
        self.filter.wanted_fields().and(self.inner.wanted_fields())
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        match self.inner.delivery_mode() {
            DeliveryMode::Delivered => (),
            DeliveryMode::Counted => _ = self.counted.set(PassedHits::new(probes)?),
            DeliveryMode::Switchable => return Err(Error::Consumer(F::NOT_SWITCHABLE.into())),
        }
        self.filter.prepare(probes, &*self.inner)?;
        self.inner.prepare(probes)
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.counted.get().map_or(Ok(()), |counted| counted.join(probes))?;
        self.filter.join(probes, &*self.inner)?;
        self.inner.join(probes)
    }

    fn start(&self, probe: ProbeId) -> Start {
        self.filter.start(probe, self.inner.start(probe))
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        self.filter.attached(&switch);
        self.inner.attached(switch)
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        self.filter.hit(event, || match self.counted.get() {
            None => self.inner.hit(event),
            Some(counted) => counted.count(event),
        });
    }
}

impl<C: Consumer, F: Filter> HitFilter for Filtered<C, F> {
    fn notes(&self) -> Vec<String> {
        let mut notes = self.filter.notes();
        notes.extend(self.counted.get().and_then(PassedHits::note));
        notes
    }

    fn counted(&self, id: ProbeId) -> Option<u64> {
        self.counted.get()?.hits(id)
    }
}

/// The hits of each probe, for a consumer that has them counted.
struct PassedHits {
    /// The place of a probe's number in `memory`, from 1.
    places: Numbers,
    used: AtomicU32,
    room: u32,
    memory: PerThread<(), AtomicU64>,
}

impl PassedHits {
    /// Makes counts for these probes, with room for those that may join later.
    fn new(probes: &ProbeSet) -> Result<Self, Error> {
        let room = probes.len() + probes.room();
        let counted = Self {
            places: Numbers::new(probes.numbers()),
            used: AtomicU32::new(0),
            room: u32::try_from(room).unwrap_or(u32::MAX),
            memory: PerThread::new(room)?,
        };
        counted.join(probes)?;
        Ok(counted)
    }

    /// Finds places for these probes. One thread at a time calls it.
    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let new: Vec<_> = probes.ids().iter().filter(|id| self.place(**id).is_none()).collect();
        let used = self.used.load(Relaxed);
        let has_room = (self.room - used) as usize >= new.len() && new.iter().all(|id| self.places.has(**id));
        if !has_room {
            let problem = format!("there is room for {} probes; attach anew", self.room);
            return Err(Error::Consumer(problem.into()));
        }
        for (place, id) in (used + 1..).zip(new) {
            self.places.set(*id, place);
            self.used.store(place, Relaxed);
        }
        Ok(())
    }

    #[inline(always)]
    fn place(&self, id: ProbeId) -> Option<usize> {
        (self.places.get(id) as usize).checked_sub(1)
    }

    #[inline]
    fn count(&self, event: &Event<'_>) {
        let Some(local) = self.memory.of(event) else { return };
        if let Some(count) = self.place(event.probe()).and_then(|at| local.parts().get(at)) {
            add_single_writer(count, 1);
        }
    }

    /// Returns the hits of a probe; `None` if it has no place here.
    fn hits(&self, id: ProbeId) -> Option<u64> {
        let at = self.place(id)?;
        let counts = self.memory.iter().filter_map(|local| Some(local.parts().get(at)?.load(Relaxed)));
        Some(counts.sum())
    }

    /// Returns a line for the report if hits were not counted.
    fn note(&self) -> Option<String> {
        let lost = self.memory.lost();
        (lost != 0).then(|| format!("{lost} hits were not counted: no memory for them"))
    }
}
