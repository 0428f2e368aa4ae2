//! Two instructions of each length. They differ in their effect on `rax`, and so does any mix of
//! their bytes.
//!
//! `teeth` executes every mix at every split, and checks that none passes for either.

use probe_runtime::patch::Bytes;

use super::code::{R10, RAX, RDX};

/// An instruction, its replacement, and the value of `rax` after either.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub old: Bytes,
    pub new: Bytes,
    pub effects: [u64; 2],
}

impl Form {
    /// The form of a length, 1 to 8 bytes.
    pub fn of_len(len: usize) -> Self {
        let (eax, edx) = (low(RAX), low(RDX));
        match len {
            // cwde; xchg eax, edx
            1 => form([0x98], [0x92], [low(0xffff_fff0), edx]),
            // mov al, imm8; mov ah, imm8
            2 => form([0xb0, 0x11], [0xb4, 0x22], [RAX & !0xff | 0x11, RAX & !0xff00 | 0x2200]),
            // add eax, imm8; imul eax, edx, imm8
            3 => form([0x83, 0xc0, 0x31], [0x6b, 0xc2, 0x42], [low(eax + 0x31), low(edx * 0x42)]),
            // add rax, imm8; imul ax, dx, imm8
            4 => form(
                [0x48, 0x83, 0xc0, 0x31],
                [0x66, 0x6b, 0xc2, 0x42],
                [RAX.wrapping_add(0x31), RAX & !0xffff | ((RDX & 0xffff) * 0x42) & 0xffff],
            ),
            // mov eax, imm32; add eax, imm32
            5 => form(
                [0xb8, 0x11, 0x12, 0x13, 0x14],
                [0x05, 0x21, 0x22, 0x23, 0x24],
                [0x1413_1211, low(eax + 0x2423_2221)],
            ),
            // add eax, imm32; imul eax, edx, imm32
            6 => form(
                [0x81, 0xc0, 0x11, 0x12, 0x13, 0x14],
                [0x69, 0xc2, 0x21, 0x22, 0x23, 0x24],
                [low(eax + 0x1413_1211), low(edx * 0x2423_2221)],
            ),
            // add rax, imm32; imul eax, r10d, imm32
            7 => form(
                [0x48, 0x81, 0xc0, 0x11, 0x12, 0x13, 0x14],
                [0x41, 0x69, 0xc2, 0x21, 0x22, 0x23, 0x24],
                [RAX.wrapping_add(0x1413_1211), low(low(R10) * 0x2423_2221)],
            ),
            // lea rax, [rdx + rax + disp32]; lea rax, [r10 + rdx + disp32]
            8 => form(
                [0x48, 0x8d, 0x84, 0x02, 0x11, 0x12, 0x13, 0x14],
                [0x49, 0x8d, 0x84, 0x12, 0x21, 0x22, 0x23, 0x24],
                [
                    RDX.wrapping_add(RAX).wrapping_add(0x1413_1211),
                    R10.wrapping_add(RDX).wrapping_add(0x2423_2221),
                ],
            ),
            _ => unreachable!("1 to 8 bytes"),
        }
    }
}

fn form<const N: usize>(old: [u8; N], new: [u8; N], effects: [u64; 2]) -> Form
where
    Bytes: From<[u8; N]>,
{
    Form { old: old.into(), new: new.into(), effects }
}

fn low(value: u64) -> u64 {
    value & 0xffff_ffff
}
