//! Bodies of the functions that code compiled with `-finstrument-functions` calls. `finstrument`
//! has the functions, and the table `call_cache` of calls that were looked up: entries of 32 bytes
//! with the return address, the function, the code at which the call continues, and a stub.

/// A hook: jumps to the call's stub, if `$fast` knows it. Otherwise it calls the function
/// `$looked_up`, which gets the function, the return address, the hook's own address and its stack
/// pointer, and returns where the hook continues: at the call's stub, or, for 0, at its caller.
/// `$own` is a second name of the hook.
macro_rules! hook {
    ($looked_up:ident, $own:literal, $fast:ident) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            concat!(".globl ", $own, "\n.hidden ", $own, "\n.set ", $own, ", ."),
            "2:",
            "mov rsi, [rsp]", // where this call returns to
            "movabs rax, {factor}",
            "imul rax, rsi",
            "shr rax, {shift}",
            "shl rax, 5",
            "lea rcx, [rip + {entries}]",
            "add rcx, rax",
            "cmp [rcx], rsi",
            "jne 3f",
            "cmp [rcx + 8], rdi",
            "jne 3f",
            "mov rax, [rcx + 16]",
            "test rax, rax",
            "jz 3f",
            "jmp rax",
            "3:",
            "lea rdx, [rip + 2b]", // this function
            "mov rcx, rsp",
            "lea rax, [rdx + 1]",
            "push rax", // after the site of a jump; of a call, that is above
            ".cfi_adjust_cfa_offset 8",
            "sub rsp, 16",
            ".cfi_adjust_cfa_offset 16",
            "push rbp", // of a call
            ".cfi_adjust_cfa_offset 8",
            "push rbp", // of a jump
            ".cfi_adjust_cfa_offset 8",
            "call {looked_up}",
            "add rsp, 40",
            ".cfi_adjust_cfa_offset -40",
            "test rax, rax",
            "jz 4f",
            "jmp rax",
            "4:",
            "ret",
            ".cfi_endproc",
            factor = const $fast::FACTOR.cast_signed(),
            shift = const $fast::SHIFT,
            entries = sym $fast::ENTRIES,
            looked_up = sym $looked_up,
        )
    };
}

/// Calls the stub, at the offset `$stub` of the entry of `call_cache` that [`hook`] has found.
macro_rules! call_stub {
    ($stub:expr) => {
        std::arch::naked_asm!(".cfi_startproc", "endbr64", "call [rcx + {stub}]", "ret", ".cfi_endproc", stub = const $stub)
    };
}

/// Returns to the instrumented function.
macro_rules! return_at_once {
    () => {
        std::arch::naked_asm!("endbr64", "ret")
    };
}

pub(crate) use {call_stub, hook, return_at_once};
