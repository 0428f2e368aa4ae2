//! Definitions without a linker that collects them (under Miri): each is noted when its site is first passed.
//!
//! So a probe can be listed and selected only after its code has run once. Cost: a lock on each pass of a site, which is
//! why nothing but Miri goes this way.

use std::collections::HashSet;
use std::ptr;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::abi::Definition;

static SEEN: LazyLock<Mutex<Seen>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Seen {
    order: Vec<&'static Definition>,
    addresses: HashSet<usize>,
}

/// Notes a definition.
pub(crate) fn see(definition: &'static Definition) {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.addresses.insert(ptr::from_ref(definition).addr()) {
        seen.order.push(definition);
    }
}

/// All that were noted, in that order.
pub(super) fn all() -> Vec<&'static Definition> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).order.clone()
}
