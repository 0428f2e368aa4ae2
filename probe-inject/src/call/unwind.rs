//! The frames of a stopped thread.
//!
//! A number on a stack that looks like a return address may be left over from an earlier call. The
//! objects' tables for exceptions (`.eh_frame`) tell where a function keeps its return address, at
//! each of its instructions. They are read from the thread's memory, where `.eh_frame_hdr` finds
//! them, with a few reads for each frame.
//!
//! The walk ends where it can't tell: in code without a table, or at a number that no call has left
//! behind. The words beyond may all be return addresses.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, Encoding, EndianSlice, Expression, Format, LittleEndian,
    Operation, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
};

use crate::memory::Memory;
use crate::process::{Mapping, Registers};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The most frames: a walk reads a thousand words at most for them.
const FRAMES: usize = 256;
/// The most bytes of a table's entry.
const ENTRY: u32 = 1 << 16;
/// The numbers of registers in tables, and of those that a function gives back to its caller.
const RSP: u16 = 7;
const RIP: u16 = 16;
const PRESERVED: [u16; 6] = [3, 6, 12, 13, 14, 15];
/// The names of tables in program headers.
const LOADED: u32 = 1;
const UNWINDING: u32 = 0x6474_e550;

/// A return address on a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Return {
    /// Its place.
    pub at: u64,
    /// The address.
    pub to: u64,
}

/// The return addresses of a thread, as far as its objects tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    /// The return addresses, the innermost first.
    pub returns: Vec<Return>,
    /// The first place that the walk did not reach.
    until: u64,
}

impl Walk {
    /// Walks the frames of a stopped thread. `is_return` tells whether a call may have left an
    /// address behind, and `is_restorer` whether the kernel has, for the handler of a signal. The
    /// walk ends there.
    pub fn of(
        memory: &Memory,
        maps: &[Mapping],
        registers: &Registers,
        is_return: impl Fn(u64) -> bool,
        is_restorer: impl Fn(u64) -> bool,
    ) -> Self {
        let mut frame = Frame::of(registers);
        let mut walk = Self { returns: Vec::new(), until: registers.rsp };
        while walk.returns.len() < FRAMES {
            // A call may be the last instruction of a function.
            let at = frame.pc - u64::from(!walk.returns.is_empty());
            match step(memory, maps, &frame, at) {
                Some(Step::Outermost) => {
                    walk.until = u64::MAX;
                    break;
                }
                Some(Step::To(next, found)) if found.at >= walk.until && found.at % 8 == 0 => {
                    let is_handler = is_restorer(found.to);
                    let is_code = maps.iter().any(|it| it.is_executable && it.holds(found.to));
                    if !(is_handler || is_code && is_return(found.to)) {
                        break;
                    }
                    walk.returns.push(found);
                    walk.until = found.at + 8;
                    if is_handler {
                        break;
                    }
                    frame = *next;
                }
                _ => break,
            }
        }
        walk
    }

    /// Returns whether a word may be a return address to which a function will return.
    pub fn is_live(&self, place: u64) -> bool {
        place >= self.until || self.returns.iter().any(|it| it.at == place)
    }
}

/// The registers of a frame, by their numbers in tables; `None` for those that are not known.
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

    /// Computes an address as compilers describe them: a register, a distance, loads.
    fn evaluated(
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
    To(Box<Frame>, Return),
}

/// Finds a frame's caller. `None` if no table tells it.
fn step(memory: &Memory, maps: &[Mapping], frame: &Frame, at: u64) -> Option<Step> {
    let entry = Entry::find(memory, table(memory, maps, at)?, at)?;
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
        CfaRule::Expression(it) => frame.evaluated(memory, &section, it)?,
    };
    let to = match row.register(Register(RIP)) {
        Some(RegisterRule::Undefined) => return Some(Step::Outermost),
        Some(RegisterRule::Offset(offset)) => {
            let at = cfa.wrapping_add_signed(offset);
            Return { at, to: memory.word(at).ok()? }
        }
        _ => return None,
    };
    let mut registers = [None; 16];
    registers[usize::from(RSP)] = Some(cfa);
    for number in PRESERVED {
        let own = frame.register(Register(number));
        registers[usize::from(number)] = match row.register(Register(number)) {
            None | Some(RegisterRule::SameValue) => own,
            Some(RegisterRule::Offset(offset)) => memory.word(cfa.wrapping_add_signed(offset)).ok(),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => frame.register(other),
            Some(RegisterRule::Expression(it)) => {
                frame.evaluated(memory, &section, it).and_then(|at| memory.word(at).ok())
            }
            Some(RegisterRule::ValExpression(it)) => frame.evaluated(memory, &section, it),
            Some(_) => None,
        };
    }
    Some(Step::To(Box::new(Frame { pc: to.to, registers }), to))
}

/// Returns the address of `.eh_frame_hdr` of the object that has this code.
fn table(memory: &Memory, maps: &[Mapping], code: u64) -> Option<u64> {
    /// The places of the program headers, and of their number, in the header of an ELF file.
    const HEADERS: u64 = 32;
    const NUMBER: usize = 56;
    const SIZE: usize = 56;
    const MOST: usize = 64;
    const PAGE: u64 = 0x1000;
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
    let number = usize::from(u16::from_le_bytes(header[NUMBER..NUMBER + 2].try_into().ok()?)).min(MOST);
    let headers = base.wrapping_add(memory.word(base + HEADERS).ok()?);
    let headers = memory.bytes(headers, number * SIZE).ok()?;
    let address_of = |kind: u32| {
        let found = headers.chunks_exact(SIZE).find(|it| it[..4] == kind.to_le_bytes())?;
        Some(u64::from_le_bytes(found[16..24].try_into().ok()?))
    };
    let bias = base.wrapping_sub(address_of(LOADED)? & !(PAGE - 1));
    Some(bias.wrapping_add(address_of(UNWINDING)?))
}

/// An entry of `.eh_frame` behind the one that it refers to, as if nothing lay between them.
struct Entry {
    bytes: Vec<u8>,
    offset: usize,
    /// The address at which the first byte would be.
    address: u64,
}

impl Entry {
    /// Finds the entry of an instruction, by the sorted table that linkers write.
    fn find(memory: &Memory, table: u64, code: u64) -> Option<Self> {
        /// A version; and the encodings of an address, of a number, and of distances from here.
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
        // The last one that begins at the instruction, or before it.
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
            let length = word(&memory.bytes(address, 4).ok()?, 0).filter(|it| (4..ENTRY).contains(it))?;
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
