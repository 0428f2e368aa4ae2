//! Patching deferred calls in an operation, which may do what a hook may not.

// Safety: relies on `Frozen`: text that is in a loaded object's segments stays mapped.
#![expect(unsafe_code, reason = "see above")]

use super::call::Call;
use super::call_site::{Discovery, State};
use super::loaded::Loaded;
use super::pending::{self, PendingDiscoveries};
use super::read_call::call_of;
use super::reason::Reason;
use super::reconcile::is_there;
use super::tokens::Exclusive;
use super::{first_hit, policy, shared, split_calls, tail_jumps};
use crate::engine::sites::word::WordOptions;
use crate::engine::sites::{Instruction, NotNow, PatchError, TextPolicy};

/// Patches the pending call sites; queues those that fail again.
pub(super) fn patch_deferred(
    exclusive: Exclusive<'_>,
    pending: &mut PendingDiscoveries,
    loaded: &mut Loaded,
) {
    let deferred: Vec<_> = pending.discoveries.iter().copied().filter(|it| waits(it)).collect();
    let shared: Vec<_> = pending.discoveries.iter().copied().filter(|it| shared::is_site(it)).collect();
    if deferred.is_empty() && shared.is_empty() {
        return;
    }
    loaded.renew(exclusive.frozen());
    for discovery in shared {
        let is_there =
            loaded.at(discovery.text()).is_some_and(|known| is_there(exclusive.frozen(), discovery, known));
        // It may be in the lists of sites, so these are made anew.
        pending.is_all |= is_there && shared::unpatch(exclusive, discovery);
    }
    if policy::may_write() {
        let calls = deferred.iter().copied().filter(|it| it.state() == State::Waiting);
        let calls = calls
            .filter(|it| loaded.at(it.text()).is_some_and(|known| is_there(exclusive.frozen(), it, known)));
        first_hit::patch_all(exclusive, calls.filter_map(|it| Some((it, it.call()?))));
    }
    let mut has_trap = true;
    for discovery in deferred.iter().filter(|it| waits(it)) {
        has_trap = patch_or_switch(exclusive, discovery, loaded, has_trap);
    }
    { deferred }.into_iter().filter(|it| !it.is_switched() && waits(it)).for_each(pending::note);
}

fn waits(discovery: &Discovery) -> bool {
    match discovery.state() {
        // Memory may have been short for a moment.
        State::Waiting | State::Unpatched(Reason::Protected { errno: libc::ENOMEM | libc::EAGAIN }) => true,
        State::Unpatched(Reason::Protected { .. }) => policy::text() == TextPolicy::Alias,
        State::Unpatched(Reason::SplitCall) => policy::text() != TextPolicy::Alias,
        // It was loaded anew, or a hook could not patch it.
        State::Patched => discovery.is_switched() && (policy::may_write() || discovery.has_tail_jumps()),
        State::Unpatched(_) => false,
    }
}

/// Patches or switches a discovery, as its state asks for. Returns whether traps can be handled, as
/// far as is known.
fn patch_or_switch(
    exclusive: Exclusive<'_>,
    discovery: &'static Discovery,
    loaded: &Loaded,
    has_trap: bool,
) -> bool {
    let Some(known) =
        loaded.at(discovery.text()).filter(|known| is_there(exclusive.frozen(), discovery, known))
    else {
        return has_trap;
    };
    if discovery.has_tail_jumps() {
        if discovery.is_switched() {
            // Jumps that can't be written go on to the hook, which knows whether a consumer
            // listens.
            let _ = tail_jumps::settle(exclusive, discovery);
        } else {
            tail_jumps::begin(exclusive, discovery, &known.object);
        }
        return has_trap;
    }
    if let Some(switch) = discovery.switch().filter(|_| discovery.is_switched()) {
        // If the system does not let it be written, the hook goes on to deliver wanted hits, and no
        // others.
        let _ = split_calls::settle(exclusive, discovery, switch);
        return has_trap;
    }
    // SAFETY: in a loaded object's text, which stays mapped: `exclusive` says so.
    let call = discovery.returns().and_then(|returns| unsafe { call_of(returns, discovery.hook_address()) });
    call.map_or(has_trap, |call| patch(exclusive, discovery, call, has_trap))
}

/// Patches a call. Returns whether traps can be handled, as far as is known.
fn patch(exclusive: Exclusive<'_>, discovery: &'static Discovery, call: Call, has_trap: bool) -> bool {
    let is_alias = policy::text() == TextPolicy::Alias;
    if let Some(switch) = discovery.switch() {
        let result =
            if is_alias { Ok(()) } else { split_calls::begin_deferred(exclusive, discovery, switch) };
        match result {
            Ok(()) if is_alias => discovery.keep(Reason::SplitCall),
            Err(NotNow::Protected(errno)) => discovery.keep(Reason::Protected { errno }),
            // Other code holds it: try again the next time.
            Ok(()) | Err(NotNow::Later | NotNow::Changed) => {}
        }
        return has_trap;
    }
    if is_alias && !has_trap {
        // Asking again for each call would take too long.
        discovery.keep(Reason::NoTrap);
        return false;
    }
    let Some(active) = discovery.active() else { return has_trap };
    let wanted = if discovery.is_wanted() { active } else { Instruction::NOP5 };
    let (at, expected, value) = call.rewritten(wanted);
    let text = if is_alias { TextPolicy::Alias } else { TextPolicy::Sealed };
    // SAFETY: a call of the hook, in a loaded object's text. The program may execute the
    // replacement as well.
    match unsafe { WordOptions::new().text_policy(text).replace(at, expected, value) } {
        Ok(_) => pending::note_patched(discovery),
        Err(PatchError::Signal { .. }) => {
            discovery.keep(Reason::NoTrap);
            return false;
        }
        Err(PatchError::Text { error, .. }) => {
            let errno = error.errno().unwrap_or(libc::EFAULT);
            discovery.keep(Reason::Protected { errno });
        }
        Err(PatchError::Alias { error, .. }) => {
            let errno = error.raw_os_error().unwrap_or(libc::EFAULT);
            discovery.keep(Reason::Protected { errno });
        }
        // A hook was faster, or other code holds it: try again the next time.
        Err(_) => {}
    }
    has_trap
}
