//! CALLs and JMPs of five bytes at every offset in a word, across words, cache lines and pages.
//! They lie in this program's text; they are position-independent, so copies work anywhere.
//!
//! ```text
//! block:    64 callees of 8 bytes, which return 0 to 63
//! function: xor eax, eax ▸ the site: CALL or JMP of callee 32 ▸ ret
//! ```
//! A function returns its callee's number, or 0 while its site is deactivated.

mod walk;

use std::arch::global_asm;
use std::mem;
use std::slice;

pub use walk::{activate, walk};

global_asm!(
    ".pushsection .text.call_sites, \"ax\", @progbits",
    ".p2align 12",
    ".globl probe_tests_call_sites, probe_tests_call_sites_end",
    ".hidden probe_tests_call_sites, probe_tests_call_sites_end",
    "probe_tests_call_sites:",
    ".set .Lcallee, 0",
    ".rept 64",
    ".byte 0xb8", // mov eax, imm32
    ".long .Lcallee",
    ".byte 0xc3, 0xcc, 0xcc", // ret
    ".set .Lcallee, .Lcallee + 1",
    ".endr",
    ".macro probe_tests_site opcode, at",
    ".skip (\\at) - 2 - (. - probe_tests_call_sites), 0xcc",
    "xor eax, eax",
    ".byte \\opcode",
    ".long probe_tests_call_sites + 8 * 32 - . - 4",
    "ret",
    ".endm",
    ".irp offset, 0, 1, 2, 3, 4, 5, 6, 7",
    "probe_tests_site 0xe8, 1024 + 64 * \\offset + 24 + \\offset",
    ".endr",
    ".irp offset, 0, 1, 2, 3, 4, 5, 6, 7",
    "probe_tests_site 0xe9, 1536 + 64 * \\offset + 24 + \\offset",
    ".endr",
    ".irp offset, 4, 5, 6, 7",
    "probe_tests_site 0xe8, 2048 + 128 * (\\offset - 4) + 56 + \\offset",
    ".endr",
    ".irp offset, 4, 5, 6, 7",
    "probe_tests_site 0xe9, 2560 + 128 * (\\offset - 4) + 56 + \\offset",
    ".endr",
    ".irp offset, 4, 5, 6, 7",
    "probe_tests_site 0xe8, 4096 * (\\offset - 3) - 8 + \\offset",
    ".endr",
    ".irp offset, 4, 5, 6, 7",
    "probe_tests_site 0xe9, 4096 * (\\offset + 1) - 8 + \\offset",
    ".endr",
    ".purgem probe_tests_site",
    ".p2align 12, 0xcc",
    "probe_tests_call_sites_end:",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "probe_tests_call_sites"]
    static START: u8;
    #[link_name = "probe_tests_call_sites_end"]
    static END: u8;
}

/// Callees in a block.
pub const CALLEES: usize = 64;
/// The callee of every site as built.
pub const FIRST: usize = 32;

/// A block of sites: the one in the text, or a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its first byte.
    pub start: usize,
}

/// One site of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallSite {
    /// The block.
    pub block: Block,
    /// The address of its five bytes.
    pub addr: usize,
    /// Whether the site is built as a JMP.
    pub is_jump: bool,
}

impl Block {
    /// Returns the block in this program's text.
    #[must_use]
    pub fn in_text() -> Self {
        Self { start: (&raw const START).addr() }
    }

    /// Returns the size of a block in bytes: whole pages.
    #[must_use]
    pub fn size() -> usize {
        (&raw const END).addr() - (&raw const START).addr()
    }

    /// Copies the block of the text to the caller's pages. The text must be as in the file.
    ///
    /// # Safety
    /// The pages are mapped, writable and executable, are the caller's alone, and stay mapped.
    #[must_use]
    pub unsafe fn copy_to(start: usize) -> Self {
        let block = Self { start };
        // SAFETY: by the caller's promise; the block in the text is elsewhere.
        unsafe { slice::from_raw_parts_mut(start as *mut u8, Self::size()) }
            .copy_from_slice(&Self::in_text().bytes());
        block
    }

    /// Returns the block's bytes.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        // SAFETY: a block is mapped and readable; no thread patches it meanwhile.
        unsafe { slice::from_raw_parts(self.start as *const u8, Self::size()) }.to_vec()
    }

    /// Returns the address of the callee that returns `number`.
    ///
    /// # Panics
    /// If there is no such callee.
    #[must_use]
    pub fn callee(self, number: usize) -> usize {
        assert!(number < CALLEES);
        self.start + 8 * number
    }

    /// Returns the block's 32 sites, a CALL and a JMP at each place: 8 places within cache lines at
    /// all offsets, 4 across cache lines, 4 across pages.
    #[must_use]
    pub fn sites(self) -> Vec<CallSite> {
        let mut sites = Vec::new();
        for is_jump in [false, true] {
            let second = usize::from(is_jump);
            let within = (0..8).map(|offset| 1024 + 512 * second + 64 * offset + 24 + offset);
            let lines = (4..8).map(|offset| 2048 + 512 * second + 128 * (offset - 4) + 56 + offset);
            let pages = (4..8).map(|offset| 4096 * (offset - 3 + 4 * second) - 8 + offset);
            let all = within.chain(lines).chain(pages);
            sites.extend(all.map(|at| CallSite { block: self, addr: self.start + at, is_jump }));
        }
        sites
    }
}

impl CallSite {
    /// Returns the offset in the aligned word at which the site begins.
    #[must_use]
    pub fn offset(self) -> usize {
        self.addr % 8
    }

    /// Returns the site's five bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; 5] {
        // SAFETY: mapped and readable; changed by single writes only.
        unsafe { (self.addr as *const [u8; 5]).read_volatile() }
    }

    /// Calls the site's function, and returns the result.
    #[must_use]
    pub fn run(self) -> usize {
        // SAFETY: a site is preceded by the first instruction, of two bytes, of a function of this
        // signature.
        let function = unsafe { mem::transmute::<usize, extern "C" fn() -> u32>(self.addr - 2) };
        function() as usize
    }

    /// Returns the bytes of a CALL or JMP from this site to `target`.
    ///
    /// # Panics
    /// If `target` is out of reach.
    #[must_use]
    pub fn instruction(self, is_jump: bool, target: usize) -> [u8; 5] {
        let distance = i32::try_from(target.wrapping_sub(self.addr + 5).cast_signed()).expect("in reach");
        let mut bytes = [0xe8 + u8::from(is_jump); 5];
        bytes[1..].copy_from_slice(&distance.to_le_bytes());
        bytes
    }

    /// Returns the numbers of two callees other than [`FIRST`]. The instruction for the first of
    /// them has the same last three bytes, the instruction for the second does not.
    ///
    /// # Panics
    /// Never: one of two neighbours has the same bytes; one of two that are 500 bytes apart has
    /// others.
    #[must_use]
    pub fn others(self) -> (usize, usize) {
        let tail = |number| self.instruction(false, self.block.callee(number))[2..].to_vec();
        let same = [FIRST - 1, FIRST + 1].into_iter().find(|&number| tail(number) == tail(FIRST));
        let other = [1, CALLEES - 1].into_iter().find(|&number| tail(number) != tail(FIRST));
        (same.expect("one of two neighbours"), other.expect("one of two that are 250 bytes away"))
    }
}
