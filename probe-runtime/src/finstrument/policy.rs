//! How first hits are patched, and whether there is news for the control.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::patch::TextPolicy;

static TEXT: AtomicU8 = AtomicU8::new(SEALED);
const SEALED: u8 = 0;
const OPEN: u8 = 1;
const ALIAS: u8 = 2;

/// Something was discovered, or patched, since the control looked last.
static NEWS: AtomicBool = AtomicBool::new(false);

/// How first hits get at text.
pub(super) fn text() -> TextPolicy {
    match TEXT.load(Ordering::Relaxed) {
        OPEN => TextPolicy::Open,
        ALIAS => TextPolicy::Alias,
        _ => TextPolicy::Sealed,
    }
}

pub(super) fn set_text(policy: TextPolicy) {
    let number = match policy {
        TextPolicy::Sealed => SEALED,
        TextPolicy::Open => OPEN,
        TextPolicy::Alias => ALIAS,
    };
    TEXT.store(number, Ordering::Relaxed);
    // What can be patched now, and could not before.
    note();
}

/// Has the control look.
pub(super) fn note() {
    NEWS.store(true, Ordering::SeqCst);
}

/// Whether it has to.
pub(crate) fn has_news() -> bool {
    NEWS.load(Ordering::SeqCst)
}

/// Whether it had to; it does now.
pub(crate) fn take_news() -> bool {
    NEWS.swap(false, Ordering::SeqCst)
}
