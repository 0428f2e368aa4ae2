//! The members of one probe, and the hook that they make.

// Safety: relies on the control lock: only its holder publishes hooks, and each hook comes from a `Box`.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::Ordering;

use crate::abi::Definition;
use crate::arch::backend;
use crate::dispatch::{Era, Hook, Member};
use crate::registry::{ProbeId, ProbeState};

/// One attachment's part in one probe.
pub(super) struct Part {
    pub(super) attachment: usize,
    pub(super) member: Member,
    /// Switched off, while its attachment goes on elsewhere.
    pub(super) is_off: bool,
}

impl Part {
    pub(super) fn new(attachment: usize, member: Member) -> Self {
        Self { attachment, member, is_off: false }
    }
}

/// Who listens to one probe, and who holds it off.
///
/// | listening parts | holds | sites | hook |
/// |---|---|---|---|
/// | none | any | latent | none, or that of a sole part that is paused or off |
/// | some | 0 | active | theirs |
/// | some | ≥ 1 | latent | theirs |
#[derive(Default)]
pub(super) struct Members {
    parts: Vec<Part>,
    holds: u32,
    hook: Option<Published>,
}

/// A hook that hits may be reading, and since when.
pub(super) struct Published {
    hook: *mut Hook,
    since: Era,
}

impl Published {
    fn new(hook: Hook, since: Era) -> Self {
        Self { hook: Box::into_raw(Box::new(hook)), since }
    }

    pub(super) fn since(&self) -> Era {
        self.since
    }
}

// SAFETY: the pointer is an owning one, to something `Send`.
unsafe impl Send for Published {}

impl Drop for Published {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`; once it was replaced, it is in `limbo` until no hit can be reading it.
        drop(unsafe { Box::from_raw(self.hook) });
    }
}

impl Members {
    /// `is_paused` tells of each attachment whether it is.
    pub(super) fn state(&self, is_paused: impl Fn(usize) -> bool) -> ProbeState {
        let listening = self.parts.iter().any(|part| !part.is_off && !is_paused(part.attachment));
        match (self.parts.is_empty(), listening && self.holds == 0) {
            (true, _) => ProbeState::Latent,
            (false, true) => ProbeState::Active,
            (false, false) => ProbeState::Held,
        }
    }

    pub(super) fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The attachment that alone decides on this probe.
    pub(super) fn sole(&self) -> Option<usize> {
        match (self.parts.as_slice(), self.holds) {
            ([part], 0) => Some(part.attachment),
            _ => None,
        }
    }

    /// The attachments that have parts.
    pub(super) fn attachments(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.attachment)
    }

    #[cfg(probe_discovers)]
    pub(super) fn has_part_of(&self, attachment: usize) -> bool {
        self.parts.iter().any(|part| part.attachment == attachment)
    }

    pub(super) fn add(&mut self, part: Part) {
        self.parts.push(part);
    }

    pub(super) fn remove(&mut self, attachment: usize) {
        self.parts.retain(|part| part.attachment != attachment);
    }

    /// Switches an attachment's part; `None` where it has none, else whether that was a change.
    pub(super) fn set_off(&mut self, attachment: usize, is_off: bool) -> Option<bool> {
        let part = self.parts.iter_mut().find(|part| part.attachment == attachment)?;
        Some(std::mem::replace(&mut part.is_off, is_off) != is_off)
    }

    /// Has an attachment's hits counted, or delivered, from here on; those under way may do either. No hook is published anew.
    pub(super) fn set_counting(&self, attachment: usize, is_counting: bool) {
        let Some(part) = self.parts.iter().find(|part| part.attachment == attachment) else { return };
        part.member.set_counting(is_counting);
        if let Some(hook) = &self.hook {
            // SAFETY: it is freed by who replaces it, and that takes the control lock, too.
            unsafe { &*hook.hook }.set_counting(part.member.subscription(), is_counting);
        }
    }

    pub(super) fn hold(&mut self) {
        self.holds += 1;
    }

    pub(super) fn release(&mut self) {
        self.holds -= 1;
    }

    /// Publishes the hook of those who listen; returns the one it replaces, for `limbo`. A sole part's
    /// hook is published even while it is paused or off, so that switching it takes its sites alone.
    pub(super) fn publish(
        &mut self,
        id: ProbeId,
        definitions: impl Iterator<Item = &'static Definition>,
        is_paused: impl Fn(usize) -> bool,
        now: Era,
    ) -> Option<Published> {
        let is_sole = self.parts.len() == 1;
        let listening: Box<[Member]> = (self.parts.iter())
            .filter(|part| is_sole || !part.is_off && !is_paused(part.attachment))
            .map(|part| part.member.clone())
            .collect();
        let hook = (!listening.is_empty()).then(|| Published::new(Hook::new(id, listening), now));
        let old = std::mem::replace(&mut self.hook, hook);
        if cfg!(probe_backend = "x86_64") {
            self.show(definitions, true);
        } else if let Some(hook) = &self.hook {
            // The switch that follows shows or hides it; what is shown already must not be the old one.
            for definition in definitions.filter(|definition| definition.is_hooked()) {
                definition.hook().store(hook.hook.cast(), Ordering::Release);
            }
        }
        old
    }

    /// Shows the present hook to the probe's definitions, or hides it: there it is the switch where there are no sites
    /// to patch. Returns how many began or ceased to be hooked, and how many did not.
    pub(super) fn show(
        &self,
        definitions: impl Iterator<Item = &'static Definition>,
        is_visible: bool,
    ) -> (usize, usize) {
        let hook: *mut () =
            self.hook.as_ref().filter(|_| is_visible).map_or(ptr::null_mut(), |hook| hook.hook.cast());
        let (mut switched, mut unchanged) = (0, 0);
        for definition in definitions {
            if !claim(definition) {
                continue;
            }
            let before = definition.hook().swap(hook, Ordering::AcqRel);
            *(if before.is_null() == hook.is_null() { &mut unchanged } else { &mut switched }) += 1;
        }
        (switched, unchanged)
    }
}

/// Takes a definition for this runtime; false if another one in this process (a plugin's, say) has it.
pub(super) fn claim(definition: &Definition) -> bool {
    let ours = backend::entry(definition);
    let claimed =
        definition.entry().compare_exchange(ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire);
    claimed.is_ok() || claimed == Err(ours)
}
