//! A USDT probe: a NOP of one byte, and the note that tells tools of it.
//!
//! ```text
//!           nop                              a byte of its own: a tool puts its breakpoint here
//! .note.stapsdt, linked to the code:         the linker drops both, or none
//!   8, n, 3, "stapsdt"                       type 3, as `sdt.h` writes it
//!   address of the NOP, _.stapsdt.base, 0    no semaphore
//!   "provider", "name"                       `abi::usdt`
//!   "8@%rdi -4@%rsi"                         each argument: its size, and the register that has it
//! ```
//! - The byte is never one that this crate patches. When a uprobe is removed, the kernel writes
//!   back the byte of the file. On the NOP of a site, that would tear an active site. A site in the
//!   same word is safe: its patch compares the whole word.
//! - An asm block per machine copy emits its own note, so inlined and generic functions have one
//!   for each copy, with that copy's registers.
//! - The note is not loaded, and nothing is relocated when the program starts.
//! - Registers have their names of 64 bits, whatever the size: tools cut the value.
//! - With arguments, the asm may read memory, since a tool follows pointers. The compiler keeps no
//!   store to text or structures back until after the NOP.

// Safety: relies on a NOP having no effect, and on directives for other sections adding no
// instruction.
#![expect(unsafe_code, reason = "see above")]

use core::arch::asm;
use core::marker::PhantomData;

use crate::abi::usdt::{UsdtName, WORDS};
use crate::usdt::Argument;

/// A USDT probe in the source.
pub trait Usdt {
    /// Provider and name.
    const NAME: UsdtName;
}

/// One piece of a name's text, as the asm writes it: what does not fill a word comes first.
const fn piece<P: Usdt>(size: usize) -> u64 {
    // The bytes of the larger pieces come before.
    P::NAME.number(P::NAME.text_len() & 7 & !(2 * size - 1), size)
}

/// One whole word of a name's text.
const fn word<P: Usdt>(index: usize) -> u64 {
    P::NAME.number((P::NAME.text_len() & 7) + 8 * index, 8)
}

const _: () = assert!(WORDS == 32);

macro_rules! note {
    (
        $(#[$doc:meta])* $function:ident($($probe:ident: $phantom:ty)?) [$($options:ident),*]
        $($value:ident: $ty:ident = $size:ident $has_length:ident $wide:ident $narrow:ident $length:ident
        after $space:literal;)*
    ) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $function<P: Usdt $(, $ty: Argument)*>($($probe: $phantom,)? $($value: &$ty),*) {
            // SAFETY: the only instruction is a NOP, so flags, stack and registers stay. No operand
            // is read, so uninitialised ones are fine. All other lines go to sections that are not
            // code.
            unsafe {
                asm!(
                    // Once per assembler context. A counter makes the labels unique; see `site`.
                    ".ifndef .Lprobe_v1_usdt",
                    ".set .Lprobe_v1_usdt, 0",
                    ".macro probe_v1_usdt n",
                    ".Lprobe_v1_usdt_\\n\\(): nop",
                    // gold and mold drop a section that only a note refers to. This reference fills
                    // in nothing.
                    ".reloc .Lprobe_v1_usdt_\\n, R_X86_64_NONE, _.stapsdt.base",
                    ".pushsection .note.stapsdt, \"o\", @note, .Lprobe_v1_usdt_\\n",
                    ".p2align 2",
                    ".long 8, 3f - 2f, 3",
                    ".asciz \"stapsdt\"",
                    "2: .quad .Lprobe_v1_usdt_\\n, _.stapsdt.base, 0",
                    ".endm",
                    ".ifndef _.stapsdt.base",
                    ".pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat",
                    ".weak _.stapsdt.base",
                    ".hidden _.stapsdt.base",
                    "_.stapsdt.base: .space 1",
                    ".size _.stapsdt.base, 1",
                    ".popsection",
                    ".endif",
                    ".endif",
                    ".set .Lprobe_v1_usdt, .Lprobe_v1_usdt + 1",
                    ".altmacro",
                    "probe_v1_usdt %.Lprobe_v1_usdt",
                    ".noaltmacro",
                    // Provider and name.
                    ".if {len} & 4", ".long {four}", ".endif",
                    ".if {len} & 2", ".short {two}", ".endif",
                    ".if {len} & 1", ".byte {one}", ".endif",
                    ".set .Lprobe_v1_words, {len} / 8",
                    ".irp word, {w0}, {w1}, {w2}, {w3}, {w4}, {w5}, {w6}, {w7}, {w8}, {w9}, {w10}, {w11}, {w12}, \
                        {w13}, {w14}, {w15}, {w16}, {w17}, {w18}, {w19}, {w20}, {w21}, {w22}, {w23}, {w24}, {w25}, \
                        {w26}, {w27}, {w28}, {w29}, {w30}, {w31}",
                    ".if .Lprobe_v1_words > 0",
                    ".quad \\word",
                    ".set .Lprobe_v1_words, .Lprobe_v1_words - 1",
                    ".endif",
                    ".endr",
                    // Arguments.
                    $(
                        concat!(".if {", stringify!($size), "} * {", stringify!($size), "} == 64"),
                        concat!(".ascii \"", $space, "{", stringify!($size), "}@%{", stringify!($wide), ":r}\""),
                        ".else",
                        concat!(".ascii \"", $space, "{", stringify!($size), "}@%{", stringify!($narrow), ":r}\""),
                        ".endif",
                        concat!(".if {", stringify!($has_length), "}"),
                        concat!(".ascii \" 8@%{", stringify!($length), ":r}\""),
                        ".endif",
                    )*
                    ".byte 0",
                    "3: .p2align 2",
                    ".popsection",
                    len = const P::NAME.text_len(),
                    four = const piece::<P>(4), two = const piece::<P>(2), one = const piece::<P>(1),
                    w0 = const word::<P>(0), w1 = const word::<P>(1),
                    w2 = const word::<P>(2), w3 = const word::<P>(3),
                    w4 = const word::<P>(4), w5 = const word::<P>(5),
                    w6 = const word::<P>(6), w7 = const word::<P>(7),
                    w8 = const word::<P>(8), w9 = const word::<P>(9),
                    w10 = const word::<P>(10), w11 = const word::<P>(11),
                    w12 = const word::<P>(12), w13 = const word::<P>(13),
                    w14 = const word::<P>(14), w15 = const word::<P>(15),
                    w16 = const word::<P>(16), w17 = const word::<P>(17),
                    w18 = const word::<P>(18), w19 = const word::<P>(19),
                    w20 = const word::<P>(20), w21 = const word::<P>(21),
                    w22 = const word::<P>(22), w23 = const word::<P>(23),
                    w24 = const word::<P>(24), w25 = const word::<P>(25),
                    w26 = const word::<P>(26), w27 = const word::<P>(27),
                    w28 = const word::<P>(28), w29 = const word::<P>(29),
                    w30 = const word::<P>(30), w31 = const word::<P>(31),
                    $(
                        $size = const $ty::SIZE,
                        $has_length = const $ty::HAS_LENGTH as u8,
                        $wide = in(reg) $value.wide(),
                        $narrow = in(reg) $value.narrow(),
                        $length = in(reg) $value.second(),
                    )*
                    options($($options,)* nostack, preserves_flags),
                );
            }
        }
    };
}

note! {
    /// A USDT probe without arguments.
    usdt_note0() [nomem]
}
note! {
    /// A USDT probe with one.
    usdt_note1(_probe: PhantomData<P>) [readonly]
    a: A = a_size a_has_length a_wide a_narrow a_length after "";
}
note! {
    /// A USDT probe with two.
    usdt_note2(_probe: PhantomData<P>) [readonly]
    a: A = a_size a_has_length a_wide a_narrow a_length after "";
    b: B = b_size b_has_length b_wide b_narrow b_length after " ";
}
note! {
    /// A USDT probe with three.
    usdt_note3(_probe: PhantomData<P>) [readonly]
    a: A = a_size a_has_length a_wide a_narrow a_length after "";
    b: B = b_size b_has_length b_wide b_narrow b_length after " ";
    c: C = c_size c_has_length c_wide c_narrow c_length after " ";
}
note! {
    /// A USDT probe with four. Unoptimised code keeps even unused operands in registers, and there
    /// are none for a fifth one.
    usdt_note4(_probe: PhantomData<P>) [readonly]
    a: A = a_size a_has_length a_wide a_narrow a_length after "";
    b: B = b_size b_has_length b_wide b_narrow b_length after " ";
    c: C = c_size c_has_length c_wide c_narrow c_length after " ";
    d: D = d_size d_has_length d_wide d_narrow d_length after " ";
}

/// The guard whose drop is the USDT probe of an exit.
#[derive(Debug)]
pub struct UsdtExit<P: Usdt>(pub PhantomData<P>);

impl<P: Usdt> Drop for UsdtExit<P> {
    #[inline(always)]
    fn drop(&mut self) {
        usdt_note0::<P>();
    }
}
