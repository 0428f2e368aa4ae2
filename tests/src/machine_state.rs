//! Calls functions with every register set, and reads every register afterwards: general, x87,
//! vector and mask registers, and their control registers.

use std::arch::global_asm;
use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::ffi::c_void;
use std::fmt;

use crate::random::Random;

/// Bytes of the area that `XSAVE` writes; enough for [`COMPONENTS`] on any processor.
const AREA: usize = 3072;
/// x87, SSE, AVX, and the three of AVX-512.
const COMPONENTS: u64 = 0b1110_0111;
/// Names of the general registers, in the order of [`State`].
const NAMES: [&str; 15] =
    ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

global_asm!(
    ".pushsection .text.probe_tests_call_with, \"ax\", @progbits",
    ".globl probe_tests_call_with",
    ".hidden probe_tests_call_with",
    ".type probe_tests_call_with, @function",
    // rdi = function, rsi = registers to set, rdx = destination for the registers afterwards,
    // rcx = components, r8 = bytes to misalign the stack by.
    "probe_tests_call_with:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    ".cfi_offset rbx, -24",
    ".cfi_offset r12, -32",
    ".cfi_offset r13, -40",
    ".cfi_offset r14, -48",
    ".cfi_offset r15, -56",
    "sub rsp, 72",
    "mov [rsp], rdi",
    "mov [rsp + 8], rdx",
    "mov [rsp + 16], rcx",
    "mov [rsp + 24], r8",
    "mov [rsp + 32], rbp",
    "stmxcsr [rsp + 40]",
    "fnstcw [rsp + 44]",
    // A static keeps the frame's address: the function changes all registers.
    "mov [rip + probe_tests_frame], rsp",
    "mov eax, ecx",
    "xor edx, edx",
    "xrstor64 [rsi + 128]",
    "sub rsp, r8",
    "mov rax, [rsi]",
    "mov rbx, [rsi + 8]",
    "mov rcx, [rsi + 16]",
    "mov rdx, [rsi + 24]",
    "mov rdi, [rsi + 40]",
    "mov rbp, [rsi + 48]",
    "mov r8, [rsi + 56]",
    "mov r9, [rsi + 64]",
    "mov r10, [rsi + 72]",
    "mov r11, [rsi + 80]",
    "mov r12, [rsi + 88]",
    "mov r13, [rsi + 96]",
    "mov r14, [rsi + 104]",
    "mov r15, [rsi + 112]",
    "mov rsi, [rsi + 32]",
    "call [rip + probe_tests_callee]",
    "mov [rip + probe_tests_stack], rsp",
    "mov rsp, [rip + probe_tests_frame]",
    "push rdi",
    "mov rdi, [rsp + 16]",
    "mov [rdi], rax",
    "mov [rdi + 8], rbx",
    "mov [rdi + 16], rcx",
    "mov [rdi + 24], rdx",
    "mov [rdi + 32], rsi",
    "pop rax",
    "mov [rdi + 40], rax",
    "mov [rdi + 48], rbp",
    "mov [rdi + 56], r8",
    "mov [rdi + 64], r9",
    "mov [rdi + 72], r10",
    "mov [rdi + 80], r11",
    "mov [rdi + 88], r12",
    "mov [rdi + 96], r13",
    "mov [rdi + 104], r14",
    "mov [rdi + 112], r15",
    "mov rax, [rip + probe_tests_stack]",
    "add rax, [rsp + 24]",
    "sub rax, rsp",
    "mov [rdi + 120], rax", // 0: the stack pointer is unchanged
    "mov eax, [rsp + 16]",
    "xor edx, edx",
    "xsave64 [rdi + 128]",
    "emms",
    "mov rbp, [rsp + 32]",
    "fldcw [rsp + 44]",
    "ldmxcsr [rsp + 40]",
    "lea rsp, [rbp - 40]",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "cld",
    "ret",
    ".cfi_endproc",
    ".size probe_tests_call_with, . - probe_tests_call_with",
    ".section .bss.probe_tests_call_with, \"aw\", @nobits",
    ".p2align 3",
    "probe_tests_frame: .zero 8",
    "probe_tests_stack: .zero 8",
    ".globl probe_tests_callee",
    ".hidden probe_tests_callee",
    "probe_tests_callee: .zero 8",
    ".popsection",
);

unsafe extern "C" {
    fn probe_tests_call_with(
        function: *const c_void,
        registers: *const State,
        after: *mut State,
        components: u64,
        misaligned_by: u64,
    );
    static mut probe_tests_callee: *const c_void;
}

/// All registers of a thread except the stack pointer.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct State {
    general: [u64; 15],
    stack: u64,
    area: [u8; AREA],
}

impl State {
    /// Creates random registers, without bits that would raise an exception. The x87 stack is full,
    /// or empty as functions expect it.
    ///
    /// # Panics
    /// If the processor's `XSAVE` area is larger than expected.
    #[must_use]
    pub fn random(seed: u64, is_x87_full: bool) -> Self {
        let mut random = Random::new(seed);
        let mut state = Self { general: [0; 15], stack: 0, area: [0; AREA] };
        for register in &mut state.general {
            *register = random.next_number();
        }
        assert!(size() <= AREA);
        let rest = &mut state.area[576..];
        rest.fill_with(|| random.next_number().to_be_bytes()[1]);
        for register in &mut state.area[160..416] {
            *register = random.next_number().to_be_bytes()[1];
        }
        // x87 masks all exceptions and rounds up. SSE masks all exceptions, has flags of some set,
        // and rounds down.
        state.area[..2].copy_from_slice(&0x0b7f_u16.to_le_bytes());
        state.area[4] = if is_x87_full { 0xff } else { 0 };
        state.area[24..28].copy_from_slice(&0x3fa4_u32.to_le_bytes());
        for at in 0..8 {
            let number = &mut state.area[32 + 16 * at..][..10];
            number[..8].copy_from_slice(&(random.next_number() | 1 << 63).to_le_bytes());
            number[8..].copy_from_slice(&0x4005_u16.to_le_bytes());
        }
        state.area[512..520].copy_from_slice(&components().to_le_bytes());
        state.area[520..576].fill(0);
        state
    }

    /// Sets `rdi`, a function's first argument.
    #[must_use]
    pub fn argument(mut self, value: u64) -> Self {
        self.general[5] = value;
        self
    }

    /// Calls a function with these registers, on a stack misaligned by `misaligned_by` bytes, and
    /// returns the registers after the call.
    ///
    /// # Panics
    /// If the call changes the stack pointer.
    ///
    /// # Safety
    /// The function may be called with these registers and keeps the stack pointer. No other thread
    /// is in this method.
    #[must_use]
    pub unsafe fn call(&self, function: *const c_void, misaligned_by: u64) -> Self {
        let mut after = Self { general: [0; 15], stack: 1, area: [0; AREA] };
        // SAFETY: by the caller's promise; the states are aligned and have room for the components.
        unsafe {
            probe_tests_callee = function;
            probe_tests_call_with(function, self, &raw mut after, components(), misaligned_by);
        }
        assert_eq!(after.stack, 0, "the stack pointer");
        after
    }

    /// As [`differences`](Self::differences), without general registers.
    #[must_use]
    pub fn differences_beyond_general(&self, other: &Self) -> Vec<String> {
        Self { general: other.general, ..self.clone() }.differences(other)
    }

    /// Lists the registers that differ: names, and both values. x87's condition codes are left out,
    /// which no call keeps, and the values of x87 registers that are empty in both.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for ((name, a), b) in NAMES.iter().zip(self.general).zip(other.general) {
            if a != b {
                differences.push(format!("{name}: {a:x}, {b:x}"));
            }
        }
        let used = [self, other].map(State::x87_registers);
        for (name, from, size) in parts() {
            let [mut a, mut b] = [self, other].map(|state| state.area[from..from + size].to_vec());
            if name == "x87 status" {
                a[1] &= !CONDITION_CODES;
                b[1] &= !CONDITION_CODES;
            }
            let is_in_use = |at: usize| used.iter().any(|used| used[at]);
            let is_empty = (0..8).any(|at| name == format!("st{at}") && !is_in_use(at));
            if a != b && !is_empty {
                differences.push(format!("{name}: {a:x?}, {b:x?}"));
            }
        }
        differences
    }
}

/// In the upper byte of x87's status.
const CONDITION_CODES: u8 = 0x47;

impl State {
    /// Returns which of `st0` to `st7` are in use: the tags are those of the physical registers.
    fn x87_registers(&self) -> [bool; 8] {
        let top = usize::from(self.area[3] >> 3 & 7);
        std::array::from_fn(|at| self.area[4] >> ((top + at) % 8) & 1 != 0)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(NAMES.iter().zip(self.general)).finish_non_exhaustive()
    }
}

#[allow(unused_unsafe, reason = "later versions of Rust than the oldest that is supported call it safe")]
fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { __cpuid_count(leaf, subleaf) }
}

/// Returns whether the processor and the system support `XSAVE`.
#[must_use]
pub fn is_supported() -> bool {
    cpuid(1, 0).ecx & (1 << 27) != 0
}

fn components() -> u64 {
    let leaf = cpuid(13, 0);
    (u64::from(leaf.edx) << 32 | u64::from(leaf.eax)) & COMPONENTS
}

/// Returns the size of the area for [`COMPONENTS`], in bytes. A processor may have others beyond,
/// such as AMX's tiles.
fn size() -> usize {
    let ends = (2..64).filter(|number| components() & 1 << number != 0).map(|number| {
        let CpuidResult { eax: size, ebx: offset, .. } = cpuid(13, number);
        (offset + size) as usize
    });
    ends.max().unwrap_or(576)
}

/// Returns names, offsets and sizes of the compared registers. The addresses of x87's last
/// instruction are left out: the processor may forget them.
fn parts() -> Vec<(String, usize, usize)> {
    let mut parts = vec![
        ("x87 control".to_owned(), 0, 2),
        ("x87 status".to_owned(), 2, 2),
        ("x87 tags".to_owned(), 4, 1),
        ("mxcsr".to_owned(), 24, 4),
    ];
    parts.extend((0..8).map(|at| (format!("st{at}"), 32 + 16 * at, 10)));
    parts.extend((0..16).map(|at| (format!("xmm{at}"), 160 + 16 * at, 16)));
    let mut component = |number: u32, name: &str, count: usize, size: usize| {
        if components() & 1 << number != 0 {
            let offset = cpuid(13, number).ebx as usize;
            parts.extend((0..count).map(|at| (format!("{name}{at}"), offset + size * at, size)));
        }
    };
    component(2, "the upper half of ymm", 16, 16);
    component(5, "k", 8, 8);
    component(6, "the upper half of zmm", 16, 32);
    component(7, "zmm16 and ", 16, 64);
    parts
}
