//! What a program asks of discoveries, where there are any.

use std::fmt;
use std::ops::Deref;

use super::call;
use super::callback;
pub use super::callback::Discovered;
use super::counters;
use super::discovery::State;
use super::hooks::published;
use super::news::{self, has_news};
use super::policy;
use super::reason::{Kept, Reason};
use super::stats::Stats;
use crate::consumers::Count;
use crate::control;
use crate::error::Error;
use crate::patch::{self, TextPolicy};

/// Lets call sites be patched in their first hits from now on, and patches those that were hit before. What a program that does nothing else
/// here calls once, at the beginning of `main`: without it, discovered calls stay calls until its first operation of any kind
/// ([`probes`](crate::probes), [`select`](crate::select), …), since a hook can't set up what patching takes.
///
/// ```
/// probe_runtime::finstrument::start();
/// ```
pub fn start() {
    news::expect_any();
    control::look();
}

/// Calls `callback` for each call site that is discovered from now on, on the thread that does, before its first hit returns. Replaces the one before.
///
/// It may be reached wherever the program's functions are called: what it does has to suit that, as for a
/// [`Consumer`](crate::Consumer). Discoveries that it causes itself, or that a consumer causes, are not told
/// ([`Stats::untold`]). A panic ends in it.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// static FOUND: AtomicUsize = AtomicUsize::new(0);
/// probe_runtime::finstrument::on_discovery(|_| _ = FOUND.fetch_add(1, Ordering::Relaxed));
/// ```
pub fn on_discovery(callback: impl Fn(&Discovered<'_>) + Send + Sync + 'static) {
    start();
    callback::set(Some(Box::new(callback)));
}

/// Takes the callback of [`on_discovery`] back; returns when it is not at work any more, unless it is this very thread that is in
/// it.
///
/// ```
/// use probe_runtime::finstrument;
/// finstrument::on_discovery(|found| eprintln!("{found:?}"));
/// // … the program's functions are called for the first time …
/// finstrument::stop_telling();
/// ```
pub fn stop_telling() {
    callback::set(None);
}

/// How the first hits get at their text; [`TextPolicy::Sealed`] if not said otherwise.
///
/// With [`TextPolicy::Open`], the text around a call site stays writable from its first hit on, until this is called with another policy. With
/// [`TextPolicy::Alias`], hits patch nothing, and the next operation does it for all.
///
/// ```
/// use probe_runtime::{TextPolicy, finstrument};
/// finstrument::text(TextPolicy::Open);
/// // … the program's functions are called for the first time …
/// finstrument::text(TextPolicy::Sealed);
/// ```
pub fn text(policy: TextPolicy) {
    start();
    policy::set_text(policy);
    if policy != TextPolicy::Open {
        patch::close_held();
    }
}

/// Counts every discovered function: those known by now, and each from its first hit on, that hit included. There are `capacity` counters;
/// a call site that is discovered takes one (and for a moment each thread that discovers it at the same time), and takes another one when its object is loaded again. What goes beyond stays latent ([`Stats::beyond_capacity`]).
///
/// # Errors
/// [`Error::Growing`] while there is another, [`Error::OutOfCounters`], [`Error::Unpinned`].
///
/// ```
/// use probe_runtime::{Count, finstrument};
/// let calls = finstrument::attach(Count::new(), 1_000)?;
/// println!("{} calls", calls.total());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn attach(count: Count, capacity: usize) -> Result<Attachment, Error> {
    start();
    control::attach_growing(count, capacity).map(|attachment| Attachment { attachment: Some(attachment) })
}

/// The call sites, of objects that are loaded, whose calls stay real ones, and why.
///
/// ```
/// for call in probe_runtime::finstrument::kept() {
///     println!("{call}");
/// }
/// ```
pub fn kept() -> Vec<Kept> {
    let kept = control::discovered().into_iter().filter_map(|(discovery, probe)| {
        let reason = match discovery.state() {
            State::Kept(reason) => reason,
            State::Waiting | State::Patched if discovery.is_shared() => Reason::Shared,
            State::Waiting | State::Patched => return None,
        };
        Some(Kept::new(probe, discovery.returns().map(|returns| call::site(returns).0), reason))
    });
    kept.collect()
}

/// What was discovered until now.
///
/// ```
/// let stats = probe_runtime::finstrument::stats();
/// println!("{} call sites, {} of them stay real calls", stats.discovered, stats.kept);
/// ```
pub fn stats() -> Stats {
    let in_state = |is: fn(State) -> bool| published().filter(|it| is(it.discovery().state())).count();
    Stats {
        discovered: counters::DISCOVERED.get(),
        patched: counters::PATCHED.get(),
        straddlers: counters::STRADDLERS.get(),
        tail_jumps: counters::TAILS.get(),
        kept: in_state(|state| matches!(state, State::Kept(_))),
        waiting: in_state(|state| state == State::Waiting),
        postponed: counters::POSTPONED.get(),
        lost: counters::LOST.get(),
        untold: counters::UNTOLD.get(),
        unnamed: counters::UNNAMED.get(),
        beyond_capacity: counters::BEYOND.get(),
    }
}

/// Prepares what hooks can't: for an operation, before it takes a lock, once there is something to do.
pub(crate) fn get_ready() {
    if has_news() {
        control::prepare();
        patch::make_room();
    }
}

/// A [`Count`] on all that is discovered, from [`attach`]. Derefs to the attachment. Dropped inside a hit, it counts on, and can't be reached any more.
///
/// ```
/// use probe_runtime::{Count, finstrument};
/// let calls = finstrument::attach(Count::new(), 1_000)?;
/// // … the program runs …
/// println!("{calls}"); // the counts
/// println!("{}", calls.report()); // a method of the attachment
/// drop(calls); // all discovered functions are latent again
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[must_use = "dropping the attachment makes its probes latent"]
pub struct Attachment {
    /// `None` once detached.
    attachment: Option<control::Attachment<Count>>,
}

impl Deref for Attachment {
    type Target = control::Attachment<Count>;

    fn deref(&self) -> &Self::Target {
        self.attachment.as_ref().expect("nobody sees it once it is detached")
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let Some(attachment) = self.attachment.take() else { return };
        if control::end_growing() {
            control::look();
            drop(attachment);
        } else {
            std::mem::forget(attachment);
        }
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}
