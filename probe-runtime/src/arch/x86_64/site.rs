//! One site in Rust code: a NOP5 that is patched to a JMP into a cold block.
//!
//! ```text
//!           latent                          active
//!   .p2align 3, , 4                 .p2align 3, , 4
//!   0f 1f 44 00 08   nopl 8(…)      e9 rel32   jmp cold
//!   …                               …
//!   cold:  add rsp, -128            (laid out by the compiler, out of the way)
//!          call stub
//!          sub rsp, -128
//!          jmp back
//!   stub:  push rdi
//!          lea rdi, [rip + DEFINITION]
//!          jmp [rdi]
//! ```
//!
//! - Not a CALL at the site: in Rust code its return address would land in the red zone of a leaf function. The
//!   cold block steps over the red zone itself, so the compiler need not keep it free: a leaf function stays one,
//!   without a frame. Who unwinds through a hit finds the stack pointer as it was before that step (the unwind
//!   tables of `enter` say so); only a signal that interrupts the cold block between its `add` and its `call`, or
//!   after it, sees frames that are off by the step.
//! - `.p2align 3, , 4` pads by at most 4 bytes; after it the five bytes lie in one aligned 8-byte word, since
//!   any other offset than 0 to 3 in its word is 4 or less away from the next word. Five bytes and their
//!   padding never leave room for a second site in that word.
//! - The NOP has the displacement 8, where the compilers' own and the kernel's have 0: nobody takes it for his.
//! - All general registers survive a hit: one that did not would cost a copy on the hot path. Vector registers are
//!   clobbered in the cold block, so the compiler spills what lives in them there and nowhere else.
//! - The stub, one a probe, is what sites refer to, not the definition: a reference to a *function* links in
//!   every kind of output, also from a generic function that another shared object instantiates, where a
//!   reference to data would need a copy relocation or fail to link.
//! - One or two fields go to the stack word by word, from registers: their address is never taken, so nothing
//!   is computed outside of the cold block. More go through an array of the compiler's.

/// The definition and stub of a probe.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_define {
    ($kind:ident, $probe:tt; $($field:literal),*) => {
        $crate::__private::v1::definition! { $kind, $probe; $($field),* }

        #[unsafe(naked)]
        extern "C" fn __probe_stub() {
            $crate::__private::v1::naked_asm!(
                // rustc exports it from a `dylib`, but only the stub refers to it.
                ".hidden {definition}",
                "push rdi",
                "lea rdi, [rip + {definition}]",
                "jmp [rdi]",
                definition = sym __PROBE_DEFINITION,
            )
        }
    };
}

/// One site of the probe that was defined in a surrounding block.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_place {
    ($($captures:tt)*) => {
        $crate::__private::v1::nop! { { $crate::__private::v1::capture! { $($captures)* } } }
    };
}

/// The site of a function that may be replaced; the body of a function that answers with `Passed`. Asked, it names the probe, and is no
/// site.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_replace_site {
    ($asked:ident, $probe:tt) => {
        $crate::__private::v1::define! { Replace, $probe; }
        if $asked {
            return $crate::__private::v1::Passed::Probe(&__PROBE_DEFINITION);
        }
        $crate::__private::v1::nop! { {
            $crate::__private::v1::deliver! { [] }
            return $crate::__private::v1::Passed::Active;
        } }
        $crate::__private::v1::Passed::Latent
    };
}

/// The site itself, and where it leads while it is active.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_nop {
    ($cold:block) => {
        // SAFETY: a NOP has no effect on registers, flags or memory; patched to a JMP, it goes to the
        // cold block, which is declared as a label and states its own effects.
        unsafe {
            $crate::__private::v1::asm!(
                // Once per assembler context: the note that finds the tables, and the macro for a site.
                // `\@` restarts in every asm block, so a counter makes the labels unique; a numeric label
                // is refused as the linked-to symbol of an "o" section.
                ".ifndef .Lprobe_v1_n",
                ".set .Lprobe_v1_n, 0",
                ".weak __start_probe_sites, __stop_probe_sites",
                ".hidden __start_probe_sites, __stop_probe_sites",
                ".weak __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1",
                ".hidden __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1",
                ".pushsection .note.latent_probe, \"a\", @note",
                ".p2align 2",
                ".long 12, 32, 1",
                ".asciz \"LatentProbe\"",
                ".quad __start_probe_sites - ., __stop_probe_sites - .",
                ".quad __start_linkme_PROBE_DEFINITIONS_V1 - ., __stop_linkme_PROBE_DEFINITIONS_V1 - .",
                ".popsection",
                ".macro probe_v1_site n, cold, stub",
                ".p2align 3, , 4",
                ".Lprobe_v1_site_\\n\\(): .byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
                ".pushsection probe_sites, \"ao\", @progbits, .Lprobe_v1_site_\\n",
                ".p2align 2",
                ".byte 1, 16, 1, 0",
                ".long .Lprobe_v1_site_\\n - ., \\cold - ., \\stub@PLT - .",
                ".popsection",
                ".endm",
                ".endif",
                ".set .Lprobe_v1_n, .Lprobe_v1_n + 1",
                ".altmacro",
                "probe_v1_site %.Lprobe_v1_n, {cold}, {stub}",
                ".noaltmacro",
                stub = sym __probe_stub,
                cold = label $cold,
                options(nomem, nostack, preserves_flags),
            )
        }
    };
}

/// The rest of the cold block: the fields' values on the stack (docs/abi.md, "Values"), then the call of the stub.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_deliver {
    ([$($done:tt)*]) => {{
        $crate::__private::v1::call! { [sym __probe_stub], ["add rsp, -128"], ["sub rsp, -128"], [] }
        $($done)*
    }};
    // `match`, so that temporaries in the expressions outlive the call.
    ([$($done:tt)*] $field:literal = $how:ident($value:expr)) => {{
        $crate::__private::v1::typed! { InRegisters }
        match $crate::__private::v1::pass!(__ProbeField<0>, $how, $value).0 {
            [__probe_ty, __probe_low, __probe_high] => {
                $crate::__private::v1::call! {
                    [sym __probe_stub],
                    ["sub rsp, 192", "mov [rsp], {ty}", "mov [rsp + 8], {low}", "mov [rsp + 16], {high}"],
                    ["add rsp, 192"],
                    [ty = in(reg) __probe_ty, low = in(reg) __probe_low, high = in(reg) __probe_high,]
                }
                $($done)*
            }
        }
    }};
    (
        [$($done:tt)*]
        $field1:literal = $how1:ident($value1:expr), $field2:literal = $how2:ident($value2:expr)
    ) => {{
        $crate::__private::v1::typed! { InRegisters }
        match (
            $crate::__private::v1::pass!(__ProbeField<0>, $how1, $value1).0,
            $crate::__private::v1::pass!(__ProbeField<1>, $how2, $value2).0,
        ) {
            ([__probe_ty1, __probe_low1, __probe_high1], [__probe_ty2, __probe_low2, __probe_high2]) => {
                $crate::__private::v1::call! {
                    [sym __probe_stub],
                    [
                        "sub rsp, 192",
                        "mov [rsp], {ty1}", "mov [rsp + 8], {low1}", "mov [rsp + 16], {high1}",
                        "mov [rsp + 24], {ty2}", "mov [rsp + 32], {low2}", "mov [rsp + 40], {high2}"
                    ],
                    ["add rsp, 192"],
                    [
                        ty1 = in(reg) __probe_ty1, low1 = in(reg) __probe_low1, high1 = in(reg) __probe_high1,
                        ty2 = in(reg) __probe_ty2, low2 = in(reg) __probe_low2, high2 = in(reg) __probe_high2,
                    ]
                }
                $($done)*
            }
        }
    }};
    ([$($done:tt)*] $($field:literal = $how:ident($value:expr)),+) => {{
        $crate::__private::v1::typed! { InMemory }
        const __PROBE_FIELDS: &$crate::__private::v1::str = $crate::__private::v1::concat!($($field, "\n"),+);
        match [$($crate::__private::v1::pass!(
            __ProbeField<{ $crate::__private::v1::field_index(__PROBE_FIELDS, $field) }>, $how, $value
        )),+] {
            __probe_values => {
                $crate::__private::v1::call! {
                    [sym __probe_stub],
                    ["sub rsp, 192", "mov [rsp + 56], {values}"],
                    ["add rsp, 192"],
                    [values = in(reg) __probe_values.as_ptr(),]
                }
                $($done)*
            }
        }
    }};
}

/// A passage as `$passage`, which also says the type of what it passes: a record among the sites', and not one instruction.
/// Nothing but the code that is made for a type knows it, and that lies wherever the compiler put the cold block.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_typed {
    ($passage:ident) => {
        enum __ProbeField<const INDEX: $crate::__private::v1::usize> {}

        impl<const INDEX: $crate::__private::v1::usize> $crate::__private::v1::Passage for __ProbeField<INDEX> {
            type Out<'value> =
                <$crate::__private::v1::$passage as $crate::__private::v1::Passage>::Out<'value>;

            #[inline(always)]
            fn one<'value, const TY: $crate::__private::v1::u64>(low: $crate::__private::v1::u64) -> Self::Out<'value> {
                $crate::__private::v1::field_type! { INDEX, TY }
                <$crate::__private::v1::$passage as $crate::__private::v1::Passage>::one::<TY>(low)
            }

            #[inline(always)]
            fn two<'value, const TY: $crate::__private::v1::u64>(low: $crate::__private::v1::u64, high: $crate::__private::v1::u64) -> Self::Out<'value> {
                $crate::__private::v1::field_type! { INDEX, TY }
                <$crate::__private::v1::$passage as $crate::__private::v1::Passage>::two::<TY>(low, high)
            }

            #[inline(always)]
            fn text<'value, const AT: $crate::__private::v1::usize, const LEN: $crate::__private::v1::u64>() -> Self::Out<'value> {
                $crate::__private::v1::field_type! { INDEX, $crate::__private::v1::Type::Str as $crate::__private::v1::u64 }
                <$crate::__private::v1::$passage as $crate::__private::v1::Passage>::text::<AT, LEN>()
            }

            #[inline(always)]
            fn formatted<'value, F: $crate::__private::v1::Formatting>(data: *const ()) -> Self::Out<'value> {
                $crate::__private::v1::field_type! { INDEX, $crate::__private::v1::Type::Format as $crate::__private::v1::u64 }
                <$crate::__private::v1::$passage as $crate::__private::v1::Passage>::formatted::<F>(data)
            }
        }
    };
}

/// The record of a field's type (docs/abi.md, "Records").
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_field_type {
    ($index:ident, $ty:expr) => {
        // SAFETY: directives for other sections, and a label: no instruction.
        unsafe {
            $crate::__private::v1::asm!(
                // As for a site: once per assembler context, and a counter for the labels.
                ".ifndef .Lprobe_v1_types",
                ".set .Lprobe_v1_types, 0",
                ".macro probe_v1_type n, index, ty, stub",
                ".Lprobe_v1_type_\\n\\():",
                ".pushsection probe_sites, \"ao\", @progbits, .Lprobe_v1_type_\\n",
                ".p2align 2",
                ".byte 1, 12, 3, \\index",
                ".long \\ty, \\stub@PLT - .",
                ".popsection",
                ".endm",
                ".endif",
                ".set .Lprobe_v1_types, .Lprobe_v1_types + 1",
                ".altmacro",
                "probe_v1_type %.Lprobe_v1_types, {index}, {ty}, {stub}",
                ".noaltmacro",
                index = const $index,
                ty = const $ty,
                stub = sym __probe_stub,
                options(nomem, nostack, preserves_flags),
            )
        }
    };
}

/// The hit of a site of which a field panicked.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_deliver_failed {
    () => {
        $crate::__private::v1::failed(__probe_stub)
    };
}

/// Steps over the red zone, calls the stub, steps back.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_call {
    ([$($stub:tt)+], [$($before:literal),+], [$($after:literal),+], [$($values:tt)*]) => {
        // SAFETY: the stub enters the owner of the probe, which keeps every register that is not named
        // here (docs/abi.md, "Entry") and reads the values, which are alive until after the call. The red
        // zone is stepped over, and the stack pointer is what it was.
        unsafe {
            $crate::__private::v1::asm!(
                $($before,)+
                "call {stub}",
                $($after,)+
                stub = $($stub)+, $($values)*
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _, out("xmm16") _, out("xmm17") _,
                out("xmm18") _, out("xmm19") _, out("xmm20") _, out("xmm21") _, out("xmm22") _, out("xmm23") _,
                out("xmm24") _, out("xmm25") _, out("xmm26") _, out("xmm27") _, out("xmm28") _, out("xmm29") _,
                out("xmm30") _, out("xmm31") _, out("k0") _, out("k1") _, out("k2") _, out("k3") _,
                out("k4") _, out("k5") _, out("k6") _, out("k7") _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _, out("st(4)") _, out("st(5)") _,
                out("st(6)") _, out("st(7)") _,
                options(nostack),
            )
        }
    };
}

pub use crate::{
    __probe_v1_call as call, __probe_v1_define as define, __probe_v1_deliver as deliver,
    __probe_v1_deliver_failed as deliver_failed, __probe_v1_field_type as field_type, __probe_v1_nop as nop,
    __probe_v1_place as place, __probe_v1_replace_site as replace_site, __probe_v1_typed as typed,
};
