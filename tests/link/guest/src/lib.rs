//! A plugin with a runtime of its own, which counts its own probes, and those of whoever loads it.

use std::sync::Mutex;

use probe_runtime::patch::TextPolicy;
use probe_runtime::patch::call::CallOptions;
use probe_runtime::{Attachment, Count, probe, select};

static ATTACHED: Mutex<Option<Attachment<Count>>> = Mutex::new(None);

/// Called by the host.
#[probe]
#[unsafe(no_mangle)]
pub extern "C" fn guest_work(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

/// Attaches to all entries; returns how many sites that has switched.
#[unsafe(no_mangle)]
pub extern "C" fn guest_attach() -> u64 {
    let attached = select("** kind=entry").expect("probes").attach(Count::new()).expect("attach");
    let patched = attached.report().patched() as u64;
    *ATTACHED.lock().expect("not poisoned") = Some(attached);
    patched
}

/// Returns the hits of the attachment.
#[unsafe(no_mangle)]
pub extern "C" fn guest_total() -> u64 {
    ATTACHED.lock().expect("not poisoned").as_ref().map_or(0, Attachment::total)
}

/// Detaches; returns how many sites that has switched.
#[unsafe(no_mangle)]
pub extern "C" fn guest_detach() -> u64 {
    ATTACHED.lock().expect("not poisoned").take().map_or(0, |attached| attached.detach().patched() as u64)
}

/// Attaches to all entries, and holds their text open; returns how many sites that has switched.
#[unsafe(no_mangle)]
pub extern "C" fn guest_attach_open() -> u64 {
    let set = select("** kind=entry").expect("probes").text_policy(TextPolicy::Open);
    let attached = set.attach(Count::new()).expect("attach");
    let patched = attached.report().patched() as u64;
    *ATTACHED.lock().expect("not poisoned") = Some(attached);
    patched
}

/// Deactivates a call in code that can be written; returns whether that took a write.
#[unsafe(no_mangle)]
pub extern "C" fn guest_deactivate(site: u64) -> u64 {
    let options = CallOptions::new().text_policy(TextPolicy::Open);
    let site = usize::try_from(site).expect("an address");
    // SAFETY: the host names a CALL in writable code, which it can do without.
    unsafe { options.deactivate_call(site) }.expect("a CALL").into()
}
