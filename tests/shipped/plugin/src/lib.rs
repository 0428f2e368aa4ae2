//! A plugin on libraries that ship probes; it has none of its own, and knows nothing of them.

/// Returns [`middle::total`] of the frames `[2, 7, 7]` and `[0]`, for the host.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_total() -> u64 {
    middle::total(std::hint::black_box(&[2, 7, 7, 0]))
}
