//! Splits discoveries into live and unloaded ones, for the lists of the control.

// Safety: relies on `Frozen`: text that is in a loaded object's segments stays mapped.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;

use super::call_site::Discovery;
use super::chunk::{self, ChunkPlace};
use super::garbage::Unloaded;
use super::loaded::{KnownObject, Loaded};
use super::pending::{self, PendingDiscoveries};
use super::read_call::call_of;
use super::table::published;
use super::tokens::{ControlLocked, Exclusive};
use super::{split_calls, table, tail_jumps};
use crate::engine::os::objects::Frozen;
use crate::engine::registry::provider::{CallSite, Findings};
use crate::engine::sites::{Instruction, NotNow, SITE_LEN};

/// Looks at all discoveries.
pub(super) fn reconcile_all(exclusive: Exclusive<'_>, loaded: &mut Loaded) -> Findings {
    if published().next().is_none() {
        return Findings::default();
    }
    loaded.renew(exclusive.frozen());
    let left = chunk::all().map(ChunkPlace::discovery).filter(|discovery| discovery.has_left());
    let gone = left.map(Unloaded::new).collect();
    reconcile_each(exclusive, published().map(ChunkPlace::discovery), gone, loaded)
}

/// Looks at pending discoveries, while no object has gone.
pub(super) fn reconcile_pending(
    exclusive: Exclusive<'_>,
    pending: PendingDiscoveries,
    loaded: &mut Loaded,
) -> Findings {
    loaded.renew(exclusive.frozen());
    reconcile_each(exclusive, pending.discoveries.into_iter(), Vec::new(), loaded)
}

fn reconcile_each(
    exclusive: Exclusive<'_>,
    discoveries: impl Iterator<Item = &'static Discovery>,
    mut gone: Vec<Unloaded>,
    loaded: &Loaded,
) -> Findings {
    let mut living: Vec<&'static Discovery> = Vec::new();
    let mut holders: Vec<&KnownObject> = Vec::new();
    for discovery in discoveries {
        match loaded.at(discovery.text()).filter(|known| is_there(exclusive.frozen(), discovery, known)) {
            Some(known) if discovery.object().is_some() => {
                // Neighbours are mostly in one object.
                if !holders.iter().rev().any(|holder| ptr::eq(*holder, known)) {
                    holders.push(known);
                }
                living.push(discovery);
            }
            // The next operation names it.
            Some(_) => pending::note(discovery),
            None => gone.extend(unload(exclusive.locked(), discovery)),
        }
    }
    living.sort_by_key(|discovery| discovery.text());
    Findings {
        living: living.into_iter().map(|discovery| discovery as _).collect(),
        unloaded: (!gone.is_empty()).then(|| Box::new(gone) as _),
        objects: holders.into_iter().map(|known| known.object.clone()).collect(),
    }
}

/// Returns whether a discovery belongs to this object: the one that it was named by, whose text
/// still holds the call or its replacement.
pub(super) fn is_there(frozen: &Frozen, discovery: &'static Discovery, known: &KnownObject) -> bool {
    if discovery.object().is_some_and(|named| named != known.hash) {
        return false;
    }
    if discovery.is_switched() && discovery.has_tail_jumps() {
        return tail_jumps::are_there(frozen, discovery, &known.object);
    }
    if let Some(switch) = discovery.switch().filter(|_| discovery.is_switched()) {
        // SAFETY: in a loaded object's text, which stays mapped: `frozen` says so.
        return !matches!(unsafe { split_calls::is_settled(discovery, switch) }, Err(NotNow::Changed));
    }
    if !discovery.is_site() {
        return is_call_there(frozen, discovery);
    }
    let Some(site) = discovery.site() else { return true };
    // SAFETY: in the text of a loaded object.
    let bytes = unsafe { ptr::read_volatile(site.addr.0 as *const [u8; SITE_LEN]) };
    // A site that is being switched begins with an `int3`, as does one with a breakpoint.
    bytes[0] == 0xcc || site.owns(Instruction::from_bytes(bytes))
}

/// Returns whether a real call is still the one that was found. Another object in the place of the
/// call's own has another call there.
fn is_call_there(_frozen: &Frozen, discovery: &'static Discovery) -> bool {
    let Some((returns, call)) = discovery.returns().zip(discovery.call()) else { return true };
    // SAFETY: in a loaded object's text, which stays mapped: `_frozen` says so.
    if unsafe { call_of(returns, discovery.hook_address()) } == Some(call) {
        return true;
    }
    let (at, _) = call.instruction();
    // SAFETY: in the text of a loaded object. An `int3` there is a debugger's.
    let is_stopped = unsafe { ptr::read_volatile(at as *const u8) } == 0xcc;
    // In this order: a hook that has changed it is busy until it says so.
    is_stopped || discovery.is_busy() || discovery.is_patched()
}

fn unload(_locked: &ControlLocked, discovery: &'static Discovery) -> Option<Unloaded> {
    // A hook may be faster, and put the new object's discovery in its place. The old one is marked
    // as left then.
    let entry = table::find(discovery.key())?;
    discovery.look_up_again();
    entry.replace(Some(discovery), None).is_ok().then(|| Unloaded::new(discovery))
}
