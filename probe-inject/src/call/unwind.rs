//! Unwinding the stack of a stopped thread.
//!
//! A number on a stack that looks like a return address may be left over from an earlier call. The
//! objects' tables for exceptions (`.eh_frame`) tell where a function keeps its return address, at
//! each of its instructions. `.eh_frame_hdr` finds their entries in the process's memory, with a
//! few reads for each frame.
//!
//! Unwinding ends in code without a table, and at a number that no call has left behind. Any word
//! beyond may be a return address.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, Encoding, EndianSlice, Expression, Format, LittleEndian,
    Operation, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
};

use libc::{PT_GNU_EH_FRAME, PT_LOAD};

use crate::process::{Mapping, Memory, Registers};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The most frames: unwinding them reads a thousand words at most.
const MAX_FRAMES: usize = 256;
/// The most bytes of a table's entry.
const MAX_ENTRY_BYTES: u32 = 1 << 16;
/// Registers by their numbers in tables, and those that a function gives back to its caller.
const RSP: u16 = 7;
const RIP: u16 = 16;
const CALLEE_SAVED: [u16; 6] = [3, 6, 12, 13, 14, 15];

/// A return address on a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReturnAddress {
    /// The place on the stack.
    pub place: u64,
    /// The address.
    pub address: u64,
}

/// The return addresses of a thread, as far as its objects' tables tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backtrace {
    /// The return addresses, the innermost first.
    pub returns: Vec<ReturnAddress>,
    /// The first place on the stack that unwinding did not reach.
    unknown_from: u64,
}

impl Backtrace {
    /// Unwinds a stopped thread. `is_return` tells whether a call may have left an address behind,
    /// and `is_restorer` whether the kernel has, for the handler of a signal, at which unwinding
    /// ends.
    pub fn of(
        memory: &Memory,
        maps: &[Mapping],
        registers: &Registers,
        is_return: impl Fn(u64) -> bool,
        is_restorer: impl Fn(u64) -> bool,
    ) -> Self {
        let mut frame = Frame::of(registers);
        let mut backtrace = Self { returns: Vec::new(), unknown_from: registers.rsp };
        while backtrace.returns.len() < MAX_FRAMES {
            // A call may be the last instruction of a function.
            let at = frame.pc - u64::from(!backtrace.returns.is_empty());
            match step(memory, maps, &frame, at) {
                Some(Step::Outermost) => {
                    backtrace.unknown_from = u64::MAX;
                    break;
                }
                Some(Step::Caller(next, found))
                    if found.place >= backtrace.unknown_from && found.place % 8 == 0 =>
                {
                    let is_handler = is_restorer(found.address);
                    let is_code = maps.iter().any(|it| it.is_executable && it.holds(found.address));
                    if !(is_handler || is_code && is_return(found.address)) {
                        break;
                    }
                    backtrace.returns.push(found);
                    backtrace.unknown_from = found.place + 8;
                    if is_handler {
                        break;
                    }
                    frame = *next;
                }
                _ => break,
            }
        }
        backtrace
    }

    /// Returns whether the word at a place on the stack may be an address to which a function will
    /// return.
    pub fn may_be_live(&self, place: u64) -> bool {
        place >= self.unknown_from || self.returns.iter().any(|it| it.place == place)
    }
}

/// The registers of a frame, by their numbers in tables; `None` for unknown ones.
struct Frame {
    pc: u64,
    registers: [Option<u64>; 16],
}

impl Frame {
    fn of(r: &Registers) -> Self {
        let registers = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
            r.r14, r.r15,
        ];
        Self { pc: r.rip, registers: registers.map(Some) }
    }

    fn register(&self, number: Register) -> Option<u64> {
        *self.registers.get(usize::from(number.0))?
    }

    /// Evaluates an expression of the kind that compilers write: a register, a distance, loads.
    fn evaluate(
        &self,
        memory: &Memory,
        section: &EhFrame<Slice<'_>>,
        expression: UnwindExpression<usize>,
    ) -> Option<u64> {
        let expression: Expression<_> = expression.get(section).ok()?;
        let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
        let mut operations = expression.operations(encoding);
        let mut value = None;
        while let Some(operation) = operations.next().ok()? {
            value = Some(match (operation, value) {
                (Operation::RegisterOffset { register, offset, .. }, None) => {
                    self.register(register)?.wrapping_add_signed(offset)
                }
                (Operation::Deref { size: 8, space: false, .. }, Some(address)) => {
                    memory.word(address).ok()?
                }
                (Operation::PlusConstant { value: more }, Some(value)) => u64::wrapping_add(value, more),
                _ => return None,
            });
        }
        value
    }
}

enum Step {
    /// The function has no caller.
    Outermost,
    /// The caller's frame, and the return address to it.
    Caller(Box<Frame>, ReturnAddress),
}

/// Finds a frame's caller. `None` if no table tells it.
fn step(memory: &Memory, maps: &[Mapping], frame: &Frame, at: u64) -> Option<Step> {
    let entry = Entry::find(memory, table_address(memory, maps, at)?, at)?;
    let bases = BaseAddresses::default().set_eh_frame(entry.address);
    let section = EhFrame::new(&entry.bytes, LittleEndian);
    let parsed =
        section.fde_from_offset(&bases, EhFrameOffset(entry.offset), EhFrame::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = parsed.unwind_info_for_address(&section, &bases, &mut context, at).ok()?;
    let cfa = match *row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            frame.register(register)?.wrapping_add_signed(offset)
        }
        CfaRule::Expression(it) => frame.evaluate(memory, &section, it)?,
    };
    let found = match row.register(Register(RIP)) {
        Some(RegisterRule::Undefined) => return Some(Step::Outermost),
        Some(RegisterRule::Offset(offset)) => {
            let place = cfa.wrapping_add_signed(offset);
            ReturnAddress { place, address: memory.word(place).ok()? }
        }
        _ => return None,
    };
    let mut registers = [None; 16];
    registers[usize::from(RSP)] = Some(cfa);
    for number in CALLEE_SAVED {
        let own = frame.register(Register(number));
        registers[usize::from(number)] = match row.register(Register(number)) {
            None | Some(RegisterRule::SameValue) => own,
            Some(RegisterRule::Offset(offset)) => memory.word(cfa.wrapping_add_signed(offset)).ok(),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => frame.register(other),
            Some(RegisterRule::Expression(it)) => {
                frame.evaluate(memory, &section, it).and_then(|at| memory.word(at).ok())
            }
            Some(RegisterRule::ValExpression(it)) => frame.evaluate(memory, &section, it),
            Some(_) => None,
        };
    }
    Some(Step::Caller(Box::new(Frame { pc: found.address, registers }), found))
}

/// Returns the address of `.eh_frame_hdr` in the object that has this code.
fn table_address(memory: &Memory, maps: &[Mapping], code: u64) -> Option<u64> {
    /// Offsets in an ELF file's header: of the program headers' offset, and of their number.
    const E_PHOFF: u64 = 32;
    const E_PHNUM: usize = 56;
    const HEADER_BYTES: usize = 56;
    const MAX_HEADERS: usize = 64;
    const PAGE_BYTES: u64 = 0x1000;
    let part = maps.iter().find(|it| it.is_executable && it.holds(code))?;
    let is_first = |it: &&Mapping| it.file == part.file && it.offset == 0 && it.start <= part.start;
    let base = if part.name == "[vdso]" {
        part.start
    } else if part.file.1 == 0 {
        return None;
    } else {
        maps.iter().rfind(is_first)?.start
    };
    let header = memory.bytes(base, 64).ok()?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let count =
        usize::from(u16::from_le_bytes(header[E_PHNUM..E_PHNUM + 2].try_into().ok()?)).min(MAX_HEADERS);
    let headers = base.wrapping_add(memory.word(base + E_PHOFF).ok()?);
    let headers = memory.bytes(headers, count * HEADER_BYTES).ok()?;
    let address_of = |kind: u32| {
        let found = headers.chunks_exact(HEADER_BYTES).find(|it| it[..4] == kind.to_le_bytes())?;
        Some(u64::from_le_bytes(found[16..24].try_into().ok()?))
    };
    let bias = base.wrapping_sub(address_of(PT_LOAD)? & !(PAGE_BYTES - 1));
    Some(bias.wrapping_add(address_of(PT_GNU_EH_FRAME)?))
}

/// A function's entry of `.eh_frame` (FDE) directly behind the common one (CIE) that it refers to.
struct Entry {
    bytes: Vec<u8>,
    /// The offset of the function's entry.
    offset: usize,
    /// The address that the first byte would have.
    address: u64,
}

impl Entry {
    /// Finds the entry of an instruction in the sorted table that linkers write.
    fn find(memory: &Memory, table: u64, code: u64) -> Option<Self> {
        /// The version, and the encodings of an address, a number, and distances from the table.
        const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let head = memory.bytes(table, 12).ok()?;
        if head[..4] != HEAD {
            return None;
        }
        let pair = |index: u32| {
            let bytes = memory.word(table + 12 + 8 * u64::from(index)).ok()?.to_le_bytes();
            let distance = |at: usize| Some(i32::from_le_bytes(bytes[at..at + 4].try_into().ok()?));
            let address = |at| Some(table.wrapping_add_signed(distance(at)?.into()));
            Some((address(0)?, address(4)?))
        };
        // Finds the last entry that begins at the instruction, or before it.
        let (mut low, mut high) = (0, u32::from_le_bytes(head[8..].try_into().ok()?));
        while low < high {
            let middle = low + (high - low) / 2;
            if pair(middle)?.0 <= code {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Self::read(memory, pair(low.checked_sub(1)?)?.1)
    }

    fn read(memory: &Memory, address: u64) -> Option<Self> {
        let word =
            |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let entry = |address| {
            let length =
                word(&memory.bytes(address, 4).ok()?, 0).filter(|it| (4..MAX_ENTRY_BYTES).contains(it))?;
            memory.bytes(address, 4 + length as usize).ok()
        };
        let mut own = entry(address)?;
        let mut bytes = entry((address + 4).wrapping_sub(word(&own, 4)?.into()))?;
        let offset = bytes.len();
        own[4..8].copy_from_slice(&u32::try_from(offset + 4).ok()?.to_le_bytes());
        bytes.extend(own);
        Some(Self { bytes, offset, address: address.wrapping_sub(offset as u64) })
    }
}
