//! Consumers, which are attached to probes.

use std::sync::Arc;

use super::{ProbeSet, Switch};
use crate::engine::c_values::WantedFields;
use crate::engine::dispatch::{Action, CounterAt, Event, Listener, Quick, Recorder};
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;

/// Listens to probes. [`Count`](crate::Count) and [`Aggregate`](crate::Aggregate) are consumers,
/// and so are those of [features](crate#consumers). You can write your own in the same way.
///
/// Life: a consumer moves into [`ProbeSet::attach`](crate::ProbeSet::attach). It is called on every
/// thread that hits one of the probes. It is dropped when its attachment is gone and no thread is
/// inside it. A long hit [delays](crate::Attachment#waiting) only threads that detach or pause this
/// consumer.
///
/// A panic in [`hit`](Self::hit) ends there. The consumer is not called any more, its sites become
/// latent, and its attachment [reports the failure](crate::Attachment::failure). (A panic of a
/// field that is being [shown](crate::losses::failed_captures) does not count as the consumer's.)
/// Hits that the consumer itself causes are delivered to no consumer. They are counted as
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
    /// Returns whether hits are delivered to the consumer, counted for it, or both by turns. Called
    /// once, when it is attached.
    fn delivery_mode(&self) -> DeliveryMode {
        DeliveryMode::Delivered
    }

    /// Returns whether the consumer is useless without a thread of its own, such as one that
    /// empties its buffers. Called once, when it is attached.
    ///
    /// A forked child has only the thread that forked. If a consumer needs a thread, its attachment
    /// is detached there: the consumer is not called any more, its sites become latent unless
    /// others listen, and [`Attachment::failure`](crate::Attachment::failure) says so. The parent's
    /// attachment continues. So do all other attachments in the child, each with a copy of its
    /// counts.
    fn needs_thread(&self) -> bool {
        false
    }

    /// Returns whether a hit must begin only when everything before its site is done. Called once,
    /// when the consumer is attached.
    ///
    /// Processors work ahead: they may execute a hit before the last of the function's own work, or
    /// beside it. Without order, a consumer that reads a clock measures calls under some 50 ns as
    /// anything from zero to the call plus its hit. With order, it measures the call and the part
    /// of its two hits that lies between the readings, which is always the same. A delivered hit
    /// takes some 5 ns more (`lfence`; Intel SDM 2A, "LFENCE"). A counted hit takes no more. If
    /// sites are not patched in place, there is no such order.
    fn needs_order(&self) -> bool {
        false
    }

    /// Returns whether the consumer needs the entry of each call whose exit it gets. Called once,
    /// when it is attached with a predicate: see
    /// [`ProbeSet::attach_if`](crate::ProbeSet::attach_if).
    fn pairs_calls(&self) -> bool {
        false
    }

    /// Gets ready for hits of these probes, before any of their sites is active. Allocate memory
    /// here, and look at the probes. [`attach`](crate::ProbeSet::attach) calls it once, on the
    /// thread that attaches. It may use this crate.
    ///
    /// # Errors
    /// Any error that keeps it from listening. `attach` then returns the error, and nothing has
    /// changed.
    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        let _ = probes;
        Ok(())
    }

    /// Returns how the consumer starts on this probe: the state until its [`Switch`] changes it.
    /// Called once for each probe, after [`prepare`](Self::prepare).
    fn start(&self, probe: ProbeId) -> Start {
        let _ = probe;
        Start::On
    }

    /// Called when the consumer is attached and its sites are active. Start a thread here; the
    /// thread may keep `switch` to make probes latent, and active again, while hits continue.
    /// [`attach`](crate::ProbeSet::attach) calls it once, on the thread that attaches. It may use
    /// this crate. Hits may arrive before this call.
    ///
    /// Such a thread ends with the consumer: the consumer's `drop` tells it to end and waits for
    /// it. (A forked child has a copy of the consumer, but not the thread: see
    /// [`needs_thread`](Self::needs_thread).)
    ///
    /// # Errors
    /// Any error that keeps it from working. The consumer is then detached, and `attach` returns
    /// the error.
    fn attached(&self, switch: Switch) -> Result<(), Error> {
        let _ = switch;
        Ok(())
    }

    /// Gets ready for hits of probes that have appeared, if the set was
    /// [persistent](ProbeSet::persistent), before any of their sites is active. `probes` are the
    /// new ones, which may be some of a function's only. Then [`start`](Self::start) is called for
    /// each of them. Hits of other probes continue meanwhile. Without this method, the consumer
    /// gets hits of probes that [`prepare`](Self::prepare) has not seen. It may be called with a
    /// probe again, if its object was unloaded before the probe has joined.
    ///
    /// It is called on the thread whose operation has found the probes, or on one of this crate's
    /// that looks for them, one thread at a time, and is no cancellation point. It must not take a
    /// lock that a thread holds while it uses this crate: neither one of the program's, nor, by
    /// `dlopen` or `dlsym`, the dynamic linker's, since a constructor may attach. It may use this
    /// crate; other threads' operations that look for new objects wait until it returns, unless
    /// they are inside a hit.
    ///
    /// # Errors
    /// Any error that keeps these probes out. The attachment continues without them, and
    /// [says so](crate::Attachment::left_out_later).
    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let _ = probes;
        Ok(())
    }

    /// Returns whether [`join`](Self::join) and [`start`](Self::start) are those of this trait, so
    /// that probes join without a call of the consumer, also inside of a hit.
    #[doc(hidden)]
    fn joins_at_once(&self) -> bool {
        false
    }

    /// Returns where hits are recorded, for a consumer of this crate that lets the way in write to
    /// its memory. Called once, after [`prepare`](Self::prepare).
    #[doc(hidden)]
    fn recorder(&self) -> Option<Recorder> {
        None
    }

    /// Returns the names of fields that hits of C functions should have, although their sites pass
    /// none. Called once, before [`prepare`](Self::prepare).
    #[doc(hidden)]
    fn wanted_fields(&self) -> WantedFields {
        WantedFields::default()
    }

    /// Learns that objects have come or gone, before sites in them are active. It is called under
    /// this crate's locks and the dynamic linker's, and uses neither this crate nor the linker.
    #[doc(hidden)]
    fn look_at_objects(&self) {}

    /// Learns that its attachment is about to be paused, or is paused once more.
    #[doc(hidden)]
    fn pausing(&self) {}

    /// Returns the part of `hit` that needs few registers, for a consumer of this crate. Called
    /// once, after [`prepare`](Self::prepare).
    #[doc(hidden)]
    fn quick(&self) -> Option<Quick> {
        None
    }

    /// Receives one hit, on the thread that made it. The site may be anywhere, even in an allocator
    /// or a signal handler: attach a consumer that allocates or locks only to probes elsewhere.
    /// `hit` must not leave by `longjmp`, and must not end the thread.
    ///
    /// In a program that cancels its threads (`pthread_cancel`), a cancellation that takes effect
    /// in `hit` aborts the program, since it can't cross Rust's frames. That can happen at the C
    /// library's cancellation points (reading, writing, sleeping). A consumer with such points
    /// disables cancellation around them (`pthread_setcancelstate`). Counting has none.
    fn hit(&self, event: &Event<'_>);
}

/// Dispatch, a lower layer, calls consumers through its own trait.
impl<C: Consumer> Listener for C {
    fn needs_thread(&self) -> bool {
        Consumer::needs_thread(self)
    }

    fn needs_order(&self) -> bool {
        Consumer::needs_order(self)
    }

    fn look_at_objects(&self) {
        Consumer::look_at_objects(self);
    }

    #[inline(always)]
    fn hit(&self, event: &Event<'_>) {
        Consumer::hit(self, event);
    }
}

/// A closure or a function is called with each hit. Its parameter's type must be written out here;
/// [`ProbeSet::attach_fn`] infers it.
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

/// The methods of a pointer to a consumer, which forward to the consumer.
macro_rules! forward_to_consumer {
    () => {
        forward_to_consumer! {
            fn delivery_mode(&self) -> DeliveryMode;
            fn needs_thread(&self) -> bool;
            fn needs_order(&self) -> bool;
            fn pairs_calls(&self) -> bool;
            fn prepare(&self, probes: &ProbeSet) -> Result<(), Error>;
            fn join(&self, probes: &ProbeSet) -> Result<(), Error>;
            fn joins_at_once(&self) -> bool;
            fn start(&self, probe: ProbeId) -> Start;
            fn recorder(&self) -> Option<Recorder>;
            fn wanted_fields(&self) -> WantedFields;
            fn quick(&self) -> Option<Quick>;
            fn look_at_objects(&self);
            fn pausing(&self);
            fn attached(&self, switch: Switch) -> Result<(), Error>;
            fn hit(&self, event: &Event<'_>);
        }
    };
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)?) $(-> $result:ty)?;)+) => {
        $(
            #[inline]
            fn $name(&self $(, $argument: $type)?) $(-> $result)? {
                (**self).$name($($argument)?)
            }
        )+
    };
}

/// A consumer that is chosen at run time. (Only this box is a consumer through its contents: a box
/// of a closure is itself a closure.)
///
/// ```
/// use probe_runtime::{Consumer, Count, Event, probe, select};
/// #[probe]
/// fn chosen() {}
/// chosen();
/// let is_counting = true;
/// let consumer: Box<dyn Consumer> = if is_counting {
///     Box::new(Count::new())
/// } else {
///     Box::new(|event: &Event<'_>| println!("{event:?}"))
/// };
/// let attached = select("**::chosen kind=entry")?.attach(consumer)?;
/// chosen();
/// assert_eq!(attached.counts().total(), 1);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
impl Consumer for Box<dyn Consumer> {
    forward_to_consumer!();
}

/// A shared consumer: its data outlives its attachment. A consumer that may be attached only once
/// (each of this crate's own, except [`Count`](crate::Count)) may be attached once in total,
/// through whatever pointer.
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
    forward_to_consumer!();
}

/// Whether the hits of a consumer's probes are delivered to it, or counted for it.
///
/// ```
/// use probe_runtime::consumer::DeliveryMode;
/// use probe_runtime::{Consumer, Count};
///
/// // The runtime counts for it: hits don't call it.
/// assert_eq!(Count::new().delivery_mode(), DeliveryMode::Counted);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeliveryMode {
    /// Each hit calls [`Consumer::hit`].
    Delivered,
    /// The runtime counts the hits of each probe, per thread and without a call; see
    /// [`Attachment::counts`](crate::Attachment::counts). Such hits are never suppressed.
    Counted,
    /// The consumer is called, or hits are counted instead: for each probe, the last
    /// [`Switch::count`](crate::control::Switch::count) or
    /// [`Switch::deliver`](crate::control::Switch::deliver) decides. Hits are delivered at first,
    /// unless [`start`](crate::Consumer::start) says otherwise.
    Switchable,
}

impl DeliveryMode {
    /// Returns the number of counters that an attachment to `probes` probes needs.
    pub(crate) fn counters(self, probes: usize) -> usize {
        match self {
            Self::Counted => probes,
            // One counts suppressed hits.
            Self::Delivered => 1,
            Self::Switchable => 1 + probes,
        }
    }

    /// Returns the effect of a hit, given the numbers of the attachment's counter of suppressed
    /// hits and of its own counter of the probe, if there are such counters in this mode.
    pub(super) fn action(self, suppressed: usize, own: usize) -> Action {
        let own = || CounterAt::new(own);
        let call = |counted| Action::Call { suppressed: CounterAt::new(suppressed), counted };
        match self {
            Self::Counted => Action::Count(own()),
            Self::Delivered => call(None),
            Self::Switchable => call(Some(own())),
        }
    }
}

/// The initial state of a consumer on a probe.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::consumer::Start;
/// use probe_runtime::patch::Visibility;
/// use probe_runtime::registry::ProbeId;
/// use probe_runtime::{Consumer, Error, Event, point, select};
///
/// /// Hears nothing before it is told to.
/// #[derive(Default)]
/// struct Later(AtomicU64);
///
/// impl Consumer for Later {
///     fn start(&self, _: ProbeId) -> Start {
///         Start::Off
///     }
///
///     fn hit(&self, _: &Event<'_>) {
///         self.0.fetch_add(1, Relaxed);
///     }
/// }
///
/// let step = || point!("later_step");
/// let later = select("**::later_step")?.attach(Later::default())?;
/// step();
/// later.switch().on(&[later.probes()[0].id()], Visibility::Synchronous);
/// step();
/// assert_eq!(later.0.load(Relaxed), 1);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Start {
    /// Hits are delivered, or counted if the consumer's mode is
    /// [`Counted`](DeliveryMode::Counted).
    On,
    /// Hits are counted, as after [`Switch::count`](crate::control::Switch::count), if the consumer
    /// is [switchable](DeliveryMode::Switchable). For other consumers the same as [`On`](Self::On).
    Counted,
    /// Its sites stay latent unless other attachments listen, as after
    /// [`Switch::off`](crate::control::Switch::off).
    Off,
}
