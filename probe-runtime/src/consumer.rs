//! What may be attached to probes.

use crate::dispatch::Event;

/// Listens to probes. `Count` is one; a program's own are written the same way.
///
/// Life: moved into [`ProbeSet::attach`](crate::ProbeSet::attach); called on every thread that hits one of the
/// probes; dropped when its attachment is gone and no thread is inside it.
///
/// A panic in [`hit`](Self::hit) ends there: the consumer is called no more, its sites become latent, and its
/// attachment [tells](crate::Attachment::failure). Probes that the consumer itself hits are not delivered (to
/// anybody); they are counted as [suppressed](crate::Attachment::suppressed).
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
    /// What it wants: to be called with each hit, or only to have them counted. Asked once, when it is attached.
    fn wants(&self) -> Wants {
        Wants::Hits
    }

    /// One hit, on the thread that made it. It may sit anywhere, in an allocator or a signal handler: a
    /// consumer that allocates or locks is for probes that don't.
    fn hit(&self, event: &Event<'_>);
}

/// What a consumer wants of its probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Wants {
    /// To be called.
    Hits,
    /// To have the hits of each probe counted, per thread and without a call; see
    /// [`Attachment::counts`](crate::Attachment::counts). Such hits are never suppressed.
    Tally,
}
