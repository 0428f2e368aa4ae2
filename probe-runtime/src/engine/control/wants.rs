//! A consumer's demand on its attachment: hits, counts, or both by turns.

/// How a consumer takes part in the hits of its probes.
///
/// ```
/// use probe_runtime::{Consumer, Count, Wants};
///
/// // The runtime counts for it: hits don't call it.
/// assert_eq!(Count::new().wants(), Wants::Counts);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Wants {
    /// The consumer is called with each hit.
    Hits,
    /// The runtime counts the hits of each probe, per thread and without a call; see
    /// [`Attachment::counts`](crate::Attachment::counts). Such hits are never suppressed.
    Counts,
    /// The consumer is called, or hits are counted instead: for each probe, the last
    /// [`Switch::count`](crate::Switch::count) or [`Switch::deliver`](crate::Switch::deliver)
    /// decides. Hits are delivered at first, unless [`start`](crate::Consumer::start) says
    /// otherwise.
    Switchable,
}

impl Wants {
    /// Returns the number of counters that an attachment to `probes` probes needs.
    pub(crate) fn counters(self, probes: usize) -> usize {
        match self {
            Self::Counts => probes,
            // One counts suppressed hits.
            Self::Hits => 1,
            Self::Switchable => 1 + probes,
        }
    }
}

/// The initial state of a consumer on a probe.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use probe_runtime::{Consumer, Error, Event, ProbeId, Start, Visibility, point, select};
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
    /// Hits are delivered, or counted if the consumer wants [counts](Wants::Counts) only.
    On,
    /// Hits are counted, as after [`Switch::count`](crate::Switch::count), if the consumer is
    /// [switchable](Wants::Switchable). For other consumers the same as [`On`](Self::On).
    Counted,
    /// Its sites stay latent unless other attachments listen, as after
    /// [`Switch::off`](crate::Switch::off).
    Off,
}
