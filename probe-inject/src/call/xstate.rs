//! The size of an extended state, as the processor describes it.

// Safety: relies on the processor having `cpuid`, as every one of 64 bits.
#![expect(unsafe_code, reason = "see above")]

use std::arch::x86_64::__cpuid_count;

use super::signal_frame::MIN_XSTATE_BYTES;

/// Returns the bytes of an extended state with these components in the standard layout (Intel SDM
/// 1, 13.4.3).
pub fn xstate_bytes(components: u64) -> usize {
    const XSTATE_LEAF: u32 = 0xd;
    let end = |component: u32| {
        // SAFETY: each processor of 64 bits has the instruction, which reads registers only.
        #[allow(unused_unsafe, reason = "it is safe in later versions of Rust")]
        let described = unsafe { __cpuid_count(XSTATE_LEAF, component) };
        described.eax as usize + described.ebx as usize
    };
    let ends = (2..63).filter(|component| components >> component & 1 == 1).map(end);
    ends.max().unwrap_or(0).max(MIN_XSTATE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_components_need_no_fewer_bytes() {
        assert_eq!(xstate_bytes(3), MIN_XSTATE_BYTES);
        assert!(xstate_bytes(7) >= xstate_bytes(3));
    }
}
