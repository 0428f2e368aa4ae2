//! A plugin with a runtime of its own, which replaces a function of its own.

use std::sync::Mutex;

use probe_runtime::control::Replacement;
use probe_runtime::probe;

static REPLACEMENT: Mutex<Option<Replacement>> = Mutex::new(None);

#[probe(replace)]
#[inline(never)]
fn work(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

/// Calls it.
#[unsafe(no_mangle)]
pub extern "C" fn replaced_work(x: u64) -> u64 {
    work(x)
}

/// Replaces it.
#[unsafe(no_mangle)]
pub extern "C" fn replaced_install() -> u64 {
    let replacement = work::install(|original, x| original(x) * 10).expect("its own probe");
    let patched = replacement.report().patched() as u64;
    *REPLACEMENT.lock().expect("not poisoned") = Some(replacement);
    patched
}

/// Restores the replaced function. Returns the number of patched sites, or 0 without a replacement.
#[unsafe(no_mangle)]
pub extern "C" fn replaced_remove() -> u64 {
    REPLACEMENT
        .lock()
        .expect("not poisoned")
        .take()
        .map_or(0, |replacement| replacement.remove().patched() as u64)
}
