//! Patching in hooks: several call sites share one opening of their page.
//!
//! If text is sealed, opening and sealing a page would take most of the time of a first hit. So
//! the first hit of a call leaves it a real call, and notes that it waits on its page.
//!
//! - The eighth such hit on the page patches all of them with one opening.
//! - The second hit of a waiting call patches it, and all that wait on its page.
//! - An operation patches all waiting calls.
//!
//! So a call stays real for its first hit only, unless it is never reached again. Text is open only
//! during the writes themselves, and each first hit costs a share of an opening.
//!
//! Waiting calls are stored as keys of the table, in lists that pages share. A key is looked up,
//! and the result compared with the text. A key that another one pushes out waits for the call's
//! second hit. These lists keep no discovery alive.
//!
//! If text is open, there is nothing to share, and each call is patched at its first hit.

// Safety: relies on text that stays mapped: the hook's own call's, whose pages hold all that is
// patched together with it.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::call::{Call, read_call};
use super::call_patch;
use super::call_site::{Discovery, State};
use super::outcome::Reason;
use super::provider::{self, Exclusive};
use super::table::{self, CallEntry};
use crate::engine::os::text::{page_size, pages};
use crate::engine::registry::provider::note_all;
use crate::engine::sites::word::Plan;
use crate::engine::sites::{
    Instruction, NotNow, TextPolicy, replace_now, write_text, write_text_now, write_word,
};

/// The number of lists of waiting calls. A page uses the list of its number modulo this.
const WAITING_LISTS: usize = 256;
/// How many calls may wait in a list. With the padding, a list is a cache line.
const MAX_WAITING_PER_LIST: usize = 7;

/// Keys of waiting calls; 0 in free entries.
#[repr(align(64))]
struct WaitingCalls([AtomicUsize; MAX_WAITING_PER_LIST]);

static WAITING: [WaitingCalls; WAITING_LISTS] =
    [const { WaitingCalls([const { AtomicUsize::new(0) }; MAX_WAITING_PER_LIST]) }; WAITING_LISTS];

impl WaitingCalls {
    fn on_page_of(addr: usize) -> &'static Self {
        &WAITING[addr / page_size() % WAITING_LISTS]
    }

    /// Lets a call wait, if there is room. Returns whether there was.
    fn add(&self, key: usize) -> bool {
        let put = |it: &AtomicUsize| it.compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.0.iter().any(put)
    }

    fn take_all(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|key| key.swap(0, Ordering::AcqRel)).filter(|key| *key != 0)
    }
}

/// Patches a waiting call together with the others of its page, or lets it wait for others. It
/// waits for no other thread: if it would have to, it patches nothing.
pub(super) fn patch_now(discovery: &'static Discovery, call: Call) {
    let range = range(call);
    let waiting = WaitingCalls::on_page_of(range.start);
    if text_policy() != TextPolicy::Sealed {
        return patch(&mut [Some(Patch { discovery, call, written: None })]);
    }
    if discovery.is_first_try() && waiting.add(call.returns()) {
        return;
    }
    let mut all = [const { None }; 1 + MAX_WAITING_PER_LIST];
    all[0] = Some(Patch { discovery, call, written: None });
    for (key, free) in waiting.take_all().zip(&mut all[1..]) {
        let other = waiting_call_on(key, discovery, &range);
        *free = other.filter(|other| other.discovery.begin_change());
    }
    patch(&mut all);
    all[1..].iter().flatten().for_each(|other| other.discovery.end_change());
}

/// A call to be patched.
pub(super) struct Patch {
    discovery: &'static Discovery,
    call: Call,
    /// Whether it is active now; `None` if the call was not there any more.
    written: Option<bool>,
}

/// Patches waiting calls of loaded objects in an operation, those of neighbouring pages with one
/// opening. Leaves those that the system does not let change.
pub(super) fn patch_all(_exclusive: Exclusive<'_>, calls: impl Iterator<Item = (&'static Discovery, Call)>) {
    let mut all: Vec<_> = calls
        .filter(|(discovery, _)| discovery.begin_change())
        .map(|(discovery, call)| Patch { discovery, call, written: None })
        .collect();
    all.sort_unstable_by_key(|it| it.call.returns());
    let page = |it: &Patch| range(it.call).start & !(page_size() - 1);
    for run in all.chunk_by_mut(|one, next| page(next) - page(one) <= page_size()) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let text = range(first.call).start..range(last.call).end;
        let opened = write_text(&text, &mut || {
            run.iter_mut().for_each(|it| it.written = write(it.discovery, it.call));
        });
        for Patch { discovery, call, written } in &*run {
            if let (Ok(()), Some(written)) = (opened, *written) {
                record_patched(discovery, *call, written);
            }
            discovery.end_change();
        }
    }
}

fn range(call: Call) -> Range<usize> {
    let (at, bytes) = call.instruction();
    at..at + bytes.len()
}

/// Returns the waiting call of this key, if it is still there, in the same pages as `own`.
fn waiting_call_on(key: usize, discovery: &'static Discovery, own: &Range<usize>) -> Option<Patch> {
    let other = table::find(key).and_then(CallEntry::discovery)?;
    let call = other.call().filter(|_| other.state() == State::Waiting && other.key() != discovery.key())?;
    let (own, others) = (pages(own.clone()), pages(range(call)));
    if others.start < own.start || own.end < others.end {
        return None;
    }
    // SAFETY: on a page of the hook's own call, even if its object has changed.
    let there = unsafe { read_call(call.returns(), other.hook_address()) };
    (there == Some(call)).then_some(Patch { discovery: other, call, written: None })
}

/// Patches calls with one opening of the first call's pages. Afterwards their bytes agree with
/// `is_enabled`.
fn patch(all: &mut [Option<Patch>]) {
    let Some(Patch { discovery, call, .. }) = &all[0] else { return };
    let (discovery, range) = (*discovery, range(*call));
    let opened = write_text_now(&range, text_policy(), &mut || {
        all.iter_mut().flatten().for_each(|it| it.written = write(it.discovery, it.call));
    });
    match opened {
        Ok(()) => all.iter().flatten().for_each(|it| {
            it.written.into_iter().for_each(|written| record_patched(it.discovery, it.call, written));
        }),
        Err(NotNow::Later) => discovery.postpone(),
        // Another thread was faster, or a debugger has set a breakpoint at the call.
        Err(NotNow::Changed) => {}
        Err(NotNow::Protected(errno)) => {
            discovery.keep_unpatched(Reason::Protected { errno });
            provider::note_pending(discovery);
        }
    }
}

/// Returns the instruction that a site should hold.
pub(super) fn site_instruction(active: Instruction, is_enabled: bool) -> Instruction {
    if is_enabled { active } else { Instruction::NOP5 }
}

/// Replaces a call in text that is writable. Returns whether it is active now; `None` if the call
/// was not there any more.
fn write(discovery: &'static Discovery, call: Call) -> Option<bool> {
    if let Some(switch) = discovery.switch() {
        let is_enabled = discovery.is_enabled();
        // SAFETY: the caller has made the text writable, and the hook's own call keeps it mapped.
        return unsafe { call_patch::sync_writable(discovery, switch) }.ok().map(|_| is_enabled);
    }
    let active = discovery.active()?;
    let is_enabled = discovery.is_enabled();
    let (at, expected, value) = call.rewritten(site_instruction(active, is_enabled));
    let whole = Plan::new(at, expected, value).and_then(|plan| plan.whole())?;
    // SAFETY: a call of the hook, in pages that the hook returns to; a thread that executes it may
    // as well execute a NOP, or the call of its stub, of the same length.
    unsafe { write_word(whole) }.then_some(is_enabled)
}

/// Records that a call has been replaced.
fn record_patched(discovery: &'static Discovery, call: Call, mut is_written: bool) {
    if let Some(switch) = discovery.switch() {
        return call_patch::begin_now(discovery, switch);
    }
    provider::note_patched(discovery);
    let Some(active) = discovery.active() else { return };
    // An operation may have changed `is_enabled` since `write`, without seeing that there are bytes
    // to change.
    while discovery.is_enabled() != is_written {
        let site = call.site().0;
        let [old, new] = [is_written, !is_written].map(|it| site_instruction(active, it).bytes());
        // SAFETY: as in `write`; its site's own two instructions.
        if unsafe { replace_now(site, old.into(), new.into(), text_policy()) }.is_err() {
            return;
        }
        is_written = !is_written;
    }
}

static TEXT: AtomicU8 = AtomicU8::new(SEALED);
const SEALED: u8 = 0;
const OPEN: u8 = 1;
const ALIAS: u8 = 2;

/// Returns the policy by which first hits write text.
pub(super) fn text_policy() -> TextPolicy {
    match TEXT.load(Ordering::Relaxed) {
        OPEN => TextPolicy::Open,
        ALIAS => TextPolicy::Alias,
        _ => TextPolicy::Sealed,
    }
}

/// Returns whether calls can be switched now at all.
pub(super) fn may_write() -> bool {
    text_policy() != TextPolicy::Alias
}

pub(super) fn set_text_policy(policy: TextPolicy) {
    let number = match policy {
        TextPolicy::Sealed => SEALED,
        TextPolicy::Open => OPEN,
        TextPolicy::Alias => ALIAS,
    };
    TEXT.store(number, Ordering::Relaxed);
    // Calls that the old policy kept real may be patched under the new one.
    note_all();
}
