//! The memory for calls in a process: one region, which the first call maps and which stays.
//!
//! ```text
//! 0x0000  code: a mark, the restorer, the stub                         read, execute
//! 0x1000  words, see below; at 0x1100 a path; at 0x1200 a text         read, write
//! 0x3000  the stack, to the end                                        read, write
//! ```
//! A region is recognised by its code. A region whose word [`BUSY`] is set is left alone: its
//! caller may have died, and the call may still run. The stub clears the word when the call ends.
//! The next caller waits for that: the loader may be halfway through loading an object.
//!
//! The stub gets the address of the words in `rdi`. It switches to its own stack. If asked to, it
//! makes a file in memory and waits until that is filled. It calls one function, copies a text that
//! explains a result of 0, and returns to the restorer. It works at any address. Its first store
//! tells that it runs, and its last two that the call has ended and that the memory is free.

// Safety: relies on the bytes between two labels, which are constants.
#![expect(unsafe_code, reason = "see above")]

use std::arch::global_asm;
use std::ops::Range;
use std::slice;

use super::remote_call::RemoteCall;
use crate::process::{Mapping, Memory};

pub const PAGE_BYTES: u64 = 0x1000;
/// The bytes of the whole memory.
pub const REGION_BYTES: u64 = 0x43000;
/// Offsets in the memory: of the words, and of some of them.
pub const WORDS: u64 = PAGE_BYTES;
pub const BUSY: u64 = WORDS;
pub const DONE: u64 = WORDS + 0x08;
pub const RESULT: u64 = WORDS + 0x10;
/// The descriptor of the file in memory plus one, or a negative error number.
pub const FILE: u64 = WORDS + 0x18;
/// Tells that the file is filled.
pub const FILLED: u64 = WORDS + 0x20;
/// Tells that the stub has begun.
pub const BEGUN: u64 = WORDS + 0x58;
/// The file's name, its path, and a text. Their bytes include the terminator.
pub const NAME: u64 = WORDS + 0x80;
pub const NAME_BYTES: usize = 0x80;
pub const PATH: u64 = WORDS + 0x100;
pub const PATH_BYTES: usize = 0x100;
pub const TEXT: u64 = WORDS + 0x200;
pub const TEXT_BYTES: usize = 0x1000;
/// The most regions with calls that have not ended.
const MAX_BUSY_REGIONS: usize = 4;
/// The least distance from other mappings, with which the kernel would merge a region.
const MIN_GAP_BYTES: u64 = 16 * PAGE_BYTES;

/// A region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its first address.
    pub base: u64,
    /// Whether its code is executable.
    pub is_executable: bool,
}

/// The regions in a process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Regions {
    /// A region without a call.
    pub free: Option<Region>,
    /// The addresses of all regions.
    pub all: Vec<Range<u64>>,
    /// Whether another region may be mapped.
    pub has_room: bool,
    /// A call that has not ended.
    pub pending: Option<PendingCall>,
}

/// A call that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingCall {
    /// The thread that was chosen to make it.
    pub thread: u32,
    /// Whether the thread makes it. If not, the caller may have died before it hijacked the thread.
    pub has_begun: bool,
}

impl Regions {
    /// Finds the regions.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Self {
        let code = stub_code();
        let mut regions = Self::default();
        let mut busy = 0;
        for it in maps.iter().filter(|it| it.is_anonymous()) {
            // The region's code, or the whole region before that is made executable.
            let is_ready = it.is_executable && !it.is_writable && it.end - it.start == PAGE_BYTES;
            let is_new = it.is_writable && it.end - it.start == REGION_BYTES;
            let has_code = || memory.bytes(it.start, code.len()).is_ok_and(|it| it == code);
            if !(is_ready || is_new) || !has_code() {
                continue;
            }
            regions.all.push(it.start..it.start + REGION_BYTES);
            match memory.word(it.start + BUSY) {
                Ok(0) if regions.free.is_none() => {
                    regions.free = Some(Region { base: it.start, is_executable: is_ready });
                }
                Ok(0) | Err(_) => (),
                Ok(thread) => {
                    busy += 1;
                    let is_set = |place| memory.word(it.start + place).is_ok_and(|it| it != 0);
                    let thread = u32::try_from(thread).unwrap_or(0);
                    if !is_set(DONE) && regions.pending.is_none_or(|it| !it.has_begun) {
                        regions.pending = Some(PendingCall { thread, has_begun: is_set(BEGUN) });
                    }
                }
            }
        }
        regions.has_room = busy < MAX_BUSY_REGIONS;
        regions
    }
}

/// Chooses an address for a region: in the middle of the largest gap, since the kernel places new
/// mappings beside others.
pub fn choose_address(maps: &[Mapping]) -> Option<u64> {
    let gaps = maps.windows(2).filter(|pair| pair[1].name != "[vsyscall]");
    let (begin, length) = gaps
        .map(|pair| (pair[0].end, pair[1].start.saturating_sub(pair[0].end)))
        .max_by_key(|(_, length)| *length)?;
    (length >= REGION_BYTES + 2 * MIN_GAP_BYTES)
        .then(|| (begin + (length - REGION_BYTES) / 2) & !(PAGE_BYTES - 1))
}

impl Region {
    /// Returns the address of `rt_sigreturn`.
    pub fn restorer(self) -> u64 {
        self.base + offset(&raw const probe_inject_restorer) as u64
    }

    /// Returns the address of the stub.
    pub fn stub(self) -> u64 {
        self.base + offset(&raw const probe_inject_stub) as u64
    }

    /// Returns its addresses.
    pub fn range(self) -> Range<u64> {
        self.base..self.base + REGION_BYTES
    }
}

/// Returns the bytes of the words that the caller fills in.
pub fn call_words(call: &RemoteCall<'_>, [first, second, third]: [u64; 3]) -> Vec<u8> {
    /// As at a program's start: all exceptions of floating point masked, rounding to nearest.
    const MXCSR: u64 = 0x1f80;
    const MILLISECOND_NS: u64 = 1_000_000;
    let wants_file = u64::from(call.file.is_some());
    let words = [
        0, 0, 0, 0, 0, wants_file, call.function, first, second, third, call.explains, 0, MXCSR, 0, 0,
        MILLISECOND_NS,
    ];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

global_asm!(
    ".pushsection .rodata",
    ".hidden probe_inject_code, probe_inject_restorer, probe_inject_stub, probe_inject_end",
    ".global probe_inject_code, probe_inject_restorer, probe_inject_stub, probe_inject_end",
    ".p2align 4",
    "probe_inject_code:",
    ".ascii \"probe-inject v1\\0\"",
    "probe_inject_restorer:",
    "mov rax, 15",
    "syscall",
    ".p2align 4, 0xcc",
    "probe_inject_stub:",
    "mov qword ptr [rdi + 0x58], 1",
    "mov rbx, rdi",
    "mov rbp, rsp",
    "lea rsp, [rbx + {stack}]",
    "cld",
    "fninit",
    "ldmxcsr [rbx + 0x60]",
    "xor r12d, r12d",
    "cmp qword ptr [rbx + 0x28], 0",
    "je 3f",
    // `memfd_create`, closed on `exec`.
    "mov eax, 319",
    "lea rdi, [rbx + 0x80]",
    "mov esi, 1",
    "syscall",
    "test rax, rax",
    "js 7f",
    "lea r12, [rax + 1]",
    "mov [rbx + 0x18], r12",
    // Waits for a second at most, since the caller may have died.
    "mov r13d, 1000",
    "2: cmp qword ptr [rbx + 0x20], 0",
    "jne 3f",
    "mov eax, 35",
    "lea rdi, [rbx + 0x70]",
    "xor esi, esi",
    "syscall",
    "dec r13d",
    "jnz 2b",
    "mov qword ptr [rbx + 0x18], {late}",
    "jmp 5f",
    "3: mov rdi, [rbx + 0x38]",
    "mov rsi, [rbx + 0x40]",
    "mov rdx, [rbx + 0x48]",
    "xor eax, eax",
    "call [rbx + 0x30]",
    "mov [rbx + 0x10], rax",
    "test rax, rax",
    "jnz 5f",
    "cmp qword ptr [rbx + 0x50], 0",
    "je 5f",
    "call [rbx + 0x50]",
    "test rax, rax",
    "jz 5f",
    "mov rsi, rax",
    "lea rdi, [rbx + 0x200]",
    "mov ecx, {text}",
    "4: lodsb",
    "stosb",
    "test al, al",
    "jz 5f",
    "dec ecx",
    "jnz 4b",
    "mov byte ptr [rdi], 0",
    "5: test r12, r12",
    "jz 6f",
    "mov eax, 3",
    "lea rdi, [r12 - 1]",
    "syscall",
    "6: mov rsp, rbp",
    "mov qword ptr [rbx + 0x08], 1",
    "mov qword ptr [rbx], 0",
    "ret",
    "7: mov [rbx + 0x18], rax",
    "jmp 6b",
    "probe_inject_end:",
    ".popsection",
    stack = const REGION_BYTES - WORDS - 64,
    text = const TEXT_BYTES - 1,
    late = const -libc::ETIMEDOUT,
);

unsafe extern "C" {
    static probe_inject_code: u8;
    static probe_inject_restorer: u8;
    static probe_inject_stub: u8;
    static probe_inject_end: u8;
}

/// Returns the offset of a label in the code.
fn offset(label: *const u8) -> usize {
    label.addr() - (&raw const probe_inject_code).addr()
}

/// Returns the code.
pub fn stub_code() -> &'static [u8] {
    let length = offset(&raw const probe_inject_end);
    // SAFETY: both labels are of one section, the second one behind the first.
    unsafe { slice::from_raw_parts(&raw const probe_inject_code, length) }
}

#[cfg(test)]
mod tests {
    use super::super::remote_call::MemoryFile;
    use super::*;

    #[test]
    fn a_region_is_apart_from_other_mappings() {
        let mapping = |start: u64, end: u64, name: &str| Mapping {
            start,
            end,
            is_writable: false,
            is_executable: false,
            offset: 0,
            file: (String::new(), 0),
            name: name.to_owned(),
        };
        let maps = [
            mapping(0x40_0000, 0x50_0000, "/a"),
            mapping(0x7000_0000, 0x7010_0000, "/libc.so"),
            mapping(0x7010_8000, 0x7020_0000, ""),
            mapping(0x7ff0_0000, 0x7fff_f000, "[stack]"),
            mapping(0xffff_ffff_ff60_0000, 0xffff_ffff_ff60_1000, "[vsyscall]"),
        ];
        let middle = 0x50_0000 + (0x7000_0000 - 0x50_0000 - REGION_BYTES) / 2;
        assert_eq!(choose_address(&maps), Some(middle & !0xfff));
        assert_eq!(choose_address(&maps[1..3]), None);
        assert_eq!(choose_address(&maps[..1]), None);
    }

    #[test]
    fn the_code_fits_into_its_page_and_begins_with_its_mark() {
        let bytes = stub_code();
        assert!(bytes.len() < usize::try_from(PAGE_BYTES).unwrap());
        assert!(bytes.starts_with(b"probe-inject v1\0"));
        // The bytes by which debuggers know the frame of a signal.
        let restorer = &bytes[offset(&raw const probe_inject_restorer)..];
        assert!(restorer.starts_with(b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05"));
        assert!(bytes.windows(4).any(|it| it == [0x48, 0x89, 0x43, 0x18]), "an error is told as it is");
    }

    #[test]
    fn words_stand_where_the_stub_reads_them() {
        let file = Some(MemoryFile { name: "", bytes: b"" });
        let call = RemoteCall { function: 2, explains: 6, file, ..RemoteCall::default() };
        let bytes = call_words(&call, [3, 4, 5]);
        let at = |place: usize| u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap());
        assert_eq!([0, 0x28, 0x30, 0x38, 0x40, 0x48, 0x50].map(at), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(
            [0x08, 0x10, 0x18, 0x20, 0x58, 0x60, 0x70, 0x78].map(at),
            [0, 0, 0, 0, 0, 0x1f80, 0, 1_000_000]
        );
        assert_eq!(bytes.len() as u64, NAME - WORDS);
    }
}
