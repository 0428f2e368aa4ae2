//! The size of an extended state with some parts, as the processor tells it.

// Safety: relies on the processor having `cpuid`, as every one of 64 bits.
#![expect(unsafe_code, reason = "see above")]

use std::arch::x86_64::__cpuid_count;

use super::signal_frame::LEAST;

/// The leaf of extended states.
const LEAF: u32 = 0xd;

/// Returns the bytes of an extended state with these parts in the standard layout (Intel SDM 1,
/// 13.4.3).
pub fn size_of(parts: u64) -> usize {
    let end = |part: u32| {
        // SAFETY: each processor of 64 bits has the instruction, which reads registers only.
        #[allow(unused_unsafe, reason = "it is safe in later versions of Rust")]
        let told = unsafe { __cpuid_count(LEAF, part) };
        told.eax as usize + told.ebx as usize
    };
    let there = (2..63).filter(|part| parts >> part & 1 == 1).map(end);
    there.max().unwrap_or(0).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_parts_need_no_fewer_bytes() {
        assert_eq!(size_of(3), LEAST);
        assert!(size_of(7) >= size_of(3));
    }
}
