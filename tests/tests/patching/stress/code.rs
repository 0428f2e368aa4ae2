//! Generated functions for patching: a loop around one or two instructions under test, which counts
//! their effects.
//!
//! Each round loads registers with known values, executes the instructions, and compares a register
//! with each of its few possible values:
//!
//! ```text
//!         mov r8, r10 ◀ constants
//! round:  mov rax, rcx, rdx ◀ constants
//!         <instructions under test>          rax: an instruction of `forms`; rcx: a call
//!         jmp on; 14 invalid bytes           what a mix that is too long runs into
//! on:     rax is values[0] ? tally += 1 : rax is values[1] ? … : wrong += 1
//!         rcx likewise
//!         dec rdi; jnz round; ret
//! ```
//! The functions lie in their own memory, which is readable and executable: the patch engine makes
//! it writable.

use std::ptr;
use std::slice;

use super::forms::Form;
use super::tally::{Register, Tally};

/// Constants in registers while the instructions run: none is an address, sums and products of them
/// differ.
pub const RAX: u64 = 0x9e37_79b9_7f4a_fff0;
pub const RDX: u64 = 0xbf58_476d_1ce4_e5b9;
const R8: u64 = 0x94d0_49bb_1331_11eb;
pub const R10: u64 = 0xd6e8_feb8_6659_fd93;

/// Values of `rcx` after a call that is off, and after a call of each target.
pub const NOT_CALLED: u64 = 0xa076_1d64_78bd_642f;
pub const CALLED: [u64; 2] = [0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3];

/// A byte that is no instruction in 64-bit mode.
const INVALID: u8 = 0x06;

/// Memory for code.
pub struct Text {
    start: *mut u8,
    len: usize,
    used: usize,
}

// SAFETY: plain memory, mapped until this is dropped.
unsafe impl Sync for Text {}

impl Text {
    /// Maps memory that is writable until it is sealed.
    pub fn new(len: usize) -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a mapping of its own.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // SAFETY: mapped and writable; no other code has its address yet.
        unsafe { ptr::write_bytes(start.cast::<u8>(), INVALID, len) };
        Self { start: start.cast(), len, used: 0 }
    }

    /// Makes the memory readable and executable.
    pub fn seal(&self) {
        // SAFETY: the whole mapping; no code writes to it through references.
        let result =
            unsafe { libc::mprotect(self.start.cast(), self.len, libc::PROT_READ | libc::PROT_EXEC) };
        assert_eq!(result, 0);
    }

    /// Returns the memory's addresses.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len
    }

    /// Returns the memory's bytes. No thread may patch them meanwhile.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped; the caller ensures that no thread writes.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }

    /// Emits a function around these instructions. Byte `split` of instruction `anchor` lies at a
    /// boundary.
    pub fn function(
        &mut self,
        pieces: &[Piece],
        anchor: usize,
        split: usize,
        boundary: Boundary,
    ) -> Function {
        let (base, used) = (self.start as usize, self.used);
        let before: usize = pieces[..anchor].iter().map(Piece::len).sum();
        let at = boundary.next(base + used + PREAMBLE + before + split);
        let begin = at - split - before - PREAMBLE;
        let function = Function::emit(begin, pieces);
        self.used = begin + function.code.len() - base;
        assert!(self.used <= self.len, "more memory is needed for the code");
        // SAFETY: within the mapping, which is writable until it is sealed.
        unsafe { ptr::copy_nonoverlapping(function.code.as_ptr(), begin as *mut u8, function.code.len()) };
        function
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// The boundary at which an instruction is split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boundary {
    /// No split: the instruction begins in the middle of a cache line, at the start of a word.
    None,
    Word,
    Line,
    Page,
}

impl Boundary {
    pub const ALL: [Self; 3] = [Self::Word, Self::Line, Self::Page];

    /// Returns the first such address, from `at` on.
    fn next(self, at: usize) -> usize {
        let (every, but) = match self {
            Self::None | Self::Word => (8, 64),
            Self::Line => (64, 4096),
            Self::Page => (4096, usize::MAX),
        };
        let at = at.next_multiple_of(every);
        if at.is_multiple_of(but) { at + every } else { at }
    }
}

/// An instruction under test.
#[derive(Clone, Copy)]
pub enum Piece {
    /// Changes `rax`.
    Word(Form),
    /// Calls a target that changes `rcx`.
    Call,
    /// Jumps to a target that changes `rcx` and jumps back.
    Jump,
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Word(form) => form.old.len(),
            Self::Call | Self::Jump => 5,
        }
    }
}

/// Bytes from a function's start to its first instruction under test.
const PREAMBLE: usize = 50;

/// A function and the addresses of its parts.
pub struct Function {
    begin: usize,
    code: Vec<u8>,
    /// The addresses of the instructions under test.
    pub pieces: Vec<usize>,
    /// The possible targets of a call or jump.
    pub targets: [usize; 2],
}

impl Function {
    /// Executes the instructions `times` times.
    pub fn run(&self, rounds: u64, tally: &Tally) {
        // SAFETY: what `emit` has made, in executable memory that lives as long as the scenario; it
        // follows this calling convention, and touches nothing but the tally, through aligned
        // 8-byte accesses.
        let run: extern "sysv64" fn(u64, &Tally) = unsafe { std::mem::transmute(self.begin) };
        run(rounds, tally);
    }

    fn emit(begin: usize, pieces: &[Piece]) -> Self {
        let mut code = Vec::new();
        load(&mut code, [0x49, 0xb8], R8);
        load(&mut code, [0x49, 0xba], R10);
        let round = code.len();
        load(&mut code, [0x48, 0xb8], RAX);
        load(&mut code, [0x48, 0xb9], NOT_CALLED);
        load(&mut code, [0x48, 0xba], RDX);
        assert_eq!(code.len(), PREAMBLE);
        let mut places = Vec::new();
        for piece in pieces {
            places.push(begin + code.len());
            match piece {
                Piece::Word(form) => code.extend(&*form.old),
                Piece::Call => code.extend([0xe8, 0, 0, 0, 0]),
                Piece::Jump => code.extend([0xe9, 0, 0, 0, 0]),
            }
        }
        let end = code.len();
        code.extend([0xeb, 14]);
        code.extend([INVALID; 14]);
        for piece in pieces {
            match piece {
                Piece::Word(form) => compare(&mut code, Register::Rax, &form.effects),
                Piece::Call | Piece::Jump => {
                    compare(&mut code, Register::Rcx, &[NOT_CALLED, CALLED[0], CALLED[1]]);
                }
            }
        }
        code.extend([0x48, 0xff, 0xcf, 0x0f, 0x85]);
        let back = distance(code.len() + 4, round);
        code.extend(back);
        code.push(0xc3);
        let mut targets = [0; 2];
        for (target, value) in targets.iter_mut().zip(CALLED) {
            *target = begin + code.len();
            load(&mut code, [0x48, 0xb9], value);
            if pieces.iter().any(|piece| matches!(piece, Piece::Jump)) {
                let after = pieces.iter().zip(&places).find(|(piece, _)| matches!(piece, Piece::Jump));
                let after = after.map_or(end, |(_, place)| place + 5 - begin);
                code.push(0xe9);
                let back = distance(code.len() + 4, after);
                code.extend(back);
            } else {
                code.push(0xc3);
            }
        }
        for (piece, place) in pieces.iter().zip(&places) {
            if matches!(piece, Piece::Call | Piece::Jump) {
                let at = place - begin;
                code[at + 1..at + 5].copy_from_slice(&distance(place + 5, targets[0]));
            }
        }
        Self { begin, code, pieces: places, targets }
    }
}

/// `mov register, value`.
fn load(code: &mut Vec<u8>, opcode: [u8; 2], value: u64) {
    code.extend(opcode);
    code.extend(value.to_le_bytes());
}

/// Returns the bytes of a distance.
pub fn distance(from: usize, to: usize) -> [u8; 4] {
    i32::try_from(to.cast_signed() - from.cast_signed()).expect("they are near").to_le_bytes()
}

/// Emits code that counts which of the values a register has.
fn compare(code: &mut Vec<u8>, register: Register, values: &[u64]) {
    let (compare, store) = match register {
        Register::Rax => (0xc8, 0x46),
        Register::Rcx => (0xc9, 0x4e),
    };
    let one = 21;
    let len = one * values.len() + 8;
    for (number, value) in values.iter().enumerate() {
        // mov r9, value; cmp register, r9; jne next; inc [tally]; jmp end
        load(code, [0x49, 0xb9], *value);
        let rest = u8::try_from(len - one * (number + 1)).expect("a short jump");
        code.extend([0x4c, 0x39, compare, 0x75, 6, 0x48, 0xff, 0x46, register.seen(number), 0xeb, rest]);
    }
    // inc [wrong]; mov [value], register
    code.extend([0x48, 0xff, 0x46, register.wrong(), 0x48, 0x89, store, register.value()]);
}
