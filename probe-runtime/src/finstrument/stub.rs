//! The same interface for targets without patching: the hooks exist, and nothing is discovered.

// Safety: relies on nothing; the hooks' names are the compilers'.
#![expect(unsafe_code, reason = "see above")]

use std::convert::Infallible;
use std::marker::PhantomData;

use super::outcome::{Reason, Redirected, Stats, Unpatched};
use crate::consumers::Count;
use crate::engine::control::{Attachment, Consumer, ProbeSet};
use crate::engine::error::Error;
use crate::engine::registry::ProbeInfo;
use crate::engine::sites::TextPolicy;
use probe_core::abi::Kind;

/// Called by instrumented code at the entry of each function.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_enter(_function: *mut (), _call_site: *mut ()) {}

/// Called by instrumented code before each return of a function.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_exit(_function: *mut (), _call_site: *mut ()) {}

/// A discovered call of a hook. On this target there are none.
///
/// ```
/// probe_runtime::finstrument::on_discovery(|found| {
///     println!("{} of the function at {:#x}", found.kind(), found.function());
/// });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'a>(Infallible, PhantomData<&'a ()>);

impl HookCall<'_> {
    /// Returns the address of the function.
    pub fn function(&self) -> usize {
        match self.0 {}
    }

    /// Returns whether it is an entry or an exit.
    pub fn kind(&self) -> Kind {
        match self.0 {}
    }

    /// Returns the address of the call's five bytes.
    pub fn site(&self) -> Option<usize> {
        match self.0 {}
    }

    /// Returns whether it is a site by now.
    pub fn is_patched(&self) -> bool {
        match self.0 {}
    }

    /// Returns why it stays a real call, if it does.
    pub fn unpatched(&self) -> Option<Reason> {
        match self.0 {}
    }

    /// Returns its probe.
    pub fn probe(&self) -> Option<ProbeInfo> {
        match self.0 {}
    }
}

/// Does nothing: there is nothing to patch.
///
/// ```
/// probe_runtime::finstrument::start();
/// ```
pub fn start() {}

/// Does nothing: there is nothing to find.
///
/// ```
/// probe_runtime::finstrument::look_ahead();
/// ```
pub fn look_ahead() {}

/// Does nothing: the hooks do nothing here, either.
///
/// ```
/// assert_eq!(probe_runtime::finstrument::redirect().led, 0);
/// ```
pub fn redirect() -> Redirected {
    Redirected::default()
}

/// Does nothing: no call is redirected.
///
/// ```
/// probe_runtime::finstrument::stop_redirecting();
/// ```
pub fn stop_redirecting() {}

/// Drops `callback`: nothing is discovered.
///
/// ```
/// probe_runtime::finstrument::on_discovery(|_| unreachable!("nothing is discovered here"));
/// ```
pub fn on_discovery(callback: impl Fn(&HookCall<'_>) + Send + Sync + 'static) {
    drop(callback);
}

/// Does nothing: there is no callback.
///
/// ```
/// use probe_runtime::finstrument;
/// finstrument::on_discovery(|found| eprintln!("{found:?}"));
/// finstrument::stop_telling();
/// ```
pub fn stop_telling() {}

/// Does nothing: no text is patched.
///
/// ```
/// use probe_runtime::finstrument;
/// use probe_runtime::patch::TextPolicy;
/// finstrument::text_policy(TextPolicy::Open);
/// ```
pub fn text_policy(_policy: TextPolicy) {}

/// Attaches a consumer to nothing.
///
/// # Errors
/// The same as those of [`ProbeSet::attach`](crate::ProbeSet::attach).
///
/// ```
/// use probe_runtime::{Count, finstrument};
/// let calls = finstrument::attach(Count::new(), 1_000)?;
/// assert_eq!(calls.total(), 0);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn attach<C: Consumer>(consumer: C, _capacity: usize) -> Result<DiscoveryAttachment<C>, Error> {
    ProbeSet::none().attach(consumer)
}

/// Returns an empty list: no call was discovered.
///
/// ```
/// assert!(probe_runtime::finstrument::unpatched().is_empty());
/// ```
pub fn unpatched() -> Vec<Unpatched> {
    Vec::new()
}

/// Returns zeroes: nothing was discovered.
///
/// ```
/// assert_eq!(probe_runtime::finstrument::stats().discovered, 0);
/// ```
pub fn stats() -> Stats {
    Stats::default()
}

/// A consumer on nothing, from [`attach`].
///
/// ```
/// use probe_runtime::{Count, finstrument};
/// let calls = finstrument::attach(Count::new(), 1_000)?;
/// println!("{}", calls.report()); // a method of the attachment
/// assert_eq!(calls.total(), 0);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub type DiscoveryAttachment<C = Count> = Attachment<C>;
