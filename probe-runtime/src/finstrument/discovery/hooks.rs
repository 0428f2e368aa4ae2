//! The two functions that instrumented code calls, and their way from a call to a hit.
//!
//! 1. The thread's slot is marked, so that nothing that the hook reads is freed.
//! 2. The call site is looked up by its return address. A call site that is not in the table, or
//!    that belonged to another object, is discovered. The bytes before the return address are read
//!    as a call ([`read_call`]). A place is taken, filled, and put into the table ([`publish`]). If
//!    several threads try, one of them succeeds.
//! 3. A waiting site is patched, if that can be done now ([`first_hit`]). While steps 2 and 3
//!    change anything, signals are blocked, since a handler may fork, or leave by `siglongjmp`.
//! 4. A thread that has discovered the call site tells the callback.
//! 5. If a consumer listens, this call is a hit: it continues at its stub, as later ones do.
//!
//! Once calls are found [`ahead`], a hook makes no system call but for its thread's slot: it
//! patches nothing, reads no code, and blocks no signals. (A handler that forks or leaves by
//! `siglongjmp` then costs a place of step 2 at most.) While nothing is attached, it does nothing
//! at all.

// Safety: relies on compilers, which call the two functions as C functions of two arguments, and on
// the entries of `call_cache`, which lead to stubs.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::Ordering;

use super::call::{Call, read_call};
use super::call_site::{Discovery, Hit, State};
use super::chunk::ChunkPlace;
use super::stub::COMPARISON_LEN;
use super::table::{self, CallEntry, FoundBy, is_stale, publish};
use super::{
    ahead, call_cache, call_patch, callback, counters, first_hit, provider, shared_calls, tail_jumps,
};
use crate::engine::control;
use crate::engine::dispatch::{ReadGuard, dispatch};
use crate::engine::entry::backend::hooks::{call_stub, hook, return_at_once};
use crate::engine::os::signal_catcher::request_look;
use crate::engine::os::signal_mask::AllSignalsBlocked;
use crate::engine::os::thread::{errno, set_errno};
use probe_core::abi::Kind;

/// Called by instrumented code at the entry of each function, with the addresses of the function
/// and of its call site.
///
/// # Safety
/// For compilers only.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cyg_profile_func_enter(_function: *mut (), _call_site: *mut ()) {
    hook!(entered, "probe_v1_hook_entered", call_cache)
}

/// Called by instrumented code before each return of a function.
///
/// # Safety
/// For compilers only.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cyg_profile_func_exit(_function: *mut (), _call_site: *mut ()) {
    hook!(left, "probe_v1_hook_left", call_cache)
}

extern "C" fn entered(function: usize, returns: usize, hook: usize, stack: usize) -> usize {
    handle(Hit { function, kind: Kind::Entry }, HookFrame { returns, hook, stack })
}

extern "C" fn left(function: usize, returns: usize, hook: usize, stack: usize) -> usize {
    handle(Hit { function, kind: Kind::Exit }, HookFrame { returns, hook, stack })
}

/// How a hook was reached: its return address, which lies at `stack`, and its own address.
#[derive(Clone, Copy)]
struct HookFrame {
    returns: usize,
    hook: usize,
    stack: usize,
}

/// Returns the code that delivers the hit; 0 if nothing is left to do.
fn handle(hit: Hit, by: HookFrame) -> usize {
    let HookFrame { returns, hook, .. } = by;
    if ahead::is_on() {
        if !control::is_any_attached() && !callback::is_set() {
            // Not even a slot is taken, which would take system calls.
            return 0;
        }
        ahead::await_look(returns, hit.function);
    }
    let errno = errno();
    let mut rest = 0;
    if let Some(inside) = ReadGuard::new() {
        match find_known(hit, returns, hook) {
            Some(known) => {
                // SAFETY: the hook's own call, which was just executed.
                let mut is_enabled = patch_if_due(known, returns, || unsafe { read_call(returns, hook) });
                // An operation has made it a site while this thread was on its way.
                is_enabled |= ahead::is_on() && shared_calls::is_listened_to(known.discovery);
                rest = deliver(&inside, known, by, is_enabled);
                if !is_enabled && ahead::is_on() {
                    cache_return(known, returns);
                }
            }
            None => rest = discover(&inside, hit, by),
        }
    }
    set_errno(errno);
    rest
}

/// A call site, as far as it is known.
#[derive(Clone, Copy)]
struct KnownCall {
    discovery: &'static Discovery,
    /// The discovery whose call site the hit came by, if that is another function's.
    owner: Option<&'static Discovery>,
}

/// Patches a call if that is due, and delivers it as a hit if a consumer listens.
fn patch_and_deliver(
    inside: &ReadGuard,
    known: KnownCall,
    by: HookFrame,
    call: impl FnOnce() -> Option<Call>,
) -> usize {
    let is_enabled = patch_if_due(known, by.returns, call);
    deliver(inside, known, by, is_enabled)
}

/// Patches a waiting call, or writes the bytes of a switched one anew, as far as a hook can.
/// Returns whether a consumer listens.
fn patch_if_due(
    KnownCall { discovery, owner }: KnownCall,
    returns: usize,
    call: impl FnOnce() -> Option<Call>,
) -> bool {
    // Before it is patched; after that, its bytes say so.
    let is_enabled = discovery.is_enabled();
    if discovery.state() == State::Waiting {
        let may_patch = may_make_system_calls() && control::is_initialized() && first_hit::may_write();
        match may_patch.then(call) {
            Some(Some(call)) => {
                let _whole = AllSignalsBlocked::new();
                if discovery.begin_change() {
                    first_hit::patch_now(discovery, call);
                    discovery.end_change();
                }
            }
            Some(None) => {}
            None => discovery.postpone(),
        }
    } else if !is_enabled && discovery.is_switched() && discovery.has_tail_jumps() {
        tail_jumps::note_unexpected_hit(discovery);
    } else if !is_enabled && discovery.is_switched() && !may_make_system_calls() {
        provider::note_pending(discovery);
    } else if !is_enabled && discovery.is_switched() && first_hit::may_write() {
        // This thread was late, or the object was loaded anew.
        let _whole = AllSignalsBlocked::new();
        if discovery.switch().is_some_and(|switch| call_patch::sync_now(discovery, switch).is_err()) {
            provider::note_pending(discovery);
        }
    }
    if is_enabled && !discovery.is_site() && discovery.state() != State::Waiting {
        cache_stub(discovery, owner, returns);
    }
    is_enabled
}

/// Delivers a hit, if a consumer listens, or returns the stub that does: a call continues there, so
/// that its hit has the registers of its site. Only the others are delivered without.
fn deliver(
    inside: &ReadGuard,
    KnownCall { discovery, owner }: KnownCall,
    by: HookFrame,
    is_enabled: bool,
) -> usize {
    let is_own_call = owner.is_none() && discovery.returns() == Some(by.returns);
    if is_enabled
        && is_own_call
        && let Some(stub) = stub_of(discovery)
    {
        return stub;
    }
    let definition = match owner {
        Some(owner) if !is_enabled => shared_calls::sibling_definition(inside, discovery, owner),
        _ => discovery.definition_inside(inside).filter(|_| is_enabled),
    };
    if let Some(definition) = definition {
        // The stack pointer at the site. The return address of a jump is its function's own, so
        // that the one above belongs to the caller.
        let is_call = owner.is_some() || discovery.returns() == Some(by.returns);
        let stack_pointer = if is_call { by.stack + size_of::<usize>() } else { by.stack };
        // No probe of a hook has fields that would be read there. The hook has left below it what
        // leads to callers.
        dispatch(definition, ptr::with_exposed_provenance(stack_pointer));
    }
    0
}

/// Returns the stub of a call, behind its comparison; `None` if the system lets it have none.
fn stub_of(discovery: &'static Discovery) -> Option<usize> {
    let place = ChunkPlace::of(discovery).filter(|place| place.refusal().is_none())?;
    Some(place.stub() + COMPARISON_LEN)
}

/// Leads the next hits of a call from the cache to its stub, as long as a consumer listens. The
/// call must neither be a site nor wait to become one.
fn cache_stub(discovery: &'static Discovery, owner: Option<&'static Discovery>, returns: usize) {
    let Some(stub) = stub_of(discovery) else { return };
    let is_call = owner.unwrap_or(discovery).returns() == Some(returns);
    let target = if is_call { stub } else { call_stub_after_jump as *const () as usize };
    discovery.cached.fill(returns, discovery.hit().function, [target, stub], || discovery.is_enabled());
}

/// The way of a wanted hit by a jump to its stub, from its entry of the cache. The stub
/// takes the address above its own return address for the stack pointer at the site, as of a call.
/// So it is called here, and finds that of the jump.
#[unsafe(naked)]
unsafe extern "C" fn call_stub_after_jump() {
    call_stub!(call_cache::STUB)
}

/// Makes the next hits by a return address end at the cache, as long as no consumer listens. Calls
/// are found ahead then, so only operations notice that another object was loaded there.
fn cache_return(KnownCall { discovery, .. }: KnownCall, returns: usize) {
    let is_real = matches!(discovery.state(), State::Unpatched(_));
    if is_real && discovery.sibling.load(Ordering::Relaxed).is_null() {
        let target = return_at_once_to_caller as *const () as usize;
        discovery.cached.fill(returns, discovery.hit().function, [target, 0], || !discovery.is_enabled());
    }
}

/// The target of hits while no consumer listens.
#[unsafe(naked)]
unsafe extern "C" fn return_at_once_to_caller() {
    return_at_once!()
}

#[cold]
fn discover(inside: &ReadGuard, hit: Hit, by: HookFrame) -> usize {
    let HookFrame { returns, hook, .. } = by;
    // SAFETY: the hook's own call, which was just executed.
    let call = may_make_system_calls().then(|| unsafe { read_call(returns, hook) }).flatten();
    if call.is_none()
        && let Some(known) = find_known(hit, returns, hook)
    {
        // Another thread, or a signal handler of this one, was faster. It published its discovery
        // before it changed the call.
        return patch_and_deliver(inside, known, by, || None);
    }
    let owner = owner_of(returns, hit, hook);
    let found = {
        let _whole = may_make_system_calls().then(AllSignalsBlocked::new);
        provider::register();
        let by = if may_make_system_calls() { FoundBy::Hit } else { FoundBy::QuietHit };
        // SAFETY: the hook returns into the text of its call, or of the function that jumped here.
        unsafe { publish(inside, hit, call, owner, hook, by) }
    };
    let Some((discovery, is_new)) = found else {
        counters::LOST.add();
        return 0;
    };
    owner.into_iter().for_each(shared_calls::mark_shared);
    let known = KnownCall { discovery, owner };
    let mut is_enabled = patch_if_due(known, returns, || call);
    if is_new {
        if may_make_system_calls() {
            request_look();
        }
        callback::notify(inside, discovery);
        // The callback may have attached a consumer, which gets this hit, too.
        is_enabled |= shared_calls::is_listened_to(discovery);
    }
    deliver(inside, known, by, is_enabled)
}

/// Returns the discovery of this call, if it is still valid.
fn find_known(hit: Hit, returns: usize, hook: usize) -> Option<KnownCall> {
    let owner = table::find(returns).and_then(CallEntry::discovery);
    if let Some(discovery) = owner {
        let is_same = discovery.hit() == hit;
        // Sites do not come here, except with a thread that was late.
        if (discovery.is_site() || !is_same) && is_stale_here(discovery, hook) {
            return None;
        }
        if is_same {
            return Some(KnownCall { discovery, owner: None });
        }
    }
    let discovery = table::find(hit.key()).and_then(CallEntry::discovery)?;
    owner.into_iter().for_each(shared_calls::mark_shared);
    Some(KnownCall { discovery, owner })
}

/// Returns whether a hook may make system calls of its own. Once calls are found ahead, it does
/// not: operations find and patch calls as far as they can, and the program may have filters of
/// system calls by now.
fn may_make_system_calls() -> bool {
    !ahead::is_on()
}

/// Returns whether a discovery with the return address of this hook's own call is out of date.
fn is_stale_here(discovery: &Discovery, hook: usize) -> bool {
    // SAFETY: the hook returns there.
    may_make_system_calls() && unsafe { is_stale(discovery, hook) }
}

/// Returns the discovery that owns a call, if another function owns it. Two inlined functions may
/// end in one call.
fn owner_of(returns: usize, hit: Hit, hook: usize) -> Option<&'static Discovery> {
    let known = table::find(returns).and_then(CallEntry::discovery);
    known.filter(|known| known.hit() != hit && !is_stale_here(known, hook))
}

// The hooks' code, which each hook's assembler names.
unsafe extern "C" {
    safe static probe_v1_hook_entered: u8;
    safe static probe_v1_hook_left: u8;
}

/// Returns a hook's address, as calls lead to it. By a second name, which no other object has: in a
/// library that is loaded later, the first one is the C library's.
pub(super) fn address(kind: Kind) -> usize {
    let hook =
        if kind == Kind::Entry { &raw const probe_v1_hook_entered } else { &raw const probe_v1_hook_left };
    hook.addr()
}
