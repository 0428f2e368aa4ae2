//! The functions that the self-test patches: each returns the number in its one `mov`.

// Safety: relies on each returning the number in `eax`, as its type says, and touching nothing
// else.
#![allow(unsafe_code, reason = "see above; on the oldest Rust that is supported there is nothing to allow")]

use std::arch::naked_asm;

use crate::engine::bytes::Bytes;

/// The first instruction of both functions, and the one that replaces it.
pub(crate) const ONE: Bytes = mov(1);
pub(crate) const TWO: Bytes = mov(2);
/// The greatest number of bytes of padding in front of the instruction: for the alignment and for
/// the misalignment.
pub(crate) const MAX_PADDING: usize = 63 + 62;

/// Returns `mov eax, number`.
const fn mov(number: u8) -> Bytes {
    match Bytes::new(&[0xb8, number, 0, 0, 0]) {
        Some(bytes) => bytes,
        None => panic!("5 bytes"),
    }
}

/// `mov eax, 1; ret`, the `mov` in one aligned word.
#[unsafe(naked)]
pub(crate) extern "C" fn aligned() -> u32 {
    naked_asm!(".p2align 3, 0x90", "mov eax, 1", "ret")
}

/// `mov eax, 1; ret`, the `mov` across two cache lines: two bytes in the first, three in the
/// second.
#[unsafe(naked)]
pub(crate) extern "C" fn straddling() -> u32 {
    naked_asm!(".p2align 6, 0x90", ".fill 62, 1, 0x90", "mov eax, 1", "ret")
}
