//! Switches the calls and jumps of an operation, those of one page with one opening.

// Safety: relies on text that stays mapped: that of objects that can't be unloaded meanwhile, which
// `KeptLoaded` proves.
#![expect(unsafe_code, reason = "see above")]

use super::call::Call;
use super::call_patch::CallPatch;
use super::call_site::Discovery;
use super::split_calls::{is_settled, settle_open};
use super::tail_jumps::settle_through;
use super::tokens::ControlLocked;
use crate::engine::os::mem::Alias;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::os::text::page_size;
use crate::engine::registry::provider::CallSite;
use crate::engine::sites::{Access, NotNow, Refusal, RefusalReason, Report, SITE_LEN, SiteAddr, write_text};

/// Switches calls, each according to its `is_wanted`.
pub(super) fn switch_each(
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
            match unsafe { is_settled(call, *switch) } {
                Ok(true) => report.add_unchanged(1),
                Ok(false) if access == Access::Alias => bytes.push((*switch, *call)),
                Ok(false) => open.push((*switch, *call)),
                Err(_) => refuse_foreign(*switch, call, report),
            }
        }
        let Some(switch) = call.switch() else { continue };
        // SAFETY: as above.
        match unsafe { is_settled(call, switch) } {
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
            match unsafe { settle_open(call, *switch) } {
                Ok(true) => report.add_patched(1),
                Ok(false) => report.add_unchanged(1),
                Err(_) => refuse_foreign(*switch, call, report),
            }
        }
    })
}

/// Switches jumps through the kernel, each as its function is wanted.
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
        match settle_through(&alias, call, *switch) {
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
