//! Functions that end in a jump to the exit hook: one probe, switched at all of its jumps.
//!
//! Life: the first hit finds no call, and notes the function. The next operation decodes the
//! function's code from the object's file ([`TailJumps::find`], with the heap, before objects
//! are frozen). It compares that code with the loaded object (frozen); any difference must be one
//! of this crate's own sites. Then each jump becomes a `ret`, unless a consumer listens. From there
//! on only operations switch the probe. A hook can't, since its arguments tell neither which jump
//! reached it, nor whether the text around that jump is still the one that was decoded.
//!
//! While the probe is active, the jumps are the compiler's. The hook looks the function up to
//! deliver a hit, once for each place that it returns to ([`call_cache`](super::call_cache)). A
//! function may also have jumps that were not understood. They still reach the hook, which knows
//! whether a consumer listens. If a hit arrives though no consumer listens, the object may have
//! been loaded anew. So the first, second, fourth, … such hit asks the next operation to look.
//!
//! The argument of a jump must be certain. A jump of another function, inlined here, would
//! otherwise be silenced together with this one's.

// Safety: relies on `Frozen`: text and pointers in a loaded object's segments stay mapped. Also
// relies on `tail_jumps` being changed and freed by the holder of the control lock, or when no
// thread knows the discovery.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::Ordering;

use super::call::{MAX_CALL_LEN, leads_to};
use super::call_patch::{self, CallPatch, RET};
use super::call_site::{Discovery, State, TailJumps};
use super::outcome::Reason;
use super::provider::{self, ControlLocked, Exclusive};
use super::table::{self, CallEntry};
use super::{counters, first_hit};
use crate::engine::os::mem::Alias;
use crate::engine::os::objects::{Frozen, Object};
use crate::engine::sites::{Bytes, NotNow, read_word};
use probe_hooks::{Extents, Fragment, Jump, RegisterValue, jumps};

impl TailJumps {
    /// Looks into an object's file for the jumps of a function.
    pub(super) fn find(extents: &Extents, base: usize, function: usize) -> Option<Self> {
        let mut fragments = extents.fragments(function.wrapping_sub(base) as u64);
        fragments.iter_mut().for_each(|fragment| fragment.addr = fragment.addr.wrapping_add(base));
        let jumps = jumps(&fragments);
        (!jumps.is_empty()).then_some(Self::Decoded { fragments, jumps })
    }

    /// Turns decoded jumps into the switches that the loaded object allows.
    fn resolve(&mut self, discovery: &Discovery, object: &Object) {
        let Self::Decoded { fragments, jumps } = self else { return };
        let hit = discovery.hit();
        let is_own = |jump: &&Jump| value_in(object, jump.function) == Some(hit.function);
        let mut switches = Vec::new();
        if fragments.iter().all(|fragment| matches_loaded(fragment, object, jumps)) {
            let hook = discovery.hook_address();
            let leading = jumps.iter().filter(is_own).filter(|jump| {
                // SAFETY: in the text of `object`, which the caller keeps loaded.
                unsafe { leads_to(jump.target, hook) }
            });
            switches.extend(
                leading.filter_map(|jump| Some(CallPatch::of_jump(jump.at, Bytes::new(&jump.bytes)?))),
            );
        }
        *self = Self::Switched(switches);
    }
}

/// Returns a register's value in a loaded object; `None` if its pointer is not in the object.
pub(super) fn value_in(object: &Object, value: RegisterValue) -> Option<usize> {
    match value {
        RegisterValue::Address(addr) => Some(addr),
        RegisterValue::Pointer(at) if !segment_holds(object, at, size_of::<usize>(), false) => None,
        // SAFETY: in a segment of a loaded object.
        RegisterValue::Pointer(at) => Some(unsafe { ptr::read_unaligned(at as *const usize) }),
    }
}

/// Returns whether a segment has these bytes. If `is_text`, only segments of text count.
fn segment_holds(object: &Object, at: usize, len: usize, is_text: bool) -> bool {
    let end = at.saturating_add(len);
    { &object.segments }
        .iter()
        .any(|it| it.range.start <= at && end <= it.range.end && (it.is_text || !is_text))
}

/// Returns whether the loaded object has this code, apart from changes that this crate has made.
pub(super) fn matches_loaded(fragment: &Fragment, object: &Object, jumps: &[Jump]) -> bool {
    let is_known = |at: usize, found: u8| {
        let is_call = |returns: usize| table::find(returns).and_then(CallEntry::discovery).is_some();
        let is_jump = || found == RET && jumps.iter().any(|jump| jump.at == at);
        (at + 1..=at + MAX_CALL_LEN).any(is_call) || is_jump()
    };
    segment_holds(object, fragment.addr, fragment.code.len(), true)
        && (fragment.addr..).zip(&fragment.code).all(|(at, byte)| {
            // SAFETY: in the text of a loaded object.
            let found = unsafe { ptr::read_volatile(at as *const u8) };
            found == *byte || is_known(at, found)
        })
}

/// Prepares the jumps of a function, which `object` holds, and makes them a probe's sites.
pub(super) fn begin(exclusive: Exclusive<'_>, discovery: &'static Discovery, object: &Object) {
    let decoded = discovery.tail_jumps.load(Ordering::Acquire);
    // SAFETY: from `set_tail_jumps`; `exclusive` says that no other thread has it.
    let Some(tail_jumps) = (unsafe { decoded.as_mut() }) else { return };
    tail_jumps.resolve(discovery, object);
    if discovery.tail_switches().is_empty() {
        discovery.drop_tail_jumps();
        return discovery.keep_unpatched(Reason::NotACall);
    }
    match sync(exclusive, discovery) {
        // A jump that could not be written stays a jump, and the hook judges its hits.
        SyncResult { written: 0, error: Some(errno) } => {
            discovery.keep_unpatched(Reason::Protected { errno });
        }
        _ => {
            if discovery.become_switched() {
                counters::PATCHED.add();
                counters::TAIL_JUMPS.add();
            }
        }
    }
}

/// The result of writing a function's jumps.
pub(super) struct SyncResult {
    written: usize,
    error: Option<i32>,
}

/// Makes all of a function's jumps agree with `is_active`.
pub(super) fn sync(exclusive: Exclusive<'_>, discovery: &Discovery) -> SyncResult {
    let mut synced = SyncResult { written: 0, error: None };
    let alias = if first_hit::may_write() { None } else { Some(Alias::open()) };
    for switch in discovery.tail_switches() {
        let result = match &alias {
            None => call_patch::sync(exclusive, discovery, *switch),
            Some(Ok(alias)) => sync_by_alias(alias, discovery, *switch),
            Some(Err(error)) => Err(NotNow::Protected(error.raw_os_error().unwrap_or(libc::EFAULT))),
        };
        match result {
            Ok(_) => synced.written += 1,
            Err(NotNow::Protected(errno)) => synced.error = Some(errno),
            // Another writer has changed it.
            Err(NotNow::Later | NotNow::Changed) => {}
        }
    }
    synced
}

/// Makes a jump agree with `is_active` through the kernel's alias of the text. The kernel writes
/// one byte, which every thread sees whole.
pub(super) fn sync_by_alias(alias: &Alias, discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    // SAFETY: the caller keeps the jump's object loaded.
    if unsafe { call_patch::is_synced(discovery, switch) }? {
        return Ok(false);
    }
    let (at, byte) = switch.first_byte(discovery.is_active());
    let result = alias.write_byte(at, byte);
    result.map(|()| true).map_err(|error| NotNow::Protected(error.raw_os_error().unwrap_or(libc::EFAULT)))
}

/// Returns whether the loaded text still holds a function's jumps, active or latent. The function's
/// object is loaded.
pub(super) fn are_present(_frozen: &Frozen, discovery: &Discovery, object: &Object) -> bool {
    discovery.tail_switches().iter().all(|switch| {
        // SAFETY: in the text of a loaded object, which stays mapped: `_frozen` says so.
        segment_holds(object, switch.word, 8, true)
            && switch.is_active(unsafe { read_word(switch.word) }).is_some()
    })
}

/// Notes a hit of such a function while no consumer listens. The thread was late, the jump was not
/// understood, or the object was loaded anew.
pub(super) fn note_unexpected_hit(discovery: &'static Discovery) {
    let before = discovery.unexpected_hits.fetch_add(1, Ordering::Relaxed);
    if before.wrapping_add(1).is_power_of_two() {
        provider::note_pending(discovery);
    }
}

impl Discovery {
    /// Returns whether its call is not known and no operation has examined its function's code yet.
    pub(super) fn may_have_tail_jumps(&self) -> bool {
        self.returns().is_none() && self.state() == State::Unpatched(Reason::NotACall)
    }

    /// Gives it the jumps of its function. The next operation makes them sites.
    pub(super) fn set_tail_jumps(&self, _locked: &ControlLocked, tail_jumps: TailJumps) {
        self.drop_tail_jumps();
        self.tail_jumps.store(Box::into_raw(Box::new(tail_jumps)), Ordering::Release);
        self.retry_patching();
    }

    /// Returns its jumps.
    fn tail_jumps(&self) -> Option<&TailJumps> {
        // SAFETY: from `set_tail_jumps`. That and `tail_jumps::begin`, which change and free them,
        // take the proof of the control lock, under which they are read. Otherwise they are freed
        // when no thread knows the discovery.
        unsafe { self.tail_jumps.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the switches of its jumps.
    pub(super) fn tail_switches(&self) -> &[CallPatch] {
        if let Some(TailJumps::Switched(switches)) = self.tail_jumps() { switches } else { &[] }
    }

    pub(super) fn has_tail_jumps(&self) -> bool {
        !self.tail_jumps.load(Ordering::Relaxed).is_null()
    }

    pub(super) fn drop_tail_jumps(&self) {
        let tail_jumps = self.tail_jumps.swap(ptr::null_mut(), Ordering::AcqRel);
        if !tail_jumps.is_null() {
            // SAFETY: from `set_tail_jumps`, taken out once.
            drop(unsafe { Box::from_raw(tail_jumps) });
        }
    }
}
