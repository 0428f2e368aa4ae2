//! A bridge to `tracing`: calls become spans, and points become events.
//!
//! Life cycle: attaching makes the callsites, once for each probe ▸ an entry makes a span of the
//! current subscriber, and enters it ▸ the exit records the result, leaves the span and closes it ▸
//! dropping the consumer closes the open spans.
//!
//! Cost: see [`Tracing`]. Unlike other consumers, it uses the heap and locks on a hit. So do
//! subscribers.

mod actions;
mod spans;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use actions::{SpanAction, with_values};
use spans::{EnteredSpan, Futures, PendingSpan, Span};
use tracing_core::dispatcher::get_default;
use tracing_core::span::{Attributes, Record};
use tracing_core::{Event as TracingEvent, Level};

use crate::engine::by_probe::ByProbe;
use crate::engine::calls::{self, CallEffect};
use crate::engine::control::{Attachment, Consumer, ProbeSet};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;
use crate::report::{footnotes, notes};
use probe_core::pairing::{CallKind, Place};
use probe_lang::{ParseError, Setting};

/// Shows probes to the current subscriber of `tracing`, so that an existing set-up of layers,
/// filters and exporters has them, too.
///
/// | probe | in `tracing` |
/// |---|---|
/// | entry and exit of a function | a span. Its fields are the arguments, and the result, which the exit records |
/// | the probes of a future | a span from the first poll to its end, entered for each poll |
/// | point | an event, whose message is the point's name |
/// | an entry without its exit, and other kinds without their partners | an event, whose message is the kind and the function |
///
/// The target is the module path of the probe, the name its last segment, the level
/// [`INFO`](Level::INFO) or as [`level`](Self::level) says. Values have their own types: numbers,
/// truth values, text, bytes; others are text. The subscriber's filters decide on each callsite. A
/// span belongs to the subscriber that was current at its entry.
///
/// Spans nest as calls do, also when a panic unwinds, and when C code leaves calls by `longjmp`.
/// Calls that began before the consumer was attached, or were interrupted by a switch of sites, are
/// [counted](TracingTotals::unpaired). The span of a call that is under way when the consumer is
/// detached stays entered until its thread's next hit of a `Tracing`, or the thread's end. A forked
/// child shows no futures.
///
/// Cost: that of the subscriber, and some 110 ns for each call, 140 ns with an argument, 35 ns for
/// a point, 90 ns for a call that the subscriber does not want (EPYC, where `Latency` takes 27 ns
/// for a call). A hit uses the heap and takes locks, as subscribers do. So don't attach it to
/// probes in allocators or signal handlers. Hits of a subscriber's own probes are
/// [suppressed](crate::Attachment::suppressed). Callsites are made once for each probe, and never
/// freed. Most hits of a future's probes also ask for the process id, by a system call. The bridge
/// keeps an entry and a span for each future that has begun. One whose drop is unseen, such as
/// while sites are off, keeps them until another future begins at its address, or the consumer is
/// dropped.
///
/// ```
/// use probe_runtime::{Tracing, probe, select};
///
/// #[probe(args(*))]
/// fn handle(request: u64) {
///     probe!("parsed", bytes = request * 2);
/// }
///
/// // tracing_subscriber::fmt().init();
/// let shown = select("**::handle, **::parsed")?.attach(Tracing::new())?;
/// // INFO handle{request=7}: app: parsed bytes=14
/// handle(7);
/// // There is no subscriber in this example.
/// assert_eq!(shown.totals().disabled, 2);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub struct Tracing {
    level: Level,
    /// Tells the open spans of several consumers apart.
    number: u64,
    /// Tells other threads whether this consumer is gone.
    alive: Arc<()>,
    actions: OnceLock<ByProbe<SpanAction>>,
    /// Probes of functions that lack others.
    incomplete: Mutex<Vec<ProbeId>>,
    futures: Futures,
    counts: [AtomicU64; 4],
}

/// The number of spans and events that a [`Tracing`] has made.
///
/// ```
/// use probe_runtime::{Tracing, probe, select};
///
/// #[probe]
/// fn step() {}
/// step();
///
/// let shown = select("**::step")?.attach(Tracing::new())?;
/// step();
/// let totals = shown.totals();
/// assert_eq!(totals.spans + totals.events + totals.disabled, 1);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct TracingTotals {
    /// Spans that were made.
    pub spans: u64,
    /// Events that were made.
    pub events: u64,
    /// Spans and events that no subscriber wanted.
    pub disabled: u64,
    /// Hits without a partner: their call began, or ended, while sites were off.
    pub unpaired: u64,
}

const SPANS: usize = 0;
const EVENTS: usize = 1;
const DISABLED: usize = 2;
const UNPAIRED: usize = 3;

impl Tracing {
    /// Creates the bridge, for spans and events of the level `INFO`.
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self {
            level: Level::INFO,
            number: NUMBER.fetch_add(1, Relaxed),
            alive: Arc::new(()),
            actions: OnceLock::new(),
            incomplete: Mutex::default(),
            futures: Futures::new(),
            counts: Default::default(),
        }
    }

    /// Sets the level of spans and events.
    ///
    /// ```
    /// use probe_runtime::Tracing;
    /// use probe_runtime::tracing::tracing_core::Level;
    /// let tracing = Tracing::new().level(Level::DEBUG);
    /// # drop(tracing);
    /// ```
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Creates it with these options.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        settings.iter().try_fold(Self::new(), |tracing, it| match it.value().parse() {
            Ok(level) if it.value().parse::<u8>().is_err() => Ok(tracing.level(level)),
            _ => Err(it.invalid_value(format!(
                "`{}` is not a level; there are trace, debug, info, warn and error",
                it.value()
            ))),
        })
    }

    /// Returns the number of spans and events so far.
    pub fn totals(&self) -> TracingTotals {
        let [spans, events, disabled, unpaired] = [0, 1, 2, 3].map(|at: usize| self.counts[at].load(Relaxed));
        TracingTotals { spans, events, disabled, unpaired }
    }

    fn count(&self, what: usize) {
        self.counts[what].fetch_add(1, Relaxed);
    }
}

impl Default for Tracing {
    fn default() -> Self {
        Self::new()
    }
}

impl Tracing {
    fn event(&self, action: &SpanAction, event: &Event<'_>) {
        get_default(|dispatch| {
            if !action.site.is_enabled(dispatch) {
                return self.count(DISABLED);
            }
            let message = action.message.as_ref().map(|(field, text)| (field, text.as_str()));
            let metadata = action.site.known();
            with_values(event, metadata.fields(), &action.fields, message, |values| {
                dispatch.event(&TracingEvent::new(metadata, values));
            });
            self.count(EVENTS);
        });
    }

    /// Makes the span of a call or a future, if the subscriber wants it.
    fn span(&self, action: &SpanAction, event: &Event<'_>) -> Option<Span> {
        get_default(|dispatch| {
            if !action.site.is_enabled(dispatch) {
                self.count(DISABLED);
                return None;
            }
            let metadata = action.site.known();
            let mut id = None;
            with_values(event, metadata.fields(), &action.fields, None, |values| {
                id = Some(dispatch.new_span(&Attributes::new(metadata, values)));
            });
            self.count(SPANS);
            Some(Span { dispatch: dispatch.clone(), id: id? })
        })
    }

    /// Records the values of an exit.
    fn record(action: &SpanAction, event: &Event<'_>, span: &Span) {
        if action.fields.iter().any(Option::is_some) {
            with_values(event, action.site.known().fields(), &action.fields, None, |values| {
                span.dispatch.record(&span.id, &Record::new(values));
            });
        }
    }

    fn open(&self, action: &SpanAction, event: &Event<'_>, span: Option<Span>) {
        let open = EnteredSpan {
            consumer: self.number,
            alive: Arc::downgrade(&self.alive),
            place: place(action, event),
            generation: event.generation(),
            span,
            is_whole: event.future().is_none(),
        };
        if !open.push() {
            self.count(UNPAIRED);
        }
    }

    fn hit_of_call(&self, action: &SpanAction, event: &Event<'_>) {
        use CallEffect::{Begin, Cancel, End, Enter, Finish, Resume, Suspend};

        let future = event.future();
        let begins = matches!(action.effect, Begin | Enter | Resume);
        self.count_unpaired(EnteredSpan::leave_earlier(self.number, event.generation()));
        if begins {
            self.count_unpaired(EnteredSpan::leave_at_entry(self.number, place(action, event)));
        }
        if event.generation().is_multiple_of(2) {
            return self.count(UNPAIRED);
        }
        match (action.effect, future) {
            (Begin | Enter, None) => self.open(action, event, self.span(action, event)),
            (Begin | Enter, Some(future)) => {
                let span = self.span(action, event);
                let begun = PendingSpan { generation: event.generation(), span: span.clone() };
                if self.futures.begin(action.function, future, begun) {
                    self.open(action, event, span);
                } else {
                    span.into_iter().for_each(Span::close);
                }
            }
            (Resume, Some(future)) => match self.futures.get(action.function, future, event.generation()) {
                Some(begun) => self.open(action, event, begun.span),
                None => self.count(UNPAIRED),
            },
            (Suspend, Some(_)) => drop(self.take(action, event)),
            (Cancel, Some(future)) => match self.futures.end(action.function, future) {
                Some(begun) => begun.span.into_iter().for_each(Span::close),
                None => self.count(UNPAIRED),
            },
            (End | Finish, _) => self.end(action, event, future),
            _ => self.count(UNPAIRED),
        }
    }

    /// Takes the call or poll that a hit ends.
    fn take(&self, action: &SpanAction, event: &Event<'_>) -> Option<EnteredSpan> {
        let (open, left) = EnteredSpan::take(self.number, place(action, event));
        self.count_unpaired(left);
        open
    }

    fn count_unpaired(&self, hits: usize) {
        (0..hits).for_each(|_| self.count(UNPAIRED));
    }

    fn end(&self, action: &SpanAction, event: &Event<'_>, future: Option<usize>) {
        let open = self.take(action, event);
        let begun = future.and_then(|future| self.futures.end(action.function, future));
        if open.is_none() {
            self.count(UNPAIRED);
        }
        if let Some(span) = open.as_ref().and_then(|open| open.span.as_ref()) {
            Self::record(action, event, span);
        }
        drop(open);
        begun.and_then(|begun| begun.span).into_iter().for_each(Span::close);
    }
}

/// Returns what pairing knows of a hit.
fn place(action: &SpanAction, event: &Event<'_>) -> Place {
    let place = calls::place(event, u32::try_from(action.function).unwrap_or(u32::MAX));
    event.future().map_or(place, |future| Place { kind: CallKind::Poll(future as u64), ..place })
}

impl Consumer for Tracing {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        if self.actions.set(ByProbe::new(probes.numbers())).is_err() {
            let problem = "a bridge to `tracing` can be attached only once; make another one";
            return Err(Error::Consumer(problem.into()));
        }
        self.join(probes)
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let Some(actions) = self.actions.get() else { return Ok(()) };
        if probes.ids().iter().any(|id| !actions.has(*id)) {
            return Err(Error::Consumer("there are too many probes for one bridge; attach anew".into()));
        }
        let waiting = self.incomplete.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let set = probes.only(&|id| actions.get(*id).is_none()).with(&waiting);
        let (joined, incomplete) = actions::actions(&set, self.level);
        actions.add(joined);
        *self.incomplete.lock().unwrap_or_else(PoisonError::into_inner) = incomplete;
        Ok(())
    }

    fn hit(&self, event: &Event<'_>) {
        let Some(actions) = self.actions.get() else { return };
        EnteredSpan::leave_gone();
        match actions.get(event.probe()) {
            Some(action) if action.effect == CallEffect::Nothing => self.event(action, event),
            Some(action) => self.hit_of_call(action, event),
            None => (),
        }
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        EnteredSpan::leave_all(self.number);
        self.futures.close();
    }
}

impl_debug!(Tracing: level);

/// Prints the totals.
impl fmt::Display for Attachment<Tracing> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TracingTotals { spans, events, disabled, unpaired } = self.totals();
        write!(f, "spans: {spans}, events: {events}, not wanted by the subscriber: {disabled}, ")?;
        write!(f, "without a partner: {unpaired}")?;
        footnotes(&notes(self.untyped()), f)
    }
}
