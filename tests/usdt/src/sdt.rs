//! A USDT probe as `sys/sdt.h` has it in C: its section of notes is not linked to the code.

use core::arch::asm;

/// A probe with one argument.
#[inline(never)]
pub fn of_sdt_h(value: u64) {
    // SAFETY: the only instruction is a NOP, which reads no operand.
    unsafe {
        asm!(
            "990: nop",
            ".pushsection .note.stapsdt, \"\", @note",
            ".balign 4",
            ".4byte 992f - 991f, 994f - 993f, 3",
            "991: .asciz \"stapsdt\"",
            "992: .balign 4",
            "993: .8byte 990b",
            ".8byte _.stapsdt.base",
            ".8byte 0",
            ".asciz \"usdt\"",
            ".asciz \"of_sdt_h\"",
            ".asciz \"8@%{value:r}\"",
            "994: .balign 4",
            ".popsection",
            ".ifndef _.stapsdt.base",
            ".pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat",
            ".weak _.stapsdt.base",
            ".hidden _.stapsdt.base",
            "_.stapsdt.base: .space 1",
            ".size _.stapsdt.base, 1",
            ".popsection",
            ".endif",
            value = in(reg) value,
            options(readonly, nostack, preserves_flags),
        );
    }
}
