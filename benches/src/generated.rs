//! Programs with as many sites as asked for, straight from the assembler: the binary interface of
//! `docs/abi.md`, written by hand, in the same shape that the macros give it.
//!
//! ```text
//! function:  entry's NOP5 ▸ 34 to 62 bytes of arithmetic ▸ exit's NOP5 ▸ ret ▸ two cold blocks
//! stubs:     one for each probe            records: one for each site
//! definitions: `generated::f000000`, … each with kinds `entry` and `exit`, in `generated.s`
//! ```
//! A function adds 1 to its argument and mixes it; it is called at its entry's site.

/// `generated_functions!(COUNT)`: that many functions with an entry and an exit probe each.
/// `generated_functions!(COUNT, plain)`: the same functions without probes.
///
/// The first one is `generated_first`, which the program has to refer to, or the linker drops them all.
#[macro_export]
macro_rules! generated_functions {
    ($functions:literal) => {
        $crate::generated_functions!(@ $functions, "1");
    };
    ($functions:literal, plain) => {
        $crate::generated_functions!(@ $functions, "0");
    };
    (@ $functions:literal, $probes:literal) => {
        std::arch::global_asm!(
            concat!(".set .Lgenerated_probes, ", $probes),
            // What begins a function's section, its note, and the tables.
            ".pushsection .text.generated, \"ax\", @progbits",
            ".p2align 6",
            ".globl generated_first",
            ".hidden generated_first",
            "generated_first:",
            ".Lgenerated_text:",
            ".popsection",
            ".weak __start_probe_sites, __stop_probe_sites",
            ".hidden __start_probe_sites, __stop_probe_sites",
            ".if .Lgenerated_probes",
            ".weak __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1",
            ".hidden __start_linkme_PROBE_DEFINITIONS_V1, __stop_linkme_PROBE_DEFINITIONS_V1",
            ".pushsection .note.latent_probe, \"a\", @note",
            ".p2align 2",
            ".long 12, 32, 1",
            ".asciz \"LatentProbe\"",
            ".quad __start_probe_sites - ., __stop_probe_sites - .",
            ".quad __start_linkme_PROBE_DEFINITIONS_V1 - ., __stop_linkme_PROBE_DEFINITIONS_V1 - .",
            ".popsection",
            ".endif",
            // A definition: 192 bytes (18 of them its path, 11 its file).
            ".macro generated_definition kind",
            ".p2align 6",
            ".quad 0, 0",
            ".short 1, 192",
            ".byte \\kind, 0",
            ".short 0",
            ".long .Lgenerated_n + 1, 1",
            ".short 18, 11, 0, 0",
            ".quad 0",
            ".ascii \"generated::f\"",
            ".byte 48 + (.Lgenerated_n / 100000) % 10, 48 + (.Lgenerated_n / 10000) % 10",
            ".byte 48 + (.Lgenerated_n / 1000) % 10, 48 + (.Lgenerated_n / 100) % 10",
            ".byte 48 + (.Lgenerated_n / 10) % 10, 48 + .Lgenerated_n % 10",
            ".ascii \"generated.s\"",
            ".zero 115",
            ".endm",
            // A function's body: up to four instructions more than the least.
            ".macro generated_body",
            "lea rax, [rdi + 1]",
            "imul rax, rax, 0x5bd1e995",
            "mov rcx, rax",
            "shr rcx, 29",
            "xor rax, rcx",
            "imul rax, rax, 0x1b873593",
            "lea rax, [rax + rcx + 0x11]",
            ".rept .Lgenerated_n % 5",
            "imul rax, rax, 0x2545f491",
            ".endr",
            ".endm",
            ".set .Lgenerated_n, 0",
            concat!(".rept ", $functions),
            ".if .Lgenerated_probes",
            ".pushsection linkme_PROBE_DEFINITIONS_V1, \"aw\", @progbits",
            "22:",
            "generated_definition 1",
            "33:",
            "generated_definition 2",
            ".popsection",
            ".pushsection .text.generated, \"ax\", @progbits",
            ".p2align 4",
            "2: .byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
            "3:",
            "generated_body",
            ".p2align 3, , 4",
            "4: .byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
            "5: ret",
            "6: add rsp, -128",
            "call 8f",
            "sub rsp, -128",
            "jmp 3b",
            "7: add rsp, -128",
            "call 9f",
            "sub rsp, -128",
            "jmp 5b",
            ".p2align 4",
            "8: push rdi",
            "lea rdi, [rip + 22b]",
            "jmp [rdi]",
            ".p2align 4",
            "9: push rdi",
            "lea rdi, [rip + 33b]",
            "jmp [rdi]",
            ".popsection",
            ".pushsection probe_sites, \"ao\", @progbits, .Lgenerated_text",
            ".p2align 2",
            ".byte 1, 16, 1, 0",
            ".long 2b - ., 6b - ., 8b - .",
            ".byte 1, 16, 1, 0",
            ".long 4b - ., 7b - ., 9b - .",
            ".popsection",
            ".else",
            ".pushsection .text.generated, \"ax\", @progbits",
            ".p2align 4",
            "generated_body",
            "ret",
            ".popsection",
            ".endif",
            ".set .Lgenerated_n, .Lgenerated_n + 1",
            ".endr",
        );

        #[allow(unsafe_code, reason = "the assembler's function, which reads its argument and nothing else")]
        mod generated {
            // SAFETY: it has the C calling convention and no effect.
            unsafe extern "C" {
                pub(crate) safe fn generated_first(x: u64) -> u64;
            }
        }
        use generated::generated_first;
    };
}
