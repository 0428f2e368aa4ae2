//! The definitions without a linker that collects them (under Miri). A thread notes a definition
//! when it first passes the site.
//!
//! So a probe can be listed and selected only after its code has run once. Cost: a lock on each
//! pass of a site, so only Miri uses this module.

use std::collections::HashSet;
use std::ptr;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::abi::Definition;

static SEEN: LazyLock<Mutex<SeenDefinitions>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct SeenDefinitions {
    order: Vec<&'static Definition>,
    addresses: HashSet<usize>,
}

pub fn see(definition: &'static Definition) {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.addresses.insert(ptr::from_ref(definition).addr()) {
        seen.order.push(definition);
    }
}

/// Returns all noted definitions, in the order in which they were noted.
pub fn all() -> Vec<&'static Definition> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).order.clone()
}
