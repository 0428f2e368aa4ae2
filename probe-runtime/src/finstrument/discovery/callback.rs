//! The program's callback for discoveries.

// Safety: relies on the callback being read only while the thread's slot is marked as telling, and
// freed only when no thread is.
#![expect(unsafe_code, reason = "see above")]

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{fmt, ptr};

use super::call_site::{Discovery, State};
use super::outcome::Reason;
use super::{call, counters};
use crate::engine::control;
use crate::engine::dispatch::{BarrierProof, ReadGuard, WaitFor, synchronize};
use crate::engine::registry::ProbeInfo;
use probe_core::abi::Kind;

type Callback = Box<dyn Fn(&HookCall<'_>) + Send + Sync>;

static CALLBACK: AtomicPtr<Callback> = AtomicPtr::new(ptr::null_mut());

/// A discovered call of a hook, for the callback of [`on_discovery`](super::on_discovery).
///
/// It is valid until the callback returns. Later its object may be unloaded, and its place may
/// belong to another call site. Keep its [probe](Self::probe) or its numbers instead.
///
/// ```
/// use probe_runtime::finstrument;
/// finstrument::on_discovery(|found| {
///     eprint!("{} of the function at {:#x}", found.kind(), found.function());
///     match (found.site(), found.unpatched()) {
///         (_, Some(reason)) => eprintln!(": a real call, {reason}"),
///         (Some(site), None) if found.is_patched() => eprintln!(": a site at {site:#x}"),
///         _ => eprintln!(": to be patched later"),
///     }
/// });
/// ```
///
/// The compiler rejects code that keeps it:
///
/// ```compile_fail,E0521
/// use std::sync::Mutex;
/// use probe_runtime::finstrument::{self, HookCall};
/// static UNPATCHED: Mutex<Vec<HookCall<'static>>> = Mutex::new(Vec::new());
/// finstrument::on_discovery(|found| UNPATCHED.lock().unwrap().push(*found));
/// ```
#[derive(Clone, Copy)]
pub struct HookCall<'a> {
    discovery: &'static Discovery,
    /// Marks that the reference is valid until the callback returns. Until then the thread's slot
    /// is marked, which keeps the place.
    callback: PhantomData<&'a ()>,
}

impl HookCall<'_> {
    /// Returns the address of the function, as the compiler passes it to the hook.
    pub fn function(&self) -> usize {
        self.discovery.hit().function
    }

    /// Returns whether it is an entry or an exit.
    pub fn kind(&self) -> Kind {
        self.discovery.hit().kind
    }

    /// Returns the address of the call's five bytes; `None` if the call is not known
    /// ([`Reason::NotACall`]).
    pub fn site(&self) -> Option<usize> {
        self.discovery.returns().map(|returns| call::site(returns).0)
    }

    /// Returns whether it is a site by now.
    ///
    /// If text is sealed, most call sites are not yet, since they share the opening of a page. A
    /// later hit or operation patches them, unless they [stay real calls](Self::unpatched).
    pub fn is_patched(&self) -> bool {
        self.discovery.is_patched()
    }

    /// Returns why it stays a real call; `None` if it does not.
    pub fn unpatched(&self) -> Option<Reason> {
        match self.discovery.state() {
            State::Unpatched(reason) => Some(reason),
            State::Waiting | State::Patched => None,
        }
    }

    /// Returns its probe, with number, name, file and line; `None` if the object is gone by now.
    ///
    /// This is an operation. It takes locks and the heap, and reads the object's file. Do not call
    /// it if the callback may run in a signal handler or an allocator.
    pub fn probe(&self) -> Option<ProbeInfo> {
        control::probe_of(self.discovery)
    }
}

impl fmt::Debug for HookCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:#x}", self.kind(), self.function())
    }
}

/// Returns whether there is a callback.
pub(super) fn is_set() -> bool {
    !CALLBACK.load(Ordering::Relaxed).is_null()
}

/// Calls the callback, if there is one and it is not running on this thread.
pub(super) fn notify(inside: &ReadGuard, discovery: &'static Discovery) {
    if !is_set() {
        return;
    }
    let told = inside.call(|| {
        // Not before: a signal handler's hit may have called a consumer then, whose mark `wait`
        // does not wait for here.
        // SAFETY: freed only after `wait`, which waits for this thread's mark.
        let Some(callback) = (unsafe { CALLBACK.load(Ordering::Acquire).as_ref() }) else { return };
        // A panic must not cross the program's frames; the panic hook has reported it.
        let found = HookCall { discovery, callback: PhantomData };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| callback(&found))) {
            // Dropping the payload could panic again.
            std::mem::forget(payload);
        }
    });
    if !told {
        counters::UNTOLD.add();
    }
}

/// Replaces the callback.
pub(super) fn set(callback: Option<Callback>) {
    let new = callback.map_or(ptr::null_mut(), |callback| Box::into_raw(Box::new(callback)));
    let old = CALLBACK.swap(new, Ordering::AcqRel);
    // In a hit, the old callback may be in use further down this very stack, so it is leaked.
    let is_left = || synchronize(&BarrierProof::new()?, WaitFor::Callback);
    if !old.is_null() && is_left().is_some() {
        // SAFETY: from `Box::into_raw`, and no thread reads it any more.
        drop(unsafe { Box::from_raw(old) });
    }
}
