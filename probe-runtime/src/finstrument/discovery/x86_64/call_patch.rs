//! Calls that lie across two aligned words, and jumps to a hook. One aligned write switches each of
//! them, and changes one word.
//!
//! | bytes in the first word | active: the compiler's call | latent | written |
//! |---|---|---|---|
//! | 2 to 4 of 5 | `e8 a b c d` | `eb 03 b c d`, a jump over the rest | the first word |
//! | 2 to 5 of 6 | `ff 15 a b c d` | `eb 04 a b c d`, the same | the first word |
//! | 1 of 5 | `e8 a b c d` | `e8 p q r s`, a call of a `ret` | the second word |
//! | 1 of 6 | `ff 15 a b c d` | `ff 15 p q r s`, a call through a pointer to a `ret` | the second word |
//! | all, or some, of a jump | `e9 a b c d`, `ff 25 a b c d` | `c3 …`, a `ret`, and bytes that no thread executes | the first word: one byte changes |
//!
//! The argument for safety is that of [`patch::call`](crate::patch::call). The other word is the
//! same in both states. So a thread that fetches the two words at different moments has all of one
//! instruction, and each of these instructions ends where the call did. No `int3` is involved; a
//! thread that blocks `SIGTRAP` would not survive one.
//!
//! A jump changes in its first byte alone. So a thread has one of the two instructions, for any
//! place of the words' border, and for any fetched part of the rest. A hook that is jumped to
//! returns to the function's caller, and so does a `ret`. Nothing jumps into the rest of the jump:
//! its code was decoded ([`jumps`](probe_hooks::jumps)).
//!
//! # Writing
//! Both a hook and the control may change such a call at any time. Each writes what `is_enabled`
//! says, and looks at `is_enabled` again afterwards. So the last one to write has seen the last
//! change. While the call is active it is the compiler's, and the hook delivers its hits. A hit may
//! reach the hook though no consumer listens: the thread was late, or the object was loaded anew.
//! Then the call is made latent again.
//! An operation writes those of one page with one opening.

// Safety: relies on text that stays mapped: that of a hook's own call, or of an object that can't
// be unloaded meanwhile. Also relies on the forms that a call of the hook may take: see
// `CallPatch`.
#![expect(unsafe_code, reason = "see above")]

use super::super::call_site::Discovery;
use super::super::provider::{self, ControlLocked, Exclusive};
use super::super::{counters, first_hit, tail_jumps};
use super::call::Call;
use crate::engine::os::mem::Alias;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::os::text::page_size;
use crate::engine::registry::provider::CallSite;
use crate::engine::sites::word::{Write, is_straddler};
use crate::engine::sites::{
    Access, Bytes, MAX_LEN, NotNow, Refusal, RefusalReason, Report, SITE_LEN, SiteAddr, read_word,
    write_text, write_text_now, write_word,
};
use probe_hooks::Target;

const JMP_SHORT: u8 = 0xeb;
pub(in super::super) const RET: u8 = 0xc3;

/// The word that is written, and the bytes of the call in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct CallPatch {
    /// Its address, a multiple of 8.
    pub(in super::super) word: usize,
    mask: u64,
    active: u64,
    latent: u64,
}

/// The target of a deactivated call.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ReturnTarget {
    /// The address of a `ret`.
    pub(in super::super) ret: usize,
    /// The address of a pointer to that `ret`.
    pub(in super::super) pointer: usize,
}

impl CallPatch {
    /// Returns the switch of a call; `None` if one write replaces all of it, or no `ret` is in
    /// reach.
    pub(in super::super) fn of(call: Call, target: ReturnTarget) -> Option<Self> {
        let (at, active) = call.instruction();
        let len = active.len();
        if !is_straddler(at, len) {
            return None;
        }
        let mut latent = [0; 6];
        latent[..len].copy_from_slice(&active);
        let in_first = 8 - at % 8;
        let (word, range) = if in_first == 1 {
            let there = if matches!(call.target, Target::Direct(_)) { target.ret } else { target.pointer };
            let distance = i32::try_from(there.wrapping_sub(call.returns()).cast_signed()).ok()?;
            latent[len - 4..len].copy_from_slice(&distance.to_le_bytes());
            (at + 1, 1..len)
        } else {
            latent[0] = JMP_SHORT;
            latent[1] = if len == 5 { 3 } else { 4 };
            (at & !7, 0..in_first)
        };
        Some(Self::within(word, at + range.start, &active[range.clone()], &latent[range]))
    }

    /// Returns the switch of a jump, between itself and a `ret`.
    pub(in super::super) fn of_jump(at: usize, jump: Bytes) -> Self {
        let in_first = jump.len().min(8 - at % 8);
        let active = &jump[..in_first];
        let mut latent = [0; MAX_LEN];
        latent[..jump.len()].copy_from_slice(&jump);
        latent[0] = RET;
        Self::within(at & !7, at, active, &latent[..in_first])
    }

    /// Returns a switch that changes bytes at an address in a word.
    fn within(word: usize, at: usize, active: &[u8], latent: &[u8]) -> Self {
        let shift = 8 * (at % 8);
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) << shift;
        let mask = active.iter().fold(0, |mask, _| mask << 8 | 0xff) << shift;
        Self { word, mask, active: number(active), latent: number(latent) }
    }

    /// Returns the byte that makes a jump active or latent, and its address.
    pub(in super::super) fn first_byte(self, active: bool) -> (usize, u8) {
        let at = self.mask.trailing_zeros() as usize / 8;
        let bytes = if active { self.active } else { self.latent }.to_le_bytes();
        (self.word + at, bytes[at])
    }

    /// Returns the write that makes it active or latent.
    pub(in super::super) fn write(self, active: bool) -> Write {
        let (from, to) = if active { (self.latent, self.active) } else { (self.active, self.latent) };
        Write { word: self.word, mask: self.mask, from, to }
    }

    /// Returns the bytes at an address as they are while the call is active.
    pub(in super::super) fn active_bytes<const LEN: usize>(
        self,
        at: usize,
        mut found: [u8; LEN],
    ) -> [u8; LEN] {
        let (mask, active) = (self.mask.to_le_bytes(), self.active.to_le_bytes());
        for (at, byte) in (at..).zip(&mut found) {
            let offset = at.wrapping_sub(self.word);
            if mask.get(offset).is_some_and(|mask| *mask != 0) {
                *byte = active[offset];
            }
        }
        found
    }

    /// Returns whether the call is active, by the value of its word; `None` if the word is not the
    /// call's.
    pub(in super::super) fn is_active(self, word: u64) -> Option<bool> {
        let found = word & self.mask;
        (found == self.active || found == self.latent).then_some(found == self.active)
    }
}

/// Marks a waiting call as switched in place, from a hook that has patched it.
pub(in super::super) fn begin_now(discovery: &'static Discovery, switch: CallPatch) {
    let text = first_hit::text_policy();
    begin(discovery, switch, |write| write_text_now(&(switch.word..switch.word + 8), text, write));
}

/// Patches a waiting call in place, in an operation.
pub(in super::super) fn begin_deferred(
    _exclusive: Exclusive<'_>,
    discovery: &'static Discovery,
    switch: CallPatch,
) -> Result<(), NotNow> {
    let open = |write: &mut dyn FnMut()| write_text(&(switch.word..switch.word + 8), write);
    // Even if there is nothing to change yet: if text can't be written, the call stays a real one.
    let mut done = Ok(false);
    // SAFETY: `open` makes it writable; it is a loaded object's: `_exclusive` says so.
    open(&mut || done = unsafe { sync_writable(discovery, switch) })?;
    done?;
    begin(discovery, switch, open);
    Ok(())
}

fn begin(
    discovery: &'static Discovery,
    switch: CallPatch,
    open: impl Fn(&mut dyn FnMut()) -> Result<(), NotNow>,
) {
    if discovery.become_switched() {
        counters::PATCHED.add();
        counters::SPLIT_CALLS.add();
    }
    // A thread that changed `is_enabled` before that saw a waiting call, and did no more.
    if sync_through(discovery, switch, open).is_err() {
        // The next operation looks.
        provider::note_pending(discovery);
    }
}

/// Makes the bytes agree with `is_enabled`, in a hook. Returns whether that took a write.
pub(in super::super) fn sync_now(discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    let text = first_hit::text_policy();
    sync_through(discovery, switch, |write| write_text_now(&(switch.word..switch.word + 8), text, write))
}

/// Does the same as [`sync_now`] in an operation, of a loaded object.
pub(in super::super) fn sync(
    _exclusive: Exclusive<'_>,
    discovery: &Discovery,
    switch: CallPatch,
) -> Result<bool, NotNow> {
    sync_through(discovery, switch, |write| write_text(&(switch.word..switch.word + 8), write))
}

fn sync_through(
    discovery: &Discovery,
    switch: CallPatch,
    open: impl Fn(&mut dyn FnMut()) -> Result<(), NotNow>,
) -> Result<bool, NotNow> {
    // SAFETY: a hook's own call, or a loaded object's: the callers' promise.
    if unsafe { is_synced(discovery, switch) }? {
        return Ok(false);
    }
    let mut done = Ok(false);
    // SAFETY: as above, and `open` makes it writable.
    open(&mut || done = unsafe { sync_writable(discovery, switch) })?;
    done
}

/// Returns whether the bytes agree with `is_active`.
///
/// # Safety
/// The call or jump is in text that stays mapped.
pub(in super::super) unsafe fn is_synced(discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    // SAFETY: mapped text: the caller's promise.
    let word = unsafe { read_word(switch.word) };
    let is_active = switch.is_active(word).ok_or(NotNow::Changed)?;
    Ok(is_active == discovery.is_active())
}

/// Makes the bytes agree with `is_active`.
///
/// # Safety
/// The call or jump is in text that is writable, and stays mapped.
pub(in super::super) unsafe fn sync_writable(
    discovery: &Discovery,
    switch: CallPatch,
) -> Result<bool, NotNow> {
    let mut is_written = false;
    // SAFETY: the caller's promise.
    while !unsafe { is_synced(discovery, switch) }? {
        // SAFETY: writable text, and one of the forms that this call may take. If another thread
        // was faster, the loop sees it.
        is_written |= unsafe { write_word(switch.write(discovery.is_active())) };
    }
    Ok(is_written)
}

/// Switches calls, each according to its `is_enabled`.
pub(in super::super) fn switch_each(
    _locked: &ControlLocked,
    calls: &[&'static Discovery],
    access: Access,
    report: &mut Report,
    _loaded: KeptLoaded<'_>,
) {
    let mut open = Vec::new();
    let mut bytes = Vec::new();
    for call in calls {
        for switch in call.tail_switches() {
            // SAFETY: in a loaded object's text, which stays mapped: `_loaded` says so.
            match unsafe { is_synced(call, *switch) } {
                Ok(true) => report.add_unchanged(1),
                Ok(false) if access == Access::Alias => bytes.push((*switch, *call)),
                Ok(false) => open.push((*switch, *call)),
                Err(_) => refuse_foreign(*switch, call, report),
            }
        }
        let Some(switch) = call.switch() else { continue };
        // SAFETY: as above.
        match unsafe { is_synced(call, switch) } {
            Ok(true) => report.add_unchanged(1),
            // The alias writes single bytes only. A call without a listener may stay a call, since
            // its hook looks at `is_enabled`.
            Ok(false) if access == Access::Alias && !call.is_enabled() => report.add_patched(1),
            Ok(false) if access == Access::Alias => {
                refuse(switch, call, RefusalReason::Straddles, report);
            }
            Ok(false) => open.push((switch, *call)),
            Err(_) => refuse_foreign(switch, call, report),
        }
    }
    if !bytes.is_empty() {
        switch_jumps(&bytes, report);
    }
    open.sort_unstable_by_key(|(switch, _)| switch.word);
    let page = |(switch, _): &(CallPatch, _)| switch.word & !(page_size() - 1);
    for run in open.chunk_by(|one, next| page(next) - page(one) <= page_size()) {
        if write_run(run, report).is_ok() {
            continue;
        }
        // A page that can't be opened does not keep the calls of other pages from being switched.
        for run in run.chunk_by(|one, next| page(one) == page(next)) {
            if let Err(error) = write_run(run, report) {
                let errno = if let NotNow::Protected(errno) = error { errno } else { libc::EFAULT };
                let reason = RefusalReason::Protected { errno };
                run.iter().for_each(|(switch, call)| refuse(*switch, call, reason.clone(), report));
            }
        }
    }
}

/// Switches calls whose pages lie side by side.
fn write_run(run: &[(CallPatch, &'static Discovery)], report: &mut Report) -> Result<(), NotNow> {
    let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else { return Ok(()) };
    write_text(&(first.word..last.word + 8), &mut || {
        for (switch, call) in run {
            // SAFETY: `write_text` has made it writable; `switch_each` says that it stays mapped.
            match unsafe { sync_writable(call, *switch) } {
                Ok(true) => report.add_patched(1),
                Ok(false) => report.add_unchanged(1),
                Err(_) => refuse_foreign(*switch, call, report),
            }
        }
    })
}

/// Switches jumps through the kernel's alias of the text, each according to `is_active`.
fn switch_jumps(jumps: &[(CallPatch, &'static Discovery)], report: &mut Report) {
    let alias = match Alias::open() {
        Ok(alias) => alias,
        Err(error) => {
            let reason = RefusalReason::NoAlias { errno: error.raw_os_error().unwrap_or_default() };
            for (switch, call) in jumps {
                refuse(*switch, call, reason.clone(), report);
            }
            return;
        }
    };
    for (switch, call) in jumps {
        match tail_jumps::sync_by_alias(&alias, call, *switch) {
            Ok(true) => report.add_patched(1),
            Ok(false) => report.add_unchanged(1),
            Err(NotNow::Protected(errno)) => {
                refuse(*switch, call, RefusalReason::NoAlias { errno }, report);
            }
            Err(NotNow::Later | NotNow::Changed) => refuse_foreign(*switch, call, report),
        }
    }
}

fn refuse(switch: CallPatch, call: &'static Discovery, reason: RefusalReason, report: &mut Report) {
    let jump = SiteAddr(switch.first_byte(true).0);
    report.refuse(Refusal::new(call.site().map_or(jump, |site| site.addr), reason));
}

fn refuse_foreign(switch: CallPatch, call: &'static Discovery, report: &mut Report) {
    let at = call.site().map_or(switch.first_byte(true).0, |site| site.addr.0);
    // SAFETY: mapped text; jumps and calls have five bytes at least.
    let found = unsafe { std::ptr::read_volatile(at as *const [u8; SITE_LEN]) };
    let expected = call.call().map_or_else(|| switch.active_bytes(at, found), Call::site_bytes);
    refuse(switch, call, RefusalReason::Foreign { expected, found }, report);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RETURN_TARGET: ReturnTarget = ReturnTarget { ret: 0x7000_1234, pointer: 0x7000_5678 };

    /// Returns the bytes of the call after a write, with those around them.
    fn after(at: usize, bytes: &[u8], write: Write) -> [u8; 16] {
        let mut memory = [0x90; 16];
        memory[at % 8..at % 8 + bytes.len()].copy_from_slice(bytes);
        let offset = write.word - (at & !7);
        let word = u64::from_le_bytes(memory[offset..offset + 8].try_into().unwrap());
        assert_eq!(word & write.mask, write.from);
        memory[offset..offset + 8].copy_from_slice(&(word & !write.mask | write.to).to_le_bytes());
        memory
    }

    fn latent(offset: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        let at = 0x6fff_f000 + offset;
        let mut before = [0x90; 6];
        before[6 - bytes.len()..].copy_from_slice(bytes);
        let call = Call::before(at + bytes.len(), before).unwrap();
        let memory = after(at, bytes, CallPatch::of(call, RETURN_TARGET)?.write(false));
        let around: Vec<u8> = [&memory[..offset], &memory[offset + bytes.len()..]].concat();
        assert!(around.iter().all(|byte| *byte == 0x90));
        Some(memory[offset..offset + bytes.len()].to_vec())
    }

    #[test]
    fn every_split_has_its_latent_form() {
        for offset in 0..8 {
            let direct = latent(offset, &[0xe8, 1, 2, 3, 4]);
            let through = latent(offset, &[0xff, 0x15, 1, 2, 3, 4]);
            let rel = |there: usize, len: usize| {
                u32::try_from(there - 0x6fff_f000 - 7 - len).unwrap().to_le_bytes()
            };
            let wanted = match offset {
                0..=3 => None,
                4..=6 => Some(vec![0xeb, 3, 2, 3, 4]),
                _ => Some([&[0xe8][..], &rel(RETURN_TARGET.ret, 5)].concat()),
            };
            assert_eq!(direct, wanted, "{offset}");
            let wanted = match offset {
                0..=2 => None,
                3..=6 => Some(vec![0xeb, 4, 1, 2, 3, 4]),
                _ => Some([&[0xff, 0x15][..], &rel(RETURN_TARGET.pointer, 6)].concat()),
            };
            assert_eq!(through, wanted, "{offset}");
        }
    }

    #[test]
    fn what_is_out_of_reach_is_not_switched() {
        let call = Call::before(0x1007 + 5, [0x90, 0xe8, 1, 2, 3, 4]).unwrap();
        assert_eq!(CallPatch::of(call, ReturnTarget { ret: 1 << 40, pointer: 0 }), None);
    }

    #[test]
    fn a_jump_becomes_a_return_at_every_offset() {
        for jump in [&[0xe9, 1, 2, 3, 4][..], &[0xff, 0x25, 1, 2, 3, 4], &[0x3e, 0xff, 0x25, 1, 2, 3, 4]] {
            for at in 0x1000..0x1008 {
                let switch = CallPatch::of_jump(at, Bytes::new(jump).unwrap());
                let memory = after(at, jump, switch.write(false));
                let mut wanted = [0x90; 16];
                wanted[at % 8..at % 8 + jump.len()].copy_from_slice(jump);
                wanted[at % 8] = 0xc3;
                assert_eq!((memory, switch.first_byte(false)), (wanted, (at, 0xc3)));
                let word = u64::from_le_bytes(memory[..8].try_into().unwrap());
                assert_eq!((switch.word, switch.is_active(word)), (0x1000, Some(false)));
                let read = <[u8; 5]>::try_from(&memory[at % 8..at % 8 + 5]).unwrap();
                assert_eq!(switch.active_bytes(at, read), jump[..5]);
            }
        }
    }

    proptest! {
        #[test]
        fn there_and_back(at in 0x1000_usize..1 << 30, distance: i32, is_direct: bool) {
            let mut bytes = if is_direct { [0x90, 0xe8, 0, 0, 0, 0] } else { [0xff, 0x15, 0, 0, 0, 0] };
            bytes[2..].copy_from_slice(&distance.to_le_bytes());
            let bytes_of = usize::from(is_direct);
            let call = Call::before(at + 6 - bytes_of, bytes).unwrap();
            if let Some(switch) = CallPatch::of(call, RETURN_TARGET) {
                let off = after(at, &bytes[bytes_of..], switch.write(false));
                let on = after(at, &bytes[bytes_of..], Write { to: switch.active, ..switch.write(false) });
                let word = |memory: &[u8; 16]| {
                    let offset = switch.word - (at & !7);
                    u64::from_le_bytes(memory[offset..offset + 8].try_into().unwrap())
                };
                prop_assert_eq!(&on[at % 8..][..6 - bytes_of], &bytes[bytes_of..]);
                prop_assert_eq!(switch.is_active(word(&on)), Some(true));
                let is_same = off == on;
                prop_assert_eq!(switch.is_active(word(&off)), Some(is_same));
                prop_assert_eq!(switch.is_active(0xcccc_cccc_cccc_cccc), None);
            }
        }
    }
}
