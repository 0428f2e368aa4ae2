//! The same where nothing is patched: the hooks are there, and nothing is discovered.

// Safety: relies on nothing; the hooks' names are the compilers'.
#![expect(unsafe_code, reason = "see above")]

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::reason::{Kept, Reason};
use super::stats::Stats;
use crate::abi::Kind;
use crate::consumers::Count;
use crate::control;
use crate::error::Error;
use crate::patch::TextPolicy;
use crate::registry::ProbeInfo;

/// Called by instrumented code at the entry of each function.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_enter(_function: *mut (), _call_site: *mut ()) {}

/// Called by instrumented code before each return of a function.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_exit(_function: *mut (), _call_site: *mut ()) {}

/// A call site that was discovered: here there are none.
#[derive(Clone, Copy, Debug)]
pub struct Discovered<'a>(Infallible, PhantomData<&'a ()>);

impl Discovered<'_> {
    /// The function.
    pub fn function(&self) -> usize {
        match self.0 {}
    }

    /// Entry or exit.
    pub fn kind(&self) -> Kind {
        match self.0 {}
    }

    /// The address of the call's five bytes.
    pub fn site(&self) -> Option<usize> {
        match self.0 {}
    }

    /// Whether it was made a site by now.
    pub fn is_patched(&self) -> bool {
        match self.0 {}
    }

    /// Why it stays a real call, if it does.
    pub fn kept(&self) -> Option<Reason> {
        match self.0 {}
    }

    /// Its probe.
    pub fn probe(&self) -> Option<ProbeInfo> {
        match self.0 {}
    }
}

/// There is nothing to patch.
pub fn start() {}

/// Nothing is discovered, so `callback` is never called.
pub fn on_discovery(callback: impl Fn(&Discovered<'_>) + Send + Sync + 'static) {
    drop(callback);
}

/// There is no callback.
pub fn stop_telling() {}

/// No text is patched.
pub fn text(_policy: TextPolicy) {}

/// Counts nothing.
///
/// # Errors
/// As [`ProbeSet::attach`](crate::ProbeSet::attach).
pub fn attach(count: Count, _capacity: usize) -> Result<Attachment, Error> {
    control::ProbeSet::none().attach(count).map(Attachment)
}

/// None.
pub fn kept() -> Vec<Kept> {
    Vec::new()
}

/// Nothing.
pub fn stats() -> Stats {
    Stats::default()
}

/// A [`Count`] on nothing, from [`attach`]. Derefs to the attachment.
#[must_use = "dropping the attachment makes its probes latent"]
#[derive(Debug)]
pub struct Attachment(control::Attachment<Count>);

impl Deref for Attachment {
    type Target = control::Attachment<Count>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
