//! The area that keeps vector, mask and x87 registers during a hit of a site that the compiler does
//! not know of.
//!
//! At the entry of a function, its arguments may lie in `xmm0` to `xmm7` and in the wider registers
//! around them; before a return, its result; before a tail call, the next function's arguments. A
//! consumer may use all of these registers. So the whole state is kept: with `XSAVEC`, which leaves
//! out unused components, or else with `XSAVE`, or, on processors with no more than SSE, with
//! `FXSAVE`. (Intel SDM vol. 1, 13.7 to 13.11; AMD APM vol. 2, 11.5.)
//!
//! Life cycle: the processor is queried before the first definition with
//! [`Convention::Hidden`](crate::abi::Convention) gets its entry; then nothing changes. Cost: none
//! for a probe that is only counted; else some 30 ns, and up to 2.7 KB of stack.

// Safety: relies on every x86-64 processor having `cpuid`.
#![expect(unsafe_code, reason = "see above")]

use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The words that `enter` reads: size of the area in bytes, then the components to keep.
#[repr(C)]
pub(super) struct Area {
    size: AtomicU64,
    components: AtomicU64,
}

/// Written before any entry that reads it is published.
pub(super) static AREA: Area = Area { size: AtomicU64::new(0), components: AtomicU64::new(0) };

/// The instruction that keeps the registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Xsavec,
    Xsave,
    Fxsave,
}

/// x87, SSE, AVX, AVX-512's masks and both of its vector parts: `XCR0` bits 0 to 2 and 5 to 7.
/// Protection keys and tiles are left out: C passes no arguments or results in them.
const COMPONENTS: u64 = 0b1110_0111;
/// Bytes of the area's legacy part and header.
const LEGACY_AND_HEADER: u64 = 512 + 64;
/// Aligns the area, and keeps its zeroed header clear of the words that `enter` itself has on the
/// stack.
const ALIGNMENT: u64 = 64;

/// Queries the processor with `CPUID`.
#[allow(unused_unsafe, reason = "later versions of Rust than the oldest that is supported call it safe")]
pub(super) fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    // SAFETY: the processor has the instruction.
    unsafe { __cpuid_count(leaf, subleaf) }
}

/// Queries the processor once, and fills in [`AREA`].
pub(super) fn prepare() -> Way {
    static WAY: OnceLock<Way> = OnceLock::new();
    *WAY.get_or_init(|| {
        let has_xsave = cpuid(1, 0).ecx & (1 << 27) != 0; // OSXSAVE: the system has switched it on
        if !has_xsave {
            AREA.size.store(LEGACY_AND_HEADER + ALIGNMENT, Ordering::Relaxed);
            return Way::Fxsave;
        }
        // Leaf 13: the components that exist; then the end of each one in the standard format,
        // which is never less than in the compacted one.
        let leaf = cpuid(13, 0);
        let components = (u64::from(leaf.edx) << 32 | u64::from(leaf.eax)) & COMPONENTS;
        let end = |component: u32| {
            let leaf = cpuid(13, component);
            u64::from(leaf.eax) + u64::from(leaf.ebx)
        };
        let kept = (2..u64::BITS).filter(|component| components >> component & 1 == 1);
        let size = kept.map(end).fold(LEGACY_AND_HEADER, u64::max);
        AREA.size.store(size + ALIGNMENT, Ordering::Relaxed);
        AREA.components.store(components, Ordering::Relaxed);
        let has_xsavec = cpuid(13, 1).eax & (1 << 1) != 0;
        if has_xsavec { Way::Xsavec } else { Way::Xsave }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "cpuid")]
    fn the_area_holds_what_the_processor_has() {
        let way = prepare();
        let (size, components) = (AREA.size.load(Ordering::Relaxed), AREA.components.load(Ordering::Relaxed));
        assert!((LEGACY_AND_HEADER..=2_688).contains(&(size - ALIGNMENT)), "{size}");
        assert_eq!(components & !COMPONENTS, 0);
        if way != Way::Fxsave {
            assert_eq!(components & 0b11, 0b11, "x87 and SSE");
            assert_eq!(components & 0b100 != 0, std::is_x86_feature_detected!("avx"));
            assert_eq!(components & 0b1110_0000 != 0, std::is_x86_feature_detected!("avx512f"));
        }
    }
}
