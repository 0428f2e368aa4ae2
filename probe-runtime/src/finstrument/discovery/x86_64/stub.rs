//! The stub of a discovered call, which leads to its definition.
//!
//! ```text
//! 48 39 3d rel32     cmp [function], rdi     the function that was discovered there?
//! 75 0a              jne other
//! 57                 push rdi
//! 48 8d 3d rel32     lea rdi, [definition]
//! ff 27              jmp [rdi]               its entry
//! ff 25 rel32        other: jmp [hook]       one that shares the call: as if it were no site
//! ```

use crate::engine::sites::word::INT3;

/// The size of a stub, in bytes.
pub(in super::super) const STUB_SIZE: usize = 32;
/// The length of a stub's comparison, in bytes. Code that has compared already skips it.
pub(in super::super) const COMPARISON_LEN: usize = 9;
/// The offset of a lone `ret` in a stub, behind its code.
pub(in super::super) const RET_OFFSET: usize = STUB_SIZE - 1;

/// The places that a stub names, as distances from the memory that holds all of them.
pub(in super::super) struct StubPlaces {
    /// The stub itself.
    pub(in super::super) code: usize,
    pub(in super::super) definition: usize,
    /// The pointer to the discovered function.
    pub(in super::super) function: usize,
    /// The pointer to the hook.
    pub(in super::super) hook: usize,
}

/// Returns the code of a stub.
pub(in super::super) fn stub(places: &StubPlaces) -> [u8; STUB_SIZE] {
    let mut bytes = [INT3; STUB_SIZE];
    // Each instruction with the place that it names, which its last four bytes lead to.
    let mut at = 0;
    for (instruction, place) in [
        (&[0x48, 0x39, 0x3d][..], places.function),
        (&[0x75, 0x0a, 0x57, 0x48, 0x8d, 0x3d], places.definition),
        (&[0xff, 0x27, 0xff, 0x25], places.hook),
    ] {
        bytes[at..at + instruction.len()].copy_from_slice(instruction);
        at += instruction.len() + 4;
        let distance = place - (places.code + at);
        bytes[at - 4..at].copy_from_slice(&u32::try_from(distance).unwrap_or_default().to_le_bytes());
    }
    // For a call that is switched off.
    bytes[RET_OFFSET] = super::call_patch::RET;
    bytes
}
