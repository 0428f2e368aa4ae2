//! Calls across two aligned words, and jumps, switched in place ([`switch`](super::call_patch)).
//!
//! Both a hook and the control may change such a call at any time. Each writes what `is_wanted`
//! says, and looks at `is_wanted` again afterwards. So the last one to write has seen the last
//! change. While the call is active it is the compiler's, and the hook delivers its hits. A hit may
//! reach the hook though no consumer listens: the thread was late, or the object was loaded anew.
//! Then the call is made latent again.

// Safety: relies on text that stays mapped: that of a hook's own call, or of an object that can't
// be unloaded meanwhile. Also relies on the forms that a call of the hook may take: see `switch`.
#![expect(unsafe_code, reason = "see above")]

use super::call_patch::CallPatch;
use super::discovery::Discovery;
use super::tokens::{ControlLocked, Exclusive};
use super::{counters, pending, policy, tail_jumps};
use crate::os::text::page_size;
use crate::patch::{
    Access, NotNow, Refusal, RefusalReason, Report, SITE_LEN, SiteAddr, TextPolicy, read_word, write_text,
    write_text_now, write_word,
};
use crate::registry::provider::CallSite;

/// Marks a pending call as patched in place. Called by a hook that has settled it.
pub(super) fn begun_now(discovery: &'static Discovery, switch: CallPatch) {
    let text = policy::text();
    begun(discovery, switch, |write| write_text_now(&(switch.word..switch.word + 8), text, write));
}

/// Patches a pending call in place.
pub(super) fn begin_deferred(
    _exclusive: Exclusive<'_>,
    discovery: &'static Discovery,
    switch: CallPatch,
) -> Result<(), NotNow> {
    let open = |write: &mut dyn FnMut()| write_text(&(switch.word..switch.word + 8), write);
    // Even if there is nothing to change yet: if text can't be written, the call stays a real one.
    let mut done = Ok(false);
    open(&mut || done = settle_open(discovery, switch))?;
    done?;
    begun(discovery, switch, open);
    Ok(())
}

fn begun(
    discovery: &'static Discovery,
    switch: CallPatch,
    open: impl Fn(&mut dyn FnMut()) -> Result<(), NotNow>,
) {
    if discovery.become_switched() {
        counters::PATCHED.add();
        counters::SPLIT_CALLS.add();
    }
    // A thread that changed `is_wanted` before that saw a pending call, and did no more.
    if settle_through(discovery, switch, open).is_err() {
        // The next operation looks.
        pending::note(discovery);
    }
}

/// Makes the bytes agree with `is_wanted`, in a hook. Returns whether that took a write.
pub(super) fn settle_now(discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    let text = policy::text();
    settle_through(discovery, switch, |write| write_text_now(&(switch.word..switch.word + 8), text, write))
}

/// Does the same as [`settle_now`] in an operation, of a loaded object.
pub(super) fn settle(
    _exclusive: Exclusive<'_>,
    discovery: &Discovery,
    switch: CallPatch,
) -> Result<bool, NotNow> {
    settle_through(discovery, switch, |write| write_text(&(switch.word..switch.word + 8), write))
}

fn settle_through(
    discovery: &Discovery,
    switch: CallPatch,
    open: impl Fn(&mut dyn FnMut()) -> Result<(), NotNow>,
) -> Result<bool, NotNow> {
    if is_settled(discovery, switch)? {
        return Ok(false);
    }
    let mut done = Ok(false);
    open(&mut || done = settle_open(discovery, switch))?;
    done
}

/// Returns whether the bytes agree with `is_active`.
pub(super) fn is_settled(discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    // SAFETY: mapped text.
    let word = unsafe { read_word(switch.word) };
    let is_active = switch.is_active(word).ok_or(NotNow::Changed)?;
    Ok(is_active == discovery.is_active())
}

/// Makes the bytes agree with `is_active`, in writable text.
pub(super) fn settle_open(discovery: &Discovery, switch: CallPatch) -> Result<bool, NotNow> {
    let mut is_written = false;
    while !is_settled(discovery, switch)? {
        // SAFETY: writable text, and one of the forms that this call may take. If another thread
        // was faster, the loop sees it.
        is_written |= unsafe { write_word(switch.write(discovery.is_active())) };
    }
    Ok(is_written)
}

/// Switches calls, each according to its `is_wanted`.
pub(super) fn switch_each(
    locked: &ControlLocked,
    calls: &[&'static Discovery],
    access: Access,
    report: &mut Report,
) {
    let mut open = Vec::new();
    let mut bytes = Vec::new();
    for call in calls {
        for switch in call.tail_switches() {
            match is_settled(call, *switch) {
                Ok(true) => report.add_unchanged(1),
                Ok(false) if access == Access::Alias => bytes.push((*switch, *call)),
                Ok(false) => open.push((*switch, *call)),
                Err(_) => refuse_foreign(*switch, call, report),
            }
        }
        let Some(switch) = call.switch() else { continue };
        match is_settled(call, switch) {
            Ok(true) => report.add_unchanged(1),
            // The kernel writes single bytes. A call that no consumer listens to may stay a call,
            // since its hook looks at `is_wanted`.
            Ok(false) if access == Access::Alias && !call.is_wanted() => report.add_patched(1),
            Ok(false) if access == Access::Alias => {
                refuse(switch, call, RefusalReason::Straddles, report);
            }
            Ok(false) => open.push((switch, *call)),
            Err(_) => refuse_foreign(switch, call, report),
        }
    }
    if !bytes.is_empty() {
        tail_jumps::switch_each(locked, &bytes, report);
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
            match settle_open(call, *switch) {
                Ok(true) => report.add_patched(1),
                Ok(false) => report.add_unchanged(1),
                Err(_) => refuse_foreign(*switch, call, report),
            }
        }
    })
}

pub(super) fn refuse(
    switch: CallPatch,
    call: &'static Discovery,
    reason: RefusalReason,
    report: &mut Report,
) {
    let jump = SiteAddr(switch.first_byte(true).0);
    report.refuse(Refusal::new(call.site().map_or(jump, |site| site.addr), reason));
}

pub(super) fn refuse_foreign(switch: CallPatch, call: &'static Discovery, report: &mut Report) {
    let at = call.site().map_or(switch.first_byte(true).0, |site| site.addr.0);
    // SAFETY: mapped text; jumps and calls have five bytes at least.
    let found = unsafe { std::ptr::read_volatile(at as *const [u8; SITE_LEN]) };
    let expected = call.call().map_or_else(|| switch.active_bytes(at, found), super::call::Call::site_bytes);
    refuse(switch, call, RefusalReason::Foreign { expected, found }, report);
}

/// Returns whether calls can be switched now at all.
pub(super) fn may_write() -> bool {
    policy::text() != TextPolicy::Alias
}
