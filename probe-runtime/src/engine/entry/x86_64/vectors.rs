//! Keeps vector, mask and x87 registers during a hit of a site that the compiler does not know of.
//!
//! At the entry of a function, its arguments may lie in `xmm0` to `xmm7` and in the wider registers
//! around them; before a return, its result; before a tail call, the next function's arguments.
//! Other conventions (`vectorcall`, `regcall`, `ms_abi` with or without `-mcall-ms2sysv-xlogues`,
//! `preserve_most`) use or keep further registers, and with gcc's `-fipa-ra` a caller keeps values
//! in any register that its callee leaves alone. A consumer may change all of them, as may the C
//! library: its `memcpy` uses the widest that the processor has. A compiler that calls a hook
//! itself (`Convention::Call`) keeps all that its function's own convention asks for.
//!
//! | state | kept |
//! |---|---|
//! | `zmm0` to `zmm31`, or the sixteen `ymm` or `xmm`; `k0` to `k7` | always, each whole: an instruction on a part of a register may clear the rest |
//! | `MXCSR` | always: its exceptions are the program's to see |
//! | x87 and MMX registers | if any is in use; the consumer finds none in use, as every function does |
//! | x87's exceptions | if the consumer has changed them |
//! | x87's condition codes | not kept: neither a call nor an `asm` statement of C keeps them |
//! | x87's control word, `MXCSR`'s control bits | the consumer keeps them, as every function must |
//! | AMX's tiles, `PKRU`, shadow stacks | not touched: C passes nothing there, and neither a consumer nor the C library uses them by itself |
//!
//! A consumer's [quick](crate::engine::dispatch::Quick) function needs less. It is made of this
//! crate's own code, and calls nothing else. Compiled for plain x86-64, such code reaches the lower
//! 128 bits of `xmm0` to `xmm15` by instructions that leave all other bits alone (legacy SSE
//! instructions: Intel SDM vol. 1, 14.1.3). So the way in keeps these ([`quickly`]), and stores and
//! loads them while the processor is busy with its clock. Without optimisation, compilers call
//! `memcpy` for small values; for AVX, they use wider registers. Then everything is kept for quick
//! functions, too (`probe_narrow`, in the build script).
//!
//! The processor tells whether x87's registers are in use. Mostly, `xgetbv` answers that x87 was
//! never used (Intel SDM vol. 1, 13.6). If it was, `fxsave` tells more on Intel's processors, which
//! take 100 ns for `fxam` of an empty register.
//!
//! Life cycle: the processor is queried before the first definition that needs it gets its entry;
//! then nothing changes. Cost: none for a probe that is only counted or recorded; next to none for
//! a quick function; else some 40 ns with AVX-512, 15 ns without, and up to 2.3 KB of stack.

// Safety: relies on `enter`, which jumps here as the module says.
#![expect(unsafe_code, reason = "see above")]

use std::arch::naked_asm;
use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// An instruction for each `xmm` register: `\n` becomes its number.
macro_rules! each_xmm {
    ($instruction:expr) => {
        concat!(".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n", $instruction, "\n.endr\n")
    };
}

/// A function that calls the function at `r11`, returns its result, and keeps all registers but the
/// general ones. `rax` is free. The frame is aligned to 64 bytes:
///
/// ```text
/// 0 MXCSR    4 x87's status    8 rcx and rdx, then x87's registers    120 whether these are kept
/// 128 vector and mask registers; before, what `fxsave` stores
/// ```
macro_rules! around {
    ($(#[$doc:meta])* $name:ident, $size:literal, [$($save:expr),*], [$($restore:expr),*]) => {
        $(#[$doc])*
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                concat!("sub rsp, 128 + ", $size),
                "and rsp, -64",
                "stmxcsr [rsp]",
                "fnstsw [rsp + 4]",
                "mov dword ptr [rsp + 120], 0",
                "cmp byte ptr [rip + {tells_x87}], 0",
                "je 7f",
                "mov [rsp + 8], rcx",
                "mov [rsp + 16], rdx",
                "mov ecx, 1",
                "xgetbv",
                "mov rcx, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "test al, 1",
                "jnz 8f",
                "2:",
                $($save,)*
                "call r11",
                $($restore,)*
                "ldmxcsr [rsp]",
                "cmp dword ptr [rsp + 120], 0",
                "jne 4f",
                "fnstsw [rsp + 8]",
                "mov edx, [rsp + 8]",
                "xor edx, [rsp + 4]",
                "test edx, 0xb8ff", // all but the condition codes
                "jne 5f",
                "leave",
                ".cfi_remember_state",
                ".cfi_def_cfa rsp, 8",
                ".cfi_restore rbp",
                "ret",
                ".cfi_restore_state",
                "7:",
                "fxam", // of the top of the stack: C3 and C0, without C2, say that it is empty
                "fnstsw ax",
                "and eax, 0x4500",
                "cmp eax, 0x4100",
                "je 2b",
                "jmp 3f",
                "8:",
                "fxsave64 [rsp + 128]",
                "cmp byte ptr [rsp + 128 + 4], 0", // a bit for each register in use
                "je 2b",
                "3:",
                "fnsave [rsp + 8]",
                "fldcw [rsp + 8]",
                "mov dword ptr [rsp + 120], 1",
                "jmp 2b",
                "4:",
                "frstor [rsp + 8]",
                "jmp 6f",
                "5:",
                "fnstenv [rsp + 8]",
                "mov edx, [rsp + 4]",
                "mov [rsp + 12], dx",
                "fldenv [rsp + 8]",
                "6:",
                "leave",
                ".cfi_def_cfa rsp, 8",
                ".cfi_restore rbp",
                "ret",
                ".cfi_endproc",
                tells_x87 = sym TELLS_X87,
            )
        }
    };
}

around! {
    /// For processors with SSE alone.
    around_sse, "64 + 512",
    [each_xmm!("movaps [rsp + 128 + 16 * \\n], xmm\\n")],
    [each_xmm!("movaps xmm\\n, [rsp + 128 + 16 * \\n]")]
}

around! {
    /// With AVX. The upper halves are cleared for the consumer, whose SSE instructions would wait
    /// for them on some processors.
    around_avx, "64 + 512",
    [each_xmm!("vmovaps [rsp + 128 + 32 * \\n], ymm\\n"), "vzeroupper"],
    [each_xmm!("vmovaps ymm\\n, [rsp + 128 + 32 * \\n]")]
}

/// An instruction with the number of each mask register.
macro_rules! each_mask {
    ($instruction:expr) => {
        concat!(".irp n, 0, 1, 2, 3, 4, 5, 6, 7\n", $instruction, "\n.endr\n")
    };
}

/// An instruction with the number of each vector register that AVX-512 adds.
macro_rules! each_higher {
    ($instruction:expr) => {
        concat!(
            ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n",
            $instruction,
            "\n.endr\n"
        )
    };
}

/// With AVX-512, whose mask registers `$move` moves.
macro_rules! around_avx512 {
    ($(#[$doc:meta])* $name:ident, $move:literal) => {
        around! {
            $(#[$doc])*
            $name, "64 + 2048 + 64",
            [
                each_xmm!("vmovaps [rsp + 128 + 64 * \\n], zmm\\n"),
                each_higher!("vmovaps [rsp + 128 + 64 * \\n], zmm\\n"),
                each_mask!(concat!($move, " [rsp + 2176 + 8 * \\n], k\\n")),
                "vzeroupper"
            ],
            [
                each_xmm!("vmovaps zmm\\n, [rsp + 128 + 64 * \\n]"),
                each_higher!("vmovaps zmm\\n, [rsp + 128 + 64 * \\n]"),
                each_mask!(concat!($move, " k\\n, [rsp + 2176 + 8 * \\n]"))
            ]
        }
    };
}

around_avx512! {
    /// Mask registers have 64 bits.
    around_avx512bw, "kmovq"
}

around_avx512! {
    /// Mask registers have 16 bits, as in the Xeon Phi.
    around_avx512f, "kmovw"
}

/// Calls the quick function at `r11`; its definition is in `rdi`, and in `[rsp + 256]` afterwards.
#[cfg(probe_narrow)]
macro_rules! quickly {
    () => {
        concat!(
            "sub rsp, 272\n",
            "mov [rsp + 256], rdi\n",
            each_xmm!("movaps [rsp + 16 * \\n], xmm\\n"),
            "call r11\n",
            each_xmm!("movaps xmm\\n, [rsp + 16 * \\n]"),
        )
    };
}

#[cfg(not(probe_narrow))]
macro_rules! quickly {
    () => {
        "sub rsp, 272\nmov [rsp + 256], rdi\ncall [rip + {around}]\n"
    };
}

#[cfg(probe_narrow)]
pub(super) use each_xmm;
pub(super) use quickly;

/// The function above that this processor needs. Written before any entry that reads it is
/// published.
pub(super) static AROUND: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Whether the processor tells if x87 is in its initial state, and `fxsave` is better than `fxam`.
static TELLS_X87: AtomicBool = AtomicBool::new(false);

/// Sets [`AROUND`], by what the processor has and the system keeps for each thread.
pub(super) fn prepare() {
    let around: unsafe extern "C" fn() = if std::is_x86_feature_detected!("avx512bw") {
        around_avx512bw
    } else if std::is_x86_feature_detected!("avx512f") {
        around_avx512f
    } else if std::is_x86_feature_detected!("avx") {
        around_avx
    } else {
        around_sse
    };
    TELLS_X87.store(tells_x87(), Ordering::Relaxed);
    AROUND.store((around as *const ()).cast_mut(), Ordering::Release);
}

/// Returns whether `xgetbv` tells of x87, on a processor by Intel.
fn tells_x87() -> bool {
    const XSAVE_BY_SYSTEM: u32 = 1 << 27;
    const IN_USE: u32 = 1 << 2;
    let vendor = cpuid(0, 0);
    let is_intel =
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel";
    is_intel && vendor.eax >= 0xd && cpuid(1, 0).ecx & XSAVE_BY_SYSTEM != 0 && cpuid(0xd, 1).eax & IN_USE != 0
}

#[allow(unused_unsafe, reason = "later versions of Rust call it safe")]
fn cpuid(leaf: u32, part: u32) -> CpuidResult {
    // SAFETY: each processor of this architecture has the instruction.
    unsafe { __cpuid_count(leaf, part) }
}

#[cfg(test)]
mod tests {
    use std::arch::asm;

    use super::*;

    /// Uses x87's registers, as a consumer may, and leaves none in use.
    extern "C" fn consumer() {
        // SAFETY: no register is in use before and after.
        unsafe { asm!("fldpi", "fldl2e", "fstp st(0)", "fstp st(0)", out("st(0)") _, out("st(1)") _) };
    }

    /// Returns the number one, which is in a register of x87's during the call.
    fn kept(around: *mut ()) -> f64 {
        let mut kept = 0.0;
        // SAFETY: the call keeps all registers but general ones; the stack is aligned.
        unsafe {
            asm!(
                "fld1", "call {around}", "fstp qword ptr [r12]",
                around = in(reg) around, in("r12") &raw mut kept, inout("r11") consumer => _,
                out("st(0)") _, clobber_abi("C"),
            );
        }
        kept
    }

    /// Returns a number that is in a register of MMX's during the call.
    fn kept_by_mmx(around: *mut (), number: u64) -> u64 {
        let kept;
        // SAFETY: as above.
        unsafe {
            asm!(
                "movq mm3, rax", "call {around}", "movq rax, mm3", "emms",
                around = in(reg) around, inout("rax") number => kept, inout("r11") consumer => _,
                clobber_abi("C"),
            );
        }
        kept
    }

    #[test]
    fn x87_is_kept_however_the_processor_tells_that_it_is_in_use() {
        prepare();
        let around = AROUND.load(Ordering::Relaxed);
        for tells in [tells_x87(), false] {
            TELLS_X87.store(tells, Ordering::Relaxed);
            let number = 0x1234_5678_9abc_def0;
            assert_eq!((kept(around), kept_by_mmx(around, number)), (1.0, number), "{tells}");
        }
        prepare();
    }
}
