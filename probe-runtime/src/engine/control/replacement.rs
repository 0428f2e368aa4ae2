//! Closures that run instead of a function while a guard lives.

use std::any::Any;
use std::sync::Arc;
use std::{fmt, iter};

use super::attachments::AttachmentRecord;
use super::lock::{Control, operate};
use super::reclaim::finish_operation;
use super::site_backend::HeldText;
use super::sites::PatchPolicy;
use super::{DeliveryMode, init};
use crate::engine::dispatch::{Action, Subscription, WaitFor, Wrapper};
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::ProbeInfo;
use crate::engine::sites::{Refusal, RefusalReason, Report, SiteAddr, Visibility};
use crate::replaced::Passed;
use probe_core::abi::Definition;

/// A guard of a closure that runs instead of a function. The `install` that
/// [`#[probe(replace)]`](macro@crate::probe) gives to the function returns it. Dropping it removes
/// the closure. Several closures of one function may be removed in any order.
///
/// When the drop has returned, calls of the function that begin do not run the closure any more.
/// Calls that are in it continue, however long they wait: each keeps alive all that it runs, and
/// the last of them drops the closure. If a consumer's hit is under way at that time, a later
/// operation may drop it. So the guard may be dropped anywhere, even inside the closure.
///
/// [`Attachment`](crate::Attachment#while-it-is-attached) describes objects that come and go,
/// forks, the end of the process and cancelled threads; the same holds here. A forked child has the
/// replacement, too. Objects that contain a replaced function or an installed closure stay loaded
/// until the process ends.
///
/// ```
/// use probe_runtime::probe;
///
/// #[probe(replace)]
/// fn price(item: &str, count: u32) -> u32 {
///     item.len() as u32 * count
/// }
///
/// let half = price::install(|original, item, count| original(item, count) / 2)?;
/// assert_eq!(price("pear", 10), 20);
/// drop(half);
/// assert_eq!(price("pear", 10), 40);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[must_use = "dropping it removes the closure"]
pub struct Replacement {
    /// `None` once removed.
    number: Option<usize>,
    report: Report,
}

impl Replacement {
    /// Returns the result of activating the function's sites.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the result of activating copies of its sites that were loaded later, as
    /// [`Attachment::late_report`](crate::Attachment::late_report) does.
    pub fn late_report(&self) -> Report {
        let late = |number| operate(|control, _| control.attachments.late_report(number));
        self.number.map(late).unwrap_or_default()
    }

    /// Returns the function's probe, of kind [`Replace`](crate::Kind::Replace), in its present
    /// state.
    pub fn probe(&self) -> Option<ProbeInfo> {
        operate(|control, loaded| {
            let id = *control.attachments.record(self.number?)?.ids.first()?;
            Some(control.infos(&[id], loaded).next()?.1)
        })
    }

    /// Removes the closure, as dropping does, and returns the result of making the sites latent.
    pub fn remove(mut self) -> Report {
        self.remove_once()
    }

    /// Removes the closure on the first call. `drop` calls it again after `remove`; that does
    /// nothing.
    fn remove_once(&mut self) -> Report {
        let Some(number) = self.number.take() else { return Report::default() };
        let report = operate(|control, loaded| control.detach(number, loaded));
        finish_operation(Visibility::Synchronous, Some(WaitFor::Passing));
        report
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        let _ = self.remove_once();
    }
}

impl fmt::Debug for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replacement").field("report", &self.report).finish_non_exhaustive()
    }
}

/// Installs a closure of the type `W` in front of calls of a function of the type `O`. The macro's
/// `install` calls this. `boxed` makes the closure a `W`; its code lies in the same object as the
/// closure's.
///
/// # Errors
/// [`Error::WithoutProbes`], [`Error::Unpinned`], [`Error::NotReplaced`].
pub fn install<O, W, F>(function: Passed, closure: F, boxed: fn(F) -> Box<W>) -> Result<Replacement, Error>
where
    O: ?Sized + 'static,
    W: ?Sized + Send + Sync + 'static,
{
    let definition = function.definition().ok_or(Error::WithoutProbes)?;
    #[cfg(all(probe_backend = "portable", probe_definitions = "seen"))]
    probe_core::site::backend::seen::see(definition);
    init::try_init()?;
    // Once these objects were unloaded, the function could not be found by its address again, and
    // the closure could not be dropped.
    init::pin_object_at(std::ptr::from_ref(definition).addr())?;
    init::pin_object_at((boxed as *const ()).addr())?;
    let call: Box<dyn Any + Send + Sync> = Box::new(boxed(closure));
    let subscription = Arc::new(Subscription::of_wrapper(Wrapper::new::<O>(definition, call)));
    let (number, report) = operate(|control, loaded| control.install(definition, &subscription, loaded));
    finish_operation(Visibility::Synchronous, None);
    let replacement = Replacement { number, report };
    if replacement.report.refused() != 0 {
        return Err(Error::NotReplaced(Box::new(replacement.report.clone())));
    }
    Ok(replacement)
}

impl Control {
    /// Installs a wrapper; returns the attachment's number, or `None` if another runtime has taken
    /// the probe.
    fn install(
        &mut self,
        definition: &Definition,
        subscription: &Arc<Subscription>,
        loaded: KeptLoaded<'_>,
    ) -> (Option<usize>, Report) {
        let mut report = Report::default();
        let id = self.registry.id_of(definition);
        let ids = self.exclude_taken(&Vec::from_iter(id), &mut report, loaded);
        if ids.is_empty() {
            if report.refused() == 0 {
                report.refuse(Refusal::new(SiteAddr(0), RefusalReason::Taken));
            }
            return (None, report);
        }
        let policy = PatchPolicy { text: self.attachments.common_text_policy(), ..PatchPolicy::default() };
        let (delivery, text) = (DeliveryMode::Counted, HeldText::default());
        let record = AttachmentRecord::new(ids, delivery, 0..0, subscription, policy, text);
        let number = self.register_attachment(record, iter::once(Action::Wrap), &[], &mut report, loaded);
        (Some(number), report)
    }
}
