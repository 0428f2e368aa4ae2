//! The text policy of first hits.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::engine::registry::provider::note_all;
use crate::engine::sites::TextPolicy;

static TEXT: AtomicU8 = AtomicU8::new(SEALED);
const SEALED: u8 = 0;
const OPEN: u8 = 1;
const ALIAS: u8 = 2;

/// Returns the policy by which first hits write text.
pub(super) fn text() -> TextPolicy {
    match TEXT.load(Ordering::Relaxed) {
        OPEN => TextPolicy::Open,
        ALIAS => TextPolicy::Alias,
        _ => TextPolicy::Sealed,
    }
}

/// Returns whether calls can be switched now at all.
pub(super) fn may_write() -> bool {
    text() != TextPolicy::Alias
}

pub(super) fn set_text(policy: TextPolicy) {
    let number = match policy {
        TextPolicy::Sealed => SEALED,
        TextPolicy::Open => OPEN,
        TextPolicy::Alias => ALIAS,
    };
    TEXT.store(number, Ordering::Relaxed);
    // Some calls may be patched now that could not be before.
    note_all();
}
