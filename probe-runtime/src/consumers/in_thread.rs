//! A consumer for one thread: it gets the hits of the thread that has attached it.
//!
//! Life: [`ProbeSet::attach_in_thread`] puts it between the hits and the consumer; it goes with the
//! attachment. Cost: a hit of another thread takes a delivered hit and one comparison.

use std::sync::{Arc, OnceLock};

use super::counted::Counted;
use crate::engine::control::{Attachment, Consumer, ProbeSet, Screen, Start, Switch, Wants};
use crate::engine::dispatch::{Event, current_thread};
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;

struct InThread<C> {
    inner: Arc<C>,
    /// The number of the thread that has attached it.
    thread: u64,
    counted: OnceLock<Counted>,
}

impl ProbeSet {
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
        let inner = Arc::new(consumer);
        let screen = InThread { inner: Arc::clone(&inner), thread, counted: OnceLock::new() };
        self.attach_behind(inner, screen)
    }
}

impl<C: Consumer> Consumer for InThread<C> {
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
                let problem = "this consumer counts most calls without looking at their thread, \
                               so it can't be attached for one thread";
                return Err(Error::Consumer(problem.into()));
            }
        }
        self.inner.prepare(probes)
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.counted.get().map_or(Ok(()), |counted| counted.join(probes))?;
        self.inner.join(probes)
    }

    fn start(&self, probe: ProbeId) -> Start {
        self.inner.start(probe)
    }

    fn attached(&self, switch: Switch) -> Result<(), Error> {
        self.inner.attached(switch)
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        if event.thread() != self.thread {
            return;
        }
        match self.counted.get() {
            None => self.inner.hit(event),
            Some(counted) => counted.count(event),
        }
    }
}

impl<C: Consumer> Screen for InThread<C> {
    fn notes(&self) -> Vec<String> {
        self.counted.get().and_then(Counted::note).into_iter().collect()
    }

    fn counted(&self, id: ProbeId) -> Option<u64> {
        self.counted.get()?.hits(id)
    }
}
