//! Programs with a given number of sites, directly from the assembler. They follow the binary
//! interface of `docs/abi.md`, and have the same shape as the output of the macros.
//!
//! ```text
//! function:  entry's NOP5 ▸ 33 to 61 bytes of arithmetic and NOPs ▸ exit's NOP5 ▸ ret ▸ two cold blocks
//! stubs:     one for each probe            records: one for each site
//! definitions: `generated::f000000`, … each with kinds `entry` and `exit`, in `generated.s`
//! ```
//! A function adds 1 to its argument and mixes it. Calls of it begin at its entry's site.

/// `generated_functions!(COUNT)`: this many functions, each with an entry and an exit probe.
/// `generated_functions!(COUNT, plain)`: the same functions without probes.
///
/// The first one is `generated_first`. The program has to refer to it, or the linker drops all of
/// them.
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
            // The start of the functions' section, the note, and the tables.
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
            // The definitions, alternating entry and exit: 192 bytes each (18 of them the path, 11
            // the file).
            ".if .Lgenerated_probes",
            ".pushsection linkme_PROBE_DEFINITIONS_V1, \"aw\", @progbits",
            ".p2align 6",
            ".Lgenerated_definitions:",
            ".set .Lgenerated_n, 0",
            concat!(".rept 2 * ", $functions),
            ".quad 0, 0, 1 + (192 << 16) + ((1 + .Lgenerated_n % 2) << 32)",
            ".quad .Lgenerated_n / 2 + 1 + (1 << 32), 18 + (11 << 16), 0",
            ".ascii \"generated::f\"",
            ".byte 48 + .Lgenerated_n / 200000 % 10, 48 + .Lgenerated_n / 20000 % 10, \
                48 + .Lgenerated_n / 2000 % 10, 48 + .Lgenerated_n / 200 % 10, \
                48 + .Lgenerated_n / 20 % 10, 48 + .Lgenerated_n / 2 % 10",
            ".ascii \"generated.s\"",
            ".zero 115",
            ".set .Lgenerated_n, .Lgenerated_n + 1",
            ".endr",
            ".popsection",
            ".endif",
            ".set .Lgenerated_n, 0",
            concat!(".rept ", $functions),
            ".pushsection .text.generated, \"ax\", @progbits",
            ".p2align 4",
            ".if .Lgenerated_probes",
            "2: .byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
            ".endif",
            // As bytes, since the assembler takes ten times as long for instructions:
            // lea rax, [rdi + 1]; imul rax, rax, 0x5bd1e995; mov rcx, rax; shr rcx, 29;
            // xor rax, rcx; imul rax, rax, 0x1b873593; lea rax, [rax + rcx + 17];
            // then up to 28 times nop.
            "3: .byte 0x48, 0x8d, 0x47, 0x01, 0x48, 0x69, 0xc0, 0x95, 0xe9, 0xd1, 0x5b, 0x48, 0x89, 0xc1, 0x48, 0xc1, 0xe9, 0x1d, \
                0x48, 0x31, 0xc8, 0x48, 0x69, 0xc0, 0x93, 0x35, 0x87, 0x1b, 0x48, 0x8d, 0x44, 0x08, 0x11",
            ".fill .Lgenerated_n % 5 * 7, 1, 0x90",
            ".if .Lgenerated_probes",
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
            "lea rdi, [rip + .Lgenerated_definitions + 384 * .Lgenerated_n]",
            "jmp [rdi]",
            ".p2align 4",
            "9: push rdi",
            "lea rdi, [rip + .Lgenerated_definitions + 384 * .Lgenerated_n + 192]",
            "jmp [rdi]",
            ".popsection",
            ".pushsection probe_sites, \"ao\", @progbits, .Lgenerated_text",
            ".byte 1, 16, 1, 0",
            ".long 2b - ., 6b - ., 8b - .",
            ".byte 1, 16, 1, 0",
            ".long 4b - ., 7b - ., 9b - .",
            ".else",
            "ret",
            ".endif",
            ".popsection",
            ".set .Lgenerated_n, .Lgenerated_n + 1",
            ".endr",
        );

        #[expect(unsafe_code, reason = "the assembler's function, which reads its argument and nothing else")]
        mod generated {
            // SAFETY: it has the C calling convention and no effect.
            unsafe extern "C" {
                pub(crate) safe fn generated_first(x: u64) -> u64;
            }
        }
        use generated::generated_first;
    };
}
