//! `unsafe fn` and `extern "C" fn`.

use probe_runtime::probe;

/// # Safety
/// `p` can be read.
#[probe]
unsafe fn read(p: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { *p }
}

#[probe]
extern "C" fn callback(n: u32) -> u32 {
    n + 1
}

/// # Safety
/// As for [`read`].
#[probe]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_ui_exported(p: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { read(p) }
}

fn main() {
    let f: extern "C" fn(u32) -> u32 = callback;
    // SAFETY: a reference can be read.
    assert_eq!(f(unsafe { probe_ui_exported(&1) }), 2);
}
