//! A consumer that changes every register that the calling convention lets it change, the stack
//! below its frame, and `errno`.

use std::arch::global_asm;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::{Consumer, Event};

global_asm!(
    ".pushsection .text.probe_tests_destroy, \"ax\", @progbits",
    ".globl probe_tests_destroy",
    ".hidden probe_tests_destroy",
    ".type probe_tests_destroy, @function",
    "probe_tests_destroy:",
    ".cfi_startproc",
    "test esi, esi",
    "jz 1f",
    // Set the flags of all exceptions of SSE arithmetic.
    "xorps xmm0, xmm0",
    "mov eax, 0x3f800000",
    "movd xmm1, eax",
    "divss xmm1, xmm0",
    "divss xmm0, xmm0",
    "mov eax, 0x7f7fffff",
    "movd xmm2, eax",
    "mulss xmm2, xmm2",
    "mov eax, 3",
    "cvtsi2ss xmm3, eax",
    "mov eax, 1",
    "movd xmm4, eax",
    "divss xmm4, xmm3",
    // Set those of the x87 unit.
    "fldz",
    "fld1",
    "fdivrp st(1), st(0)",
    "fstp st(0)",
    "1:",
    // Use the whole x87 stack, which a function may expect to be empty: 1 + 2 × 6 + 7.
    "fld1",
    "fld1",
    "fadd st(0), st(0)",
    "fld st(0)",
    "fld st(0)",
    "fld st(0)",
    "fld st(0)",
    "fld st(0)",
    "push 7",
    ".cfi_adjust_cfa_offset 8",
    "fild dword ptr [rsp]",
    ".rept 7",
    "faddp st(1), st(0)",
    ".endr",
    "fistp qword ptr [rsp]",
    "pop r10",
    ".cfi_adjust_cfa_offset -8",
    // MMX
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    "pcmpeqd mm\\n, mm\\n",
    ".endr",
    "emms",
    // SSE, AVX, AVX-512
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "pcmpeqd xmm\\n, xmm\\n",
    ".endr",
    "cmp edi, 1",
    "jb 2f",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "vcmptrueps ymm\\n, ymm\\n, ymm\\n",
    ".endr",
    "cmp edi, 2",
    "jb 2f",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "vpternlogd zmm\\n, zmm\\n, zmm\\n, 0xff",
    ".endr",
    ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
    "vpternlogd zmm\\n, zmm\\n, zmm\\n, 0xff",
    ".endr",
    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
    "kxnorq k\\n, k\\n, k\\n",
    ".endr",
    "2:",
    // The stack below.
    "mov rax, -1",
    "lea rdi, [rsp - 4096]",
    "mov ecx, 512",
    "rep stosq",
    // The remaining registers.
    "mov rax, r10",
    "mov rcx, -1",
    "mov rdx, -1",
    "mov rsi, -1",
    "mov rdi, -1",
    "mov r8, -1",
    "mov r9, -1",
    "mov r10, -1",
    "mov r11, -1",
    "cmp rcx, 1",
    "stc",
    "ret",
    ".cfi_endproc",
    ".size probe_tests_destroy, . - probe_tests_destroy",
    ".popsection",
);

unsafe extern "C" {
    /// Returns a sum of the x87 unit: 20 if its stack was empty, as a function may expect.
    safe fn probe_tests_destroy(level: u32, raises: bool) -> u64;
}

/// Changes all registers except those that a function must keep. Returns whether the stack of the
/// x87 unit was empty, as a function may expect.
#[inline(never)]
#[must_use]
pub fn destroy(raises_exceptions: bool) -> bool {
    let level = if std::is_x86_feature_detected!("avx512bw") {
        2
    } else {
        u32::from(std::is_x86_feature_detected!("avx"))
    };
    probe_tests_destroy(level, raises_exceptions) == 20
}

/// Destroys all registers that it may, in each hit.
#[derive(Debug, Default)]
pub struct Destroyer {
    /// Whether to raise no arithmetic exceptions: sites at which a call is expected do not restore
    /// their flags.
    keeps_exceptions: bool,
    in_order: bool,
    calls: AtomicU64,
    surprised: AtomicU64,
}

impl Destroyer {
    /// Creates one for sites at which the program expects a call and reads the flags of arithmetic
    /// exceptions.
    #[must_use]
    pub fn where_calls_are_expected() -> Self {
        Self { keeps_exceptions: true, ..Self::default() }
    }

    /// Creates one whose hits wait for earlier instructions.
    #[must_use]
    pub fn in_order() -> Self {
        Self { in_order: true, ..Self::default() }
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns the number of calls that found the machine in a state that no function may expect.
    pub fn surprised(&self) -> u64 {
        self.surprised.load(Ordering::SeqCst)
    }
}

impl Consumer for Destroyer {
    fn needs_order(&self) -> bool {
        self.in_order
    }

    fn hit(&self, _event: &Event<'_>) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        // Hook calls may stand among MMX instructions: those of inlined functions of MMX's header.
        let is_as_expected = destroy(!self.keeps_exceptions) || self.keeps_exceptions;
        self.surprised.fetch_add(u64::from(!is_as_expected), Ordering::SeqCst);
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = libc::ENOTTY };
    }
}
