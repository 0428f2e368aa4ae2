//! Puts call sites into the table, for hooks that reach them and for operations that find them
//! ahead.

// Safety: relies on callers, whose call sites are in text that stays mapped: a hook's own call's,
// or that of a loaded object.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering;

use super::call::Call;
use super::call_site::{Discovery, Hit, State};
use super::chunk;
use super::garbage::ReplacedHook;
use super::read_call::call_of;
use super::reason::Reason;
use super::{counted, counters, pending, shared, table};
use crate::engine::dispatch::ReadGuard;
use crate::engine::registry::provider::{CallSite, note_all};
use crate::engine::sites::SiteAddr;

/// Returns whether a discovery is out of date: another object was loaded there, or the same one
/// anew. Then a site is a call again, or the call is another one.
///
/// # Safety
/// The text before its return address stays mapped.
pub(super) unsafe fn is_stale(discovery: &Discovery, hook: usize) -> bool {
    // In this order: the thread that makes it a site has published it before.
    let is_site = discovery.is_site();
    // SAFETY: the caller's promise.
    let there = discovery.returns().and_then(|returns| unsafe { call_of(returns, hook) });
    there.is_some_and(|call| is_site || discovery.call() != Some(call))
}

/// The finder of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FoundBy {
    /// An operation, which has seen that the function tells the hook of itself here: the address
    /// of a call or a jump.
    Operation {
        at: usize,
    },
    Hit,
    /// A hit that makes no system calls, and so maps no memory.
    QuietHit,
}

/// Puts a call into the table. Returns whether it is new there; `None` if there is no memory. The
/// provider is registered.
///
/// # Safety
/// The text around the call, or of the function if the call is not known, stays mapped.
pub(super) unsafe fn publish(
    inside: &ReadGuard,
    hit: Hit,
    call: Option<Call>,
    owner: Option<&'static Discovery>,
    hook: usize,
    by: FoundBy,
) -> Option<(&'static Discovery, bool)> {
    let call = call.filter(|_| owner.is_none());
    let (key, near, state) = match call {
        Some(call) => (call.returns(), call.site(), State::Waiting),
        None => (hit.key(), SiteAddr(hit.function), State::Unpatched(Reason::NotACall)),
    };
    let may_map = by != FoundBy::QuietHit;
    let entry = if may_map { table::find_or_insert(key) } else { table::find_or_place(key) }?;
    loop {
        let old = entry.discovery();
        // SAFETY: a discovery of this call.
        if let Some(known) = old.filter(|old| !unsafe { is_stale(old, hook) }) {
            return Some((known, false));
        }
        let place = if may_map { chunk::take(near) } else { chunk::take_mapped() }?;
        let no_stub = place.refusal().filter(|_| state == State::Waiting);
        let state = no_stub.map_or(state, |errno| State::Unpatched(Reason::NoStub { errno }));
        let member = counted::member(inside);
        let is_beyond = member.is_none() && counted::is_on();
        Discovery::write(place, key, call, hit, hook, state, member);
        if let FoundBy::Operation { at } = by {
            place.discovery().told_at.store(at, Ordering::Relaxed);
        }
        if let Some(owner) = owner {
            shared::find_twin(place.discovery(), owner);
        }
        if entry.replace(old, Some(place.discovery())).is_ok() {
            counters::DISCOVERED.add();
            if is_beyond {
                place.discovery().go_beyond();
            }
            if let Some(old) = old {
                old.leave();
                note_all();
            }
            pending::note(place.discovery());
            return Some((place.discovery(), true));
        }
        // Another thread was faster. No thread has seen this one.
        let counter = place.discovery().counter();
        drop(ReplacedHook::take(place.discovery()));
        chunk::give_back(place);
        counter.into_iter().for_each(|counter| counted::give_back(inside, counter));
    }
}
