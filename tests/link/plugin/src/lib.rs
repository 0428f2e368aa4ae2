//! A plugin: a C library with probes of its own and, since it needs no feature, no runtime.

use probe_runtime::probe;

#[probe]
#[inline(never)]
fn each(x: u64) -> u64 {
    probe!("value", x, text = "plugin", debug = ?Some(x));
    std::hint::black_box(x) + 1
}

/// Called by the host.
#[probe]
#[unsafe(no_mangle)]
pub extern "C" fn plugin_sum(n: u64) -> u64 {
    (0..n).map(each).sum()
}
