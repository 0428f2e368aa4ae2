//! Loops that call one function. Each loop and each function is at the start of a cache line,
//! because alignment alone can make an empty call take half as long again.

use crate::Case;

/// `aligned_calls!(NAME, "SECTION", CALLEE)`: `fn NAME(calls: u64)` calls `CALLEE` that often. Both
/// are at the start of a cache line: the loop in the section `SECTION.loop`, and the callee in
/// `SECTION`, which it has to name with `link_section`. [`aligned`] checks that.
#[macro_export]
macro_rules! aligned_calls {
    ($name:ident, $section:literal, $callee:path) => {
        std::arch::global_asm!(
            concat!(".pushsection ", $section, ", \"ax\", @progbits"),
            ".p2align 6",
            ".popsection",
            concat!(".pushsection ", $section, ".loop, \"ax\", @progbits"),
            ".p2align 6",
            ".popsection",
        );

        #[inline(never)]
        #[expect(unsafe_code, reason = "a section of its own")]
        // SAFETY: the section holds only code.
        #[unsafe(link_section = concat!($section, ".loop"))]
        fn $name(calls: u64) {
            for _ in 0..calls {
                $callee();
            }
        }
    };
}

/// Returns a case that calls `callee` through `calls_it`. Checks that both are aligned.
///
/// # Panics
/// If one is not at the start of a cache line.
pub fn aligned(name: &'static str, calls: u64, calls_it: fn(u64), callee: fn()) -> Case<'static> {
    for addr in [calls_it as usize, callee as usize] {
        assert!(addr.is_multiple_of(64), "{name}: {addr:#x} is not at the start of a cache line");
    }
    Case::new(name, calls, calls_it)
}
