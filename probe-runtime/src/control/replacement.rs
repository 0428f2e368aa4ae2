//! A closure that runs instead of a function, for as long as its guard lives.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::attached::{Attached, Policy};
use super::lock::operate;
use super::ready;
use super::retired::settle;
use super::state::Control;
use super::{HeldText, Wants};
use crate::abi::Definition;
use crate::dispatch::{Action, Awaited, Subscription, Wrapper};
use crate::error::Error;
use crate::patch::{Refusal, RefusalReason, Report, SiteAddr, TextPolicy, Visibility};
use crate::registry::ProbeInfo;
use crate::replaced::Passed;

/// A closure that runs instead of a function, from the `install` that
/// [`#[probe(replace)]`](macro@crate::probe) gives to it. Dropping it removes the closure; several
/// for one function are removed in any order.
///
/// When the drop returns, no call of the function that begins runs the closure any more. Calls that
/// are in it go on, whatever they may be waiting for: each keeps all that it runs alive, and the
/// last of them drops the closure; where a consumer's hit is under way meanwhile, a later operation
/// may. So the guard may be dropped anywhere, also inside of the closure.
///
/// Of objects that come and go, forks, the end of the process and cancelled threads holds what
/// [`Attachment`](crate::Attachment) says; a forked child has the replacement, too. Objects that
/// hold a function that was replaced, or a closure that was installed, stay loaded until the
/// process ends.
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
    /// What activating the function's sites did.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What became of copies of its sites that were loaded later, as
    /// [`Attachment::late_report`](crate::Attachment::late_report) tells.
    pub fn late_report(&self) -> Report {
        operate(|control| {
            let attached = self.number.and_then(|number| control.attached(number));
            attached.map(|attached| attached.late.clone()).unwrap_or_default()
        })
    }

    /// The function's probe, of kind [`Replace`](crate::Kind::Replace), as it is now.
    pub fn probe(&self) -> Option<ProbeInfo> {
        operate(|control| {
            let id = *control.attached(self.number?)?.ids.first()?;
            control.attached_info(id)
        })
    }

    /// Removes the closure, as dropping does, and tells what making the sites latent did.
    pub fn remove(mut self) -> Report {
        self.leave()
    }

    /// The second time, from `drop` after `remove`, there is nothing left to do.
    fn leave(&mut self) -> Report {
        let Some(number) = self.number.take() else { return Report::default() };
        let report = operate(|control| control.detach(number));
        settle(Visibility::Synchronous, Some(Awaited::Passing));
        report
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

impl fmt::Debug for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replacement").field("report", &self.report).finish_non_exhaustive()
    }
}

/// What the macro's `install` calls: puts a closure of the type `W` in the way of calls of the
/// function of `O`. `boxed` makes the closure a `W`; it is code of the object that the closure is
/// of.
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
    crate::registry::see(definition);
    ready::require()?;
    // Nobody could find the function again under its address, nor drop the closure, once they are
    // unloaded.
    ready::keep(std::ptr::from_ref(definition).addr())?;
    ready::keep((boxed as *const ()).addr())?;
    let call: Box<dyn Any + Send + Sync> = Box::new(boxed(closure));
    let subscription = Arc::new(Subscription::of_wrapper(Wrapper::new::<O>(definition, call)));
    let (number, report) = operate(|control| control.install(definition, &subscription));
    settle(Visibility::Synchronous, None);
    let replacement = Replacement { number, report };
    if replacement.report.refused() != 0 {
        return Err(Error::NotReplaced(Box::new(replacement.report.clone())));
    }
    Ok(replacement)
}

impl Control {
    /// Returns the attachment's number, unless the probe is another runtime's.
    fn install(
        &mut self,
        definition: &'static Definition,
        subscription: &Arc<Subscription>,
    ) -> (Option<usize>, Report) {
        let mut report = Report::default();
        let id = self.registry.id_of(definition);
        let ids = self.exclude_taken(&Vec::from_iter(id), &mut report);
        if ids.is_empty() {
            if report.refused() == 0 {
                report.refuse(Refusal::new(SiteAddr(0), RefusalReason::Taken));
            }
            return (None, report);
        }
        // Through the kernel if somebody has asked for that, since the rest may be denied.
        let text = if self.uses_alias() { TextPolicy::Alias } else { TextPolicy::Sealed };
        let policy = Policy { text, ..Policy::default() };
        let attached = Attached::new(ids, Wants::Counts, 0..0, subscription, policy, HeldText::default());
        let number = self.enlist(attached, std::iter::once(Action::Wrap), &[], &mut report);
        (Some(number), report)
    }
}
