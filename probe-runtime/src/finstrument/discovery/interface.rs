//! The interface for programs, on targets that discover functions.

use super::call_site::State;
pub use super::callback::HookCall;
use super::outcome::{Reason, Redirected, Stats, Unpatched};
use super::table::published;
use super::{ahead, call, callback, counters, first_hit, hooks, provider, redirection};
use crate::consumers::Count;
use crate::engine::control::{self, Attachment, Consumer, ProbeSet};
use crate::engine::error::Error;
use crate::engine::registry::provider::note;
use crate::engine::sites::{self, TextPolicy};
use probe_core::abi::Kind;

/// Lets call sites be patched in their first hits from now on, and patches those that were hit
/// before.
///
/// Call it at the beginning of `main`, unless the program uses another operation of this crate
/// there ([`probes`](crate::probes), [`select`](crate::select), …). Until the first operation,
/// discovered calls stay real calls, since a hook can't set up patching by itself.
///
/// ```
/// probe_runtime::finstrument::start();
/// ```
pub fn start() {
    provider::register();
    note();
    control::discover_probes();
}

/// Finds the calls of hooks in loaded objects before they run, and [starts](start). From then on
/// each operation does so for the objects that have come since the last one, so consumers that are
/// attached before a function's first call miss none.
///
/// All functions of these objects are probes then, also those that are never called. A call that
/// the code does not tell the function of is left to its first hit, and so is what an object calls
/// between its loading and the next operation
/// ([`discover_probes`](crate::registry::discover_probes)). Of code that is linked with this crate,
/// only the executable's is looked at.
///
/// Cost: a pass over the text, decoding each function that refers to a hook, and 500 bytes of
/// memory for each call.
///
/// ```
/// use probe_runtime::{Count, finstrument};
/// finstrument::look_ahead();
/// let calls = finstrument::attach(Count::new(), 10_000)?;
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn look_ahead() {
    ahead::begin([Kind::Entry, Kind::Exit].map(hooks::address));
    start();
}

/// Leads calls here that the dynamic linker has bound to the C library's hooks, which do nothing,
/// and [starts](start). From then on their functions are discovered. Calls of objects that are
/// loaded later are led here by the next operation.
///
/// A runtime needs this that was loaded after the objects that call, as a plugin, and one whose
/// executable does not export the hooks ([linking](crate::finstrument#linking)). The words that
/// calls go through are changed, also in pages that the dynamic linker has made read-only: these
/// have their rights back afterwards. A program's own hooks stay as they are.
///
/// A call through a linkage table that the dynamic linker fills at this moment, on another thread,
/// may stay bound to the C library's hook.
///
/// ```
/// let redirected = probe_runtime::finstrument::redirect();
/// println!("{} words lead here", redirected.led);
/// ```
pub fn redirect() -> Redirected {
    redirection::begin([Kind::Entry, Kind::Exit].map(hooks::address));
    start();
    redirection::redirected()
}

/// Leads the calls back that [`redirect`] has led here, and leads no further ones here. Calls that
/// are sites by then stay sites. Those that stay [real calls](unpatched), and active ones across
/// two words, reach the C library's hooks again, and so count no more.
///
/// ```
/// probe_runtime::finstrument::stop_redirecting();
/// ```
pub fn stop_redirecting() {
    redirection::end();
    note();
    control::discover_probes();
}

/// Calls `callback` for each call site that is discovered from now on, on the thread that discovers
/// it, before its first hit returns. Replaces an earlier callback.
///
/// The callback runs wherever the program calls its functions, and must suit that, as a
/// [`Consumer`](crate::Consumer) must. It is not called for discoveries that it or a consumer
/// causes ([`Stats::untold`]). A panic of the callback is caught.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// static FOUND: AtomicUsize = AtomicUsize::new(0);
/// probe_runtime::finstrument::on_discovery(|_| _ = FOUND.fetch_add(1, Ordering::Relaxed));
/// ```
pub fn on_discovery(callback: impl Fn(&HookCall<'_>) + Send + Sync + 'static) {
    start();
    callback::set(Some(Box::new(callback)));
}

/// Removes the callback of [`on_discovery`]. Waits until no thread is in the callback any more; a
/// callback that calls this itself does not wait.
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

/// Sets how first hits write text. The default is [`TextPolicy::Sealed`].
///
/// With [`TextPolicy::Open`], the text around a call site stays writable from its first hit on,
/// until another policy is set. With [`TextPolicy::Alias`], hits patch nothing, and the next
/// operation patches all call sites.
///
/// ```
/// use probe_runtime::finstrument;
/// use probe_runtime::patch::TextPolicy;
/// finstrument::text_policy(TextPolicy::Open);
/// // … the program's functions are called for the first time …
/// finstrument::text_policy(TextPolicy::Sealed);
/// ```
pub fn text_policy(policy: TextPolicy) {
    start();
    first_hit::set_text_policy(policy);
    if policy != TextPolicy::Open {
        sites::close_held();
    }
}

/// Attaches a consumer to every discovered function: those known by now, and each new one. New
/// functions join as they join each [persistent](crate::ProbeSet::persistent) attachment, with the
/// next operation. There is room for `capacity` call sites; further ones stay latent, and are
/// [counted](crate::Attachment::left_out_later).
///
/// A consumer whose hits are only counted
/// ([`DeliveryMode::Counted`](crate::consumer::DeliveryMode::Counted), as [`Count`]'s) gets each
/// new function from its first hit on. For this there are `capacity` further counters, which
/// several such attachments share. Each call site takes one when it is discovered, and another one
/// when its object is loaded again. Threads that discover the same call site at the same time take
/// one each, for a moment. Call sites that find no counter are counted once they have joined.
///
/// # Errors
/// Those of [`ProbeSet::attach`](crate::ProbeSet::attach).
///
/// ```
/// use probe_runtime::{Count, finstrument};
/// let calls = finstrument::attach(Count::new(), 1_000)?;
/// println!("{} calls", calls.total());
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn attach<C: Consumer>(consumer: C, capacity: usize) -> Result<DiscoveryAttachment<C>, Error> {
    start();
    ProbeSet::of_discovered(capacity).attach(consumer)
}

/// Returns the call sites of loaded objects whose calls stay real calls, with the reasons.
///
/// ```
/// for call in probe_runtime::finstrument::unpatched() {
///     println!("{call}");
/// }
/// ```
pub fn unpatched() -> Vec<Unpatched> {
    let all = control::discovered_calls().into_iter().filter_map(|(discovery, probe)| {
        let discovery = provider::discovery_of(discovery)?;
        let reason = match discovery.state() {
            State::Unpatched(reason) => reason,
            State::Waiting | State::Patched if discovery.is_shared() => Reason::Shared,
            State::Waiting | State::Patched => return None,
        };
        Some(Unpatched::new(probe, discovery.returns().map(|returns| call::site(returns).0), reason))
    });
    all.collect()
}

/// Returns the numbers of discoveries until now, by their states.
///
/// ```
/// let stats = probe_runtime::finstrument::stats();
/// println!("{} call sites, {} of them stay real calls", stats.discovered, stats.unpatched);
/// ```
pub fn stats() -> Stats {
    let in_state = |is: fn(State) -> bool| published().filter(|it| is(it.discovery().state())).count();
    Stats {
        discovered: counters::DISCOVERED.get(),
        patched: counters::PATCHED.get(),
        split_calls: counters::SPLIT_CALLS.get(),
        tail_jumps: counters::TAIL_JUMPS.get(),
        unpatched: in_state(|state| matches!(state, State::Unpatched(_))),
        waiting: in_state(|state| state == State::Waiting),
        postponed: counters::POSTPONED.get(),
        lost: counters::LOST.get(),
        untold: counters::UNTOLD.get(),
        unnamed: counters::UNNAMED.get(),
        beyond_capacity: counters::BEYOND_CAPACITY.get(),
    }
}

/// A consumer on all discovered functions, from [`attach`].
///
/// ```
/// use probe_runtime::{Count, finstrument};
/// let calls = finstrument::attach(Count::new(), 1_000)?;
/// // … the program runs …
/// println!("{calls}"); // the counts
/// drop(calls); // all discovered functions are latent again
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub type DiscoveryAttachment<C = Count> = Attachment<C>;
