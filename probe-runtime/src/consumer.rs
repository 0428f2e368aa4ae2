//! What may be attached to probes.

use std::sync::Arc;

use crate::control::{ProbeSet, Switch};
use crate::dispatch::Event;
use crate::error::Error;

/// Listens to probes. `Count` is one; a program's own are written the same way.
///
/// Life: moved into [`ProbeSet::attach`](crate::ProbeSet::attach); called on every thread that hits
/// one of the probes; dropped when its attachment is gone and no thread is inside it. A hit that
/// lasts is [in nobody's way](crate::Attachment#what-waits) but of those who take this consumer
/// away.
///
/// A panic in [`hit`](Self::hit), unless it is that of a field which is being
/// [shown](crate::failed_captures), ends there: the consumer is called no more, its sites become
/// latent, and its attachment [tells](crate::Attachment::failure). Probes that the consumer itself
/// hits are not delivered (to anybody); they are counted as
/// [suppressed](crate::Attachment::suppressed).
///
/// ```
/// use std::sync::Mutex;
/// use probe_runtime::{Consumer, Event, probe, select};
///
/// struct Names(Mutex<Vec<String>>);
///
/// impl Consumer for Names {
///     fn hit(&self, event: &Event<'_>) {
///         self.0.lock().unwrap().push(format!("{} {}", event.path(), event.kind().name()));
///     }
/// }
///
/// #[probe]
/// fn handle() {}
///
/// let names = select("**::handle")?.attach(Names(Mutex::default()))?;
/// handle();
/// assert_eq!(names.0.lock().unwrap().len(), 2);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub trait Consumer: Send + Sync + 'static {
    /// What it wants: to be called with each hit, or only to have them counted. Asked once, when it
    /// is attached.
    fn wants(&self) -> Wants {
        Wants::Hits
    }

    /// Whether it is of no use without a thread of its own: one that empties its buffers, say.
    /// Asked once, when it is attached.
    ///
    /// A forked child has none of its parent's threads but the one that forked. There an attachment
    /// whose consumer needs one is detached: the consumer is called no more, its sites become
    /// latent unless others listen, and [`Attachment::failure`](crate::Attachment::failure) says
    /// so. The parent's attachment goes on, as do all others in the child, each with a copy of what
    /// it had counted.
    fn needs_thread(&self) -> bool {
        false
    }

    /// Whether a hit is to begin only when what comes before its site is done. Asked once, when it
    /// is attached.
    ///
    /// Processors work ahead: what a hit does may be done before the last of the function's own
    /// work, or beside it. Who reads a clock then measures calls of less than some 50 ns as
    /// anything between nothing and themselves with the hit. With order, what is measured is the
    /// call and, always the same, the part of its two hits that lies between the readings. A hit
    /// that is delivered takes some 5 ns more (`lfence`; Intel SDM 2A, "LFENCE"); one that is
    /// counted, nothing. Where sites are not patched in place, there is no such order.
    fn needs_order(&self) -> bool {
        false
    }

    /// Gets ready for the hits of these probes, before any of their sites is active: the place to
    /// take memory, and to look at the probes. Called once, by [`attach`](crate::ProbeSet::attach),
    /// on its thread; it may use this crate.
    ///
    /// # Errors
    /// Whatever keeps it from listening; `attach` then returns it, and nothing has changed.
    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let _ = probes;
        Ok(())
    }

    /// It is attached, and its sites are active: the place to start a thread, which may keep
    /// `switch` to make probes latent, and active again, as hits go. Called once, by
    /// [`attach`](crate::ProbeSet::attach), on its thread; it may use this crate. Hits may come
    /// before.
    ///
    /// Such a thread ends with the consumer: its `drop` tells it, and waits for it. (A forked child
    /// has a copy of the consumer, but not the thread: see [`needs_thread`](Self::needs_thread).)
    ///
    /// # Errors
    /// Whatever keeps it from working; it is detached then, and `attach` returns the error.
    fn attached(&self, switch: Switch) -> Result<(), Error> {
        let _ = switch;
        Ok(())
    }

    /// One hit, on the thread that made it. It may sit anywhere, in an allocator or a signal
    /// handler: a consumer that allocates or locks is for probes that don't. It must not be left by
    /// `longjmp`, nor end the thread.
    ///
    /// Of a program that cancels its threads (`pthread_cancel`): a cancellation that takes effect
    /// in here, at one of the C library's cancellation points (reading, writing, sleeping), aborts
    /// the program, since it can't cross Rust's frames. A consumer that has such points disables
    /// cancellation around them (`pthread_setcancelstate`). Counting has none.
    fn hit(&self, event: &Event<'_>);
}

/// A closure, or a function, is told of each hit. [`ProbeSet::attach_fn`] infers a closure's
/// parameter; here its type is written.
///
/// ```
/// use probe_runtime::{Event, probe, select};
/// #[probe]
/// fn told() {}
/// told();
/// let seen = select("**::told")?.attach(|event: &Event<'_>| println!("{event:?}"))?;
/// told();
/// assert!(seen.failure().is_none());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Consumer for F {
    #[inline]
    fn hit(&self, event: &Event<'_>) {
        self(event);
    }
}

/// What a consumer behind a pointer does, is what the one that it points at does.
macro_rules! pointed_at {
    () => {
        fn wants(&self) -> Wants {
            (**self).wants()
        }

        fn needs_thread(&self) -> bool {
            (**self).needs_thread()
        }

        fn needs_order(&self) -> bool {
            (**self).needs_order()
        }

        fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
            (**self).prepare(probes)
        }

        fn attached(&self, switch: Switch) -> Result<(), Error> {
            (**self).attached(switch)
        }

        #[inline]
        fn hit(&self, event: &Event<'_>) {
            (**self).hit(event);
        }
    };
}

/// A consumer that is chosen at run time. (Of boxes, this one alone: a box of a closure is a
/// closure itself.)
///
/// ```
/// use probe_runtime::{Consumer, Count, Event, probe, select};
/// #[probe]
/// fn chosen() {}
/// chosen();
/// let is_counting = true;
/// let consumer: Box<dyn Consumer> =
///     if is_counting { Box::new(Count::new()) } else { Box::new(|event: &Event<'_>| println!("{event:?}")) };
/// let attached = select("**::chosen kind=entry")?.attach(consumer)?;
/// chosen();
/// assert_eq!(attached.counts().total(), 1);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
impl Consumer for Box<dyn Consumer> {
    pointed_at!();
}

/// A consumer that others keep, too: what it has gathered is there when its attachment is gone. One
/// that says that it is attached once (those that come with this crate, but for
/// [`Count`](crate::Count)) is attached once, by whatever pointer.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::{Consumer, Event, probe, select};
///
/// #[derive(Default)]
/// struct Entries(AtomicU64);
///
/// impl Consumer for Entries {
///     fn hit(&self, _: &Event<'_>) {
///         self.0.fetch_add(1, Relaxed);
///     }
/// }
///
/// #[probe]
/// fn kept() {}
/// kept();
/// let entries = Arc::new(Entries::default());
/// let attached = select("**::kept kind=entry")?.attach(Arc::clone(&entries))?;
/// kept();
/// drop(attached);
/// assert_eq!(entries.0.load(Relaxed), 1);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
impl<C: Consumer + ?Sized> Consumer for Arc<C> {
    pointed_at!();
}

/// What a consumer wants of its probes.
///
/// ```
/// use probe_runtime::{Consumer, Count, Wants};
///
/// // The runtime counts for it: hits don't call it.
/// assert_eq!(Count::new().wants(), Wants::Tally);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Wants {
    /// To be called.
    Hits,
    /// To have the hits of each probe counted, per thread and without a call; see
    /// [`Attachment::counts`](crate::Attachment::counts). Such hits are never suppressed.
    Tally,
    /// To be called, or to have hits counted instead: of each probe as
    /// [`Switch::count`](crate::Switch::count) and [`Switch::deliver`](crate::Switch::deliver) say
    /// last; they are delivered at first.
    Either,
}

impl Wants {
    /// Counters that an attachment with so many probes needs.
    pub(crate) fn counters(self, probes: usize) -> usize {
        match self {
            Self::Tally => probes,
            // One for what is suppressed.
            Self::Hits => 1,
            Self::Either => 1 + probes,
        }
    }
}
