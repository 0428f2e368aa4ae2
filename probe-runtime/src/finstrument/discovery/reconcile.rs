//! Compares discoveries with the loaded objects. Splits them into live and unloaded ones, for the
//! lists of the control, and patches deferred calls, for which an operation may do what a hook may
//! not.
//!
//! A look-up finds the object of an address in text, and a hash tells it from
//! objects that were loaded at the same place before.
//!
//! Life: an operation that looks at discoveries lists the objects, and lists them again after an
//! object has come or gone.

// Safety: relies on `Frozen`: text that is in a loaded object's segments stays mapped.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::ptr;

use super::call::{Call, read_call};
use super::call_site::{Discovery, State};
use super::chunk::{self, ChunkPlace};
use super::first_hit::{self, site_instruction};
use super::outcome::Reason;
use super::provider::{self, ControlLocked, Exclusive, PendingDiscoveries};
use super::table::{self, Unloaded, published};
use super::{call_patch, shared_calls, tail_jumps};
use crate::engine::os::objects::{Frozen, Generation, Object};
use crate::engine::registry::provider::{CallSite, Findings};
use crate::engine::sites::word::INT3;
use crate::engine::sites::word::WordOptions;
use crate::engine::sites::{Instruction, NotNow, PatchError, SITE_LEN, TextPolicy};

/// Looks at all discoveries.
pub(super) fn reconcile_all(exclusive: Exclusive<'_>, loaded: &mut LoadedObjects) -> Findings {
    if published().next().is_none() {
        return Findings::default();
    }
    loaded.renew(exclusive.frozen());
    let superseded = chunk::all().map(ChunkPlace::discovery).filter(|it| it.take_superseded());
    let gone = superseded.map(Unloaded::new).collect();
    reconcile_each(exclusive, published().map(ChunkPlace::discovery), gone, loaded)
}

/// Looks at pending discoveries, while no object has gone.
pub(super) fn reconcile_pending(
    exclusive: Exclusive<'_>,
    pending: PendingDiscoveries,
    loaded: &mut LoadedObjects,
) -> Findings {
    loaded.renew(exclusive.frozen());
    reconcile_each(exclusive, pending.discoveries.into_iter(), Vec::new(), loaded)
}

fn reconcile_each(
    exclusive: Exclusive<'_>,
    discoveries: impl Iterator<Item = &'static Discovery>,
    mut gone: Vec<Unloaded>,
    loaded: &LoadedObjects,
) -> Findings {
    let mut living: Vec<&'static Discovery> = Vec::new();
    let mut holders: Vec<&KnownObject> = Vec::new();
    for discovery in discoveries {
        match loaded.holder_of(exclusive.frozen(), discovery) {
            Some(known) if discovery.object().is_some() => {
                // Neighbours are mostly in one object.
                if !holders.iter().rev().any(|holder| ptr::eq(*holder, known)) {
                    holders.push(known);
                }
                living.push(discovery);
            }
            // The next operation names it.
            Some(_) => provider::note_pending(discovery),
            None => gone.extend(unload(exclusive.locked(), discovery)),
        }
    }
    living.sort_by_key(|discovery| discovery.text_address());
    Findings {
        living: living.into_iter().map(|discovery| discovery as _).collect(),
        unloaded: (!gone.is_empty()).then(|| Box::new(gone) as _),
        objects: holders.into_iter().map(|known| known.object.clone()).collect(),
    }
}

/// Returns whether a discovery belongs to this object: the one that it was named by, whose text
/// still holds the call or its replacement.
pub(super) fn is_present(frozen: &Frozen, discovery: &'static Discovery, known: &KnownObject) -> bool {
    if discovery.object().is_some_and(|named| named != known.hash) {
        return false;
    }
    if discovery.is_switched() && discovery.has_tail_jumps() {
        return tail_jumps::are_present(frozen, discovery, &known.object);
    }
    if let Some(switch) = discovery.switch().filter(|_| discovery.is_switched()) {
        // SAFETY: in a loaded object's text, which stays mapped: `frozen` says so.
        return !matches!(unsafe { call_patch::is_synced(discovery, switch) }, Err(NotNow::Changed));
    }
    if !discovery.is_site() {
        return is_call_present(frozen, discovery);
    }
    let Some(site) = discovery.site() else { return true };
    // SAFETY: in the text of a loaded object.
    let bytes = unsafe { ptr::read_volatile(site.addr.0 as *const [u8; SITE_LEN]) };
    // A site that is being switched begins with an `int3`, as does one with a breakpoint.
    let now = Instruction::from_bytes(bytes);
    now.is_breakpoint() || site.owns(now)
}

/// Returns whether a real call is still the one that was found. Another object in the place of the
/// call's own has another call there.
fn is_call_present(_frozen: &Frozen, discovery: &'static Discovery) -> bool {
    let Some((returns, call)) = discovery.returns().zip(discovery.call()) else { return true };
    // SAFETY: in a loaded object's text, which stays mapped: `_frozen` says so.
    if unsafe { read_call(returns, discovery.hook_address()) } == Some(call) {
        return true;
    }
    let (at, _) = call.instruction();
    // SAFETY: in the text of a loaded object. An `int3` there is a debugger's.
    let is_stopped = unsafe { ptr::read_volatile(at as *const u8) } == INT3;
    // In this order: a hook that has changed it is busy until it says so.
    is_stopped || discovery.is_changing() || discovery.is_patched()
}

fn unload(_locked: &ControlLocked, discovery: &'static Discovery) -> Option<Unloaded> {
    // A hook may be faster, and put the new object's discovery in its place. The old one is marked
    // as left then.
    let entry = table::find(discovery.key())?;
    discovery.invalidate_cache();
    entry.replace(Some(discovery), None).is_ok().then(|| Unloaded::new(discovery))
}

/// Patches the pending call sites; queues those that fail again.
pub(super) fn patch_deferred(
    exclusive: Exclusive<'_>,
    pending: &mut PendingDiscoveries,
    loaded: &mut LoadedObjects,
) {
    let deferred: Vec<_> = pending.discoveries.iter().copied().filter(|it| is_deferred(it)).collect();
    let shared: Vec<_> = pending.discoveries.iter().copied().filter(|it| shared_calls::is_site(it)).collect();
    if deferred.is_empty() && shared.is_empty() {
        return;
    }
    loaded.renew(exclusive.frozen());
    for discovery in shared {
        let is_present = loaded.holder_of(exclusive.frozen(), discovery).is_some();
        // It may be in the lists of sites, so these are made anew.
        pending.is_all |= is_present && shared_calls::unpatch(exclusive, discovery);
    }
    if first_hit::may_write() {
        let calls = deferred.iter().copied().filter(|it| it.state() == State::Waiting);
        let calls = calls.filter(|it| loaded.holder_of(exclusive.frozen(), it).is_some());
        first_hit::patch_all(exclusive, calls.filter_map(|it| Some((it, it.call()?))));
    }
    let mut has_trap = true;
    for discovery in deferred.iter().filter(|it| is_deferred(it)) {
        has_trap = patch_or_switch(exclusive, discovery, loaded, has_trap);
    }
    { deferred }
        .into_iter()
        .filter(|it| !it.is_switched() && is_deferred(it))
        .for_each(provider::note_pending);
}

fn is_deferred(discovery: &Discovery) -> bool {
    match discovery.state() {
        // Memory may have been short for a moment.
        State::Waiting | State::Unpatched(Reason::Protected { errno: libc::ENOMEM | libc::EAGAIN }) => true,
        State::Unpatched(Reason::Protected { .. }) => first_hit::text_policy() == TextPolicy::Alias,
        State::Unpatched(Reason::SplitCall) => first_hit::text_policy() != TextPolicy::Alias,
        // It was loaded anew, or a hook could not patch it.
        State::Patched => discovery.is_switched() && (first_hit::may_write() || discovery.has_tail_jumps()),
        State::Unpatched(_) => false,
    }
}

/// Patches or switches a discovery, as its state asks for. Returns whether traps can be handled, as
/// far as is known.
fn patch_or_switch(
    exclusive: Exclusive<'_>,
    discovery: &'static Discovery,
    loaded: &LoadedObjects,
    has_trap: bool,
) -> bool {
    let Some(known) = loaded.holder_of(exclusive.frozen(), discovery) else { return has_trap };
    if discovery.has_tail_jumps() {
        if discovery.is_switched() {
            // Jumps that can't be written still reach the hook, which knows whether a consumer
            // listens.
            let _ = tail_jumps::sync(exclusive, discovery);
        } else {
            tail_jumps::begin(exclusive, discovery, &known.object);
        }
        return has_trap;
    }
    if let Some(switch) = discovery.switch().filter(|_| discovery.is_switched()) {
        // If the system forbids the write, the hook still delivers a hit exactly while a consumer
        // listens.
        let _ = call_patch::sync(exclusive, discovery, switch);
        return has_trap;
    }
    // SAFETY: in a loaded object's text, which stays mapped: `exclusive` says so.
    let call =
        discovery.returns().and_then(|returns| unsafe { read_call(returns, discovery.hook_address()) });
    call.map_or(has_trap, |call| patch(exclusive, discovery, call, has_trap))
}

/// Patches a call. Returns whether traps can be handled, as far as is known.
fn patch(exclusive: Exclusive<'_>, discovery: &'static Discovery, call: Call, has_trap: bool) -> bool {
    let is_alias = first_hit::text_policy() == TextPolicy::Alias;
    if let Some(switch) = discovery.switch() {
        let result = if is_alias { Ok(()) } else { call_patch::begin_deferred(exclusive, discovery, switch) };
        match result {
            Ok(()) if is_alias => discovery.keep_unpatched(Reason::SplitCall),
            Err(NotNow::Protected(errno)) => discovery.keep_unpatched(Reason::Protected { errno }),
            // Other code holds it: try again the next time.
            Ok(()) | Err(NotNow::Later | NotNow::Changed) => {}
        }
        return has_trap;
    }
    if is_alias && !has_trap {
        // Asking again for each call would take too long.
        discovery.keep_unpatched(Reason::NoTrap);
        return false;
    }
    let Some(active) = discovery.active() else { return has_trap };
    let (at, expected, value) = call.rewritten(site_instruction(active, discovery.is_enabled()));
    let text = if is_alias { TextPolicy::Alias } else { TextPolicy::Sealed };
    // SAFETY: a call of the hook, in a loaded object's text. The program may execute the
    // replacement as well.
    match unsafe { WordOptions::new().text_policy(text).replace(at, expected, value) } {
        Ok(_) => provider::note_patched(discovery),
        Err(PatchError::Signal { .. }) => {
            discovery.keep_unpatched(Reason::NoTrap);
            return false;
        }
        Err(PatchError::Text { error, .. }) => {
            let errno = error.errno().unwrap_or(libc::EFAULT);
            discovery.keep_unpatched(Reason::Protected { errno });
        }
        Err(PatchError::Alias { error, .. }) => {
            let errno = error.raw_os_error().unwrap_or(libc::EFAULT);
            discovery.keep_unpatched(Reason::Protected { errno });
        }
        // A hook was faster, or other code holds it: try again the next time.
        Err(_) => {}
    }
    has_trap
}

/// All loaded objects.
#[derive(Default)]
pub(crate) struct LoadedObjects {
    /// `None` before the first list.
    generation: Option<Generation>,
    objects: Vec<KnownObject>,
    /// The segments of text, ascending, each with the index of its object.
    texts: Vec<(Range<usize>, usize)>,
}

/// An object, with a hash that tells it from others in its place.
pub(super) struct KnownObject {
    pub(super) object: Object,
    pub(super) hash: u64,
}

impl LoadedObjects {
    /// Lists the objects again, if some came or went.
    pub(super) fn renew(&mut self, frozen: &Frozen) {
        let generation = Some(frozen.generation());
        if self.generation == generation {
            return;
        }
        *self = Self::new(frozen.every());
        self.generation = generation;
    }

    fn new(objects: Vec<Object>) -> Self {
        let objects = objects.into_iter().map(|object| KnownObject { hash: object.identity(), object });
        let objects: Vec<_> = objects.collect();
        let mut texts = Vec::new();
        for (number, known) in objects.iter().enumerate() {
            let segments = known.object.segments.iter().filter(|segment| segment.is_text);
            texts.extend(segments.map(|segment| (segment.range.clone(), number)));
        }
        texts.sort_unstable_by_key(|(range, _)| range.start);
        Self { generation: None, objects, texts }
    }

    /// Returns the object whose text holds an address.
    pub(super) fn at(&self, addr: usize) -> Option<&KnownObject> {
        let after = self.texts.partition_point(|(range, _)| range.start <= addr);
        let (range, number) = self.texts.get(after.checked_sub(1)?)?;
        range.contains(&addr).then(|| &self.objects[*number])
    }

    /// Returns the object that a discovery belongs to, if it is still loaded.
    pub(super) fn holder_of(&self, frozen: &Frozen, discovery: &'static Discovery) -> Option<&KnownObject> {
        self.at(discovery.text_address()).filter(|known| is_present(frozen, discovery, known))
    }

    pub(super) fn all(&self) -> &[KnownObject] {
        &self.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::objects::Segment;

    #[test]
    fn an_address_is_found_in_text_only() {
        let object = |name: &str, start: usize| {
            let segment = Segment::of;
            let segments = vec![segment(start..start + 16, false), segment(start + 16..start + 32, true)];
            Object { name: name.to_owned(), base: start, segments, notes: Vec::new(), is_main: false }
        };
        let loaded = LoadedObjects::new(vec![object("high", 4096), object("low", 64)]);
        let at = |addr| loaded.at(addr).map(|known| known.object.name.as_str());
        let found = [0, 64, 79, 80, 95, 96, 4111, 4112, 4127, 4128].map(at);
        let (low, high) = (Some("low"), Some("high"));
        assert_eq!(found, [None, None, None, low, low, None, None, high, high, None]);
        assert_ne!(loaded.all()[0].hash, loaded.all()[1].hash);
    }
}
