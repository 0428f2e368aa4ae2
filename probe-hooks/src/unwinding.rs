//! Where a frame keeps its caller's registers, as `.eh_frame` tells unwinders (System V psABI 3.7,
//! DWARF 5 6.4). [`rule`](UnwindTables::rule) uses no heap, so that a hit may call it.
//!
//! A rule is one of the few that compilers emit: the frame begins at a distance from `rsp` or
//! `rbp`, the return address lies below its beginning, and `rbp` is kept in place or in the frame.
//! Any other one is none.
//!
//! Cost: a search in a sorted table, and the instructions of one function: under a microsecond.

use addr2line::gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Pointer, ReaderOffset,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow,
};
use addr2line::gimli::{Register, X86_64};

/// The unwind tables of an object, with the addresses that they have in memory.
#[derive(Clone, Copy, Debug)]
pub struct UnwindTables<'a> {
    /// The sorted table, `.eh_frame_hdr`.
    pub header: Section<'a>,
    /// `.eh_frame`; it may be followed by more.
    pub frames: Section<'a>,
}

/// A part of an object.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// The address of its first byte.
    pub addr: u64,
    /// All of it.
    pub bytes: &'a [u8],
}

/// How a frame leads to its caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameRule {
    /// The frame begins this far above a register. The return address lies right below.
    Frame {
        /// The register.
        base: FrameBase,
        /// The distance.
        offset: i32,
        /// The place of the caller's `rbp`.
        frame_pointer: FramePointer,
    },
    /// The kernel has made the frame, for a signal: the stack pointer is at the `ucontext_t`.
    Signal,
    /// The frame has no caller.
    Outermost,
}

/// The register that a frame's beginning is told by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameBase {
    /// `rsp`.
    StackPointer,
    /// `rbp`.
    FramePointer,
}

/// The place of the caller's `rbp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FramePointer {
    /// It is in the register.
    InPlace,
    /// This far from the frame's beginning.
    At(i32),
}

/// Room for the rules of one row: all registers of the architecture that a call may keep, and some.
struct OnStack;

impl<T: ReaderOffset> UnwindContextStorage<T> for OnStack {
    type Rules = [(Register, RegisterRule<T>); 20];
    type Stack = [UnwindTableRow<T, Self>; 4];
}

type Table<'a> = EhFrame<EndianSlice<'a, LittleEndian>>;

impl UnwindTables<'_> {
    /// Returns the rule at an address.
    pub fn rule(&self, addr: u64) -> Option<FrameRule> {
        let bases =
            BaseAddresses::default().set_eh_frame_hdr(self.header.addr).set_eh_frame(self.frames.addr);
        let header = EhFrameHdr::new(self.header.bytes, LittleEndian).parse(&bases, 8).ok()?;
        let frames: Table<'_> = EhFrame::new(self.frames.bytes, LittleEndian);
        let table = header.table()?;
        let function = table.fde_for_address(&frames, &bases, addr, EhFrame::cie_from_offset).ok()?;
        if function.is_signal_trampoline() {
            return Some(FrameRule::Signal);
        }
        let mut context = UnwindContext::<_, OnStack>::new_in();
        let row = function.unwind_info_for_address(&frames, &bases, &mut context, addr).ok()?;
        rule(row)
    }
}

fn rule(row: &UnwindTableRow<usize, OnStack>) -> Option<FrameRule> {
    let narrow = |offset: i64| i32::try_from(offset).ok();
    match row.register(X86_64::RA) {
        Some(RegisterRule::Offset(-8)) => (),
        Some(RegisterRule::Undefined) => return Some(FrameRule::Outermost),
        _ => return None,
    }
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
    let base = match register {
        X86_64::RSP => FrameBase::StackPointer,
        X86_64::RBP => FrameBase::FramePointer,
        _ => return None,
    };
    let frame_pointer = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => FramePointer::InPlace,
        Some(RegisterRule::Offset(offset)) => FramePointer::At(narrow(offset)?),
        _ => return None,
    };
    Some(FrameRule::Frame { base, offset: narrow(offset)?, frame_pointer })
}

/// Returns the address of `.eh_frame`, which its sorted table tells.
pub fn frames_addr(header: Section<'_>) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.addr);
    match EhFrameHdr::new(header.bytes, LittleEndian).parse(&bases, 8).ok()?.eh_frame_ptr() {
        Pointer::Direct(addr) => Some(addr),
        Pointer::Indirect(_) => None,
    }
}

/// Returns how many of these bytes, which begin with `.eh_frame`, are of it.
pub fn frames_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()) {
        // No linker makes an entry of 4 GB.
        match u32::from_le_bytes(word) {
            0 | u32::MAX => return at + 4,
            len => at = at.saturating_add(4).saturating_add(len as usize),
        }
    }
    bytes.len().min(at)
}
