//! Where a frame keeps its caller's registers, as `.eh_frame` tells unwinders (System V psABI 3.7,
//! DWARF 5 6.4). [`rule`](UnwindTables::rule) uses no heap, so that a hit may call it.
//!
//! A rule is one of the few that compilers emit: the frame begins at a distance from `rsp` or
//! `rbp`, the return address lies below its beginning, `rbp` is kept in place or in the frame, and
//! the caller's `rsp` is the frame's beginning. Any other one is none.
//!
//! Cost: a search in a sorted table, and the instructions of one function: under a microsecond. The
//! rules take 2 KB of the stack.

use std::ops::Range;

use addr2line::gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EhFrameOffset, EndianSlice, FrameDescriptionEntry,
    LittleEndian, Pointer, ReaderOffset, RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection,
    UnwindTableRow,
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

/// Room for the rules of three rows, so that a function may remember two: all integer registers and
/// the return address, which the kernel's frames tell.
struct OnStack;

impl<T: ReaderOffset> UnwindContextStorage<T> for OnStack {
    type Rules = [(Register, RegisterRule<T>); 17];
    type Stack = [UnwindTableRow<T, Self>; 3];
}

type Table<'a> = EhFrame<EndianSlice<'a, LittleEndian>>;

impl<'a> UnwindTables<'a> {
    /// Returns the machine function around an address.
    pub fn function(&self, addr: u64) -> Option<Range<u64>> {
        let function = self.description(addr)?;
        Some(function.initial_address()..function.end_address())
    }

    /// Returns the rule at an address.
    pub fn rule(&self, addr: u64) -> Option<FrameRule> {
        let function = self.description(addr)?;
        let mut context = UnwindContext::<_, OnStack>::new_in();
        let row = function.unwind_info_for_address(&self.table(), &self.bases(), &mut context, addr).ok()?;
        // Other code that a signal may interrupt anywhere is marked, too.
        if function.is_signal_trampoline() && matches!(row.cfa(), CfaRule::Expression(_)) {
            return Some(FrameRule::Signal);
        }
        rule(row)
    }

    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default().set_eh_frame_hdr(self.header.addr).set_eh_frame(self.frames.addr)
    }

    fn table(&self) -> Table<'a> {
        EhFrame::new(self.frames.bytes, LittleEndian)
    }

    /// Returns the description of the function around an address.
    fn description(&self, addr: u64) -> Option<FrameDescriptionEntry<EndianSlice<'a, LittleEndian>>> {
        let bases = self.bases();
        let header = EhFrameHdr::new(self.header.bytes, LittleEndian).parse(&bases, 8).ok()?;
        let Pointer::Direct(place) = header.table()?.lookup(addr, &bases).ok()? else { return None };
        let place = usize::try_from(place.checked_sub(self.frames.addr)?).ok()?;
        let function = self.table().fde_from_offset(&bases, EhFrameOffset(place), EhFrame::cie_from_offset);
        function.ok().filter(|function| function.contains(addr))
    }
}

fn rule(row: &UnwindTableRow<usize, OnStack>) -> Option<FrameRule> {
    let narrow = |offset: i64| i32::try_from(offset).ok();
    match row.register(X86_64::RA) {
        Some(RegisterRule::Offset(-8)) => (),
        Some(RegisterRule::Undefined) => return Some(FrameRule::Outermost),
        _ => return None,
    }
    // The way in of a hit steps back over the red zone.
    if !matches!(row.register(X86_64::RSP), None | Some(RegisterRule::ValOffset(0))) {
        return None;
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

#[cfg(test)]
mod tests {
    use super::*;
    use addr2line::gimli::CieOrFde;
    use object::{Object, ObjectSection};
    use proptest::prelude::*;
    use std::sync::LazyLock;

    type Sections = [(u64, Vec<u8>); 2];

    /// Both sections of this test program, and their addresses in the file.
    static SECTIONS: LazyLock<Sections> = LazyLock::new(|| {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = object::File::parse(&*file).unwrap();
        [".eh_frame_hdr", ".eh_frame"].map(|name| {
            let section = file.section_by_name(name).unwrap();
            (section.address(), section.data().unwrap().to_vec())
        })
    });

    fn tables(sections: &Sections) -> UnwindTables<'_> {
        let [header, frames] = sections.each_ref().map(|(addr, bytes)| Section { addr: *addr, bytes });
        UnwindTables { header, frames }
    }

    /// As a search from the table's beginning, with room for any rules, finds them.
    #[test]
    fn rules_are_those_of_each_function() {
        let tables = tables(&SECTIONS);
        let bases = BaseAddresses::default().set_eh_frame(tables.frames.addr);
        let frames: Table<'_> = EhFrame::new(tables.frames.bytes, LittleEndian);
        let (mut entries, mut context) = (frames.entries(&bases), UnwindContext::new());
        let (mut found, mut untold) = (0, 0);
        while let Some(entry) = entries.next().unwrap() {
            let CieOrFde::Fde(entry) = entry else { continue };
            let function = entry.parse(EhFrame::cie_from_offset).unwrap();
            let (start, len) = (function.initial_address(), function.len());
            for addr in (start..start + len).step_by(7).chain([start + len - 1]) {
                let row = function.unwind_info_for_address(&frames, &bases, &mut context, addr).unwrap();
                let rule = tables.rule(addr);
                let is_plain = matches!(
                    row.cfa(),
                    CfaRule::RegisterAndOffset { register: X86_64::RSP | X86_64::RBP, .. }
                );
                assert_eq!(rule.is_none(), !is_plain, "{addr:#x} {rule:?} {row:?}");
                if let (
                    Some(FrameRule::Frame { base, offset, .. }),
                    CfaRule::RegisterAndOffset { register, offset: expected },
                ) = (rule, row.cfa())
                {
                    let expected_base = if *register == X86_64::RSP {
                        FrameBase::StackPointer
                    } else {
                        FrameBase::FramePointer
                    };
                    assert_eq!((base, i64::from(offset)), (expected_base, *expected), "{addr:#x}");
                }
                found += u64::from(rule.is_some());
                untold += u64::from(rule.is_none());
            }
        }
        assert!(found > 10_000 && untold < found / 100, "{found} {untold}");
    }

    /// Makes the tables of one function at 0x1000, of 16 bytes, with these instructions.
    fn made(augmentation: &str, instructions: &[u8]) -> Sections {
        let entry = |parts: &[&[u8]]| {
            let mut bytes = parts.concat();
            bytes.resize(bytes.len().next_multiple_of(8) + 4, 0);
            [&u32::try_from(bytes.len()).unwrap().to_le_bytes()[..], &bytes].concat()
        };
        // Version 1, factors 1 and -8, the return address in 16, nothing more; CFA = rsp + 8, and
        // the return address below it.
        let common =
            entry(&[&[0; 4], &[1], augmentation.as_bytes(), &[0, 1, 0x78, 16, 0, 12, 7, 8, 0x90, 1]]);
        let place = u32::try_from(common.len()).unwrap();
        let range = [0x1000_u64, 16].map(u64::to_le_bytes).concat();
        let function = entry(&[&(place + 4).to_le_bytes(), &range, &[0], instructions]);
        let frames = (0x4000, [&common[..], &function, &[0; 4]].concat());
        // All numbers are plain ones.
        let rows = [0x1000, 0x4000 + u64::from(place)].map(u64::to_le_bytes).concat();
        let header = [&[1, 4, 3, 4], &0x4000_u64.to_le_bytes()[..], &1_u32.to_le_bytes(), &rows].concat();
        [(0x2000, header), frames]
    }

    #[test]
    fn rules_of_few_functions() {
        let at_rsp = |offset| {
            let (base, frame_pointer) = (FrameBase::StackPointer, FramePointer::InPlace);
            Some(FrameRule::Frame { base, offset, frame_pointer })
        };
        // rsp, from the frame's beginning.
        let stepped = |bytes: &[u8]| [&[0x14, 7], bytes].concat();
        // The frame begins at what rsp + 160 points to.
        let by_expression = [15, 4, 0x77, 160, 1, 6];
        for (augmentation, instructions, rule) in [
            ("z", vec![], at_rsp(8)),
            ("z", vec![14, 48], at_rsp(48)),
            ("z", stepped(&[0]), at_rsp(8)),
            ("z", stepped(&[16]), None),
            ("z", stepped(&[0x70]), None),
            ("z", by_expression.to_vec(), None),
            ("zS", by_expression.to_vec(), Some(FrameRule::Signal)),
            ("zS", vec![14, 48], at_rsp(48)),
            ("z", vec![7, 16], Some(FrameRule::Outermost)),
            // Two rows are remembered.
            ("z", vec![10, 14, 16, 10, 14, 24, 11, 11, 14, 32], at_rsp(32)),
        ] {
            let sections = made(augmentation, &instructions);
            assert_eq!(tables(&sections).rule(0x1008), rule, "{augmentation} {instructions:?}");
            assert_eq!(tables(&sections).rule(0x1010), None);
        }
    }

    #[test]
    fn the_table_tells_where_the_frames_are() {
        let tables = tables(&SECTIONS);
        assert_eq!(frames_addr(tables.header), Some(tables.frames.addr));
        let more = [tables.frames.bytes, &[0xff; 100]].concat();
        let len = frames_len(&more);
        assert!(len <= tables.frames.bytes.len() && len + 8 >= tables.frames.bytes.len(), "{len}");
    }

    proptest! {
        #[test]
        fn never_panics(addr: u64, at: u32, bytes: Vec<u8>, damage: Vec<(u16, u8)>) {
            let plain = [(addr, bytes.clone()), (addr.wrapping_add(1 << 20), bytes)];
            let _ = (tables(&plain).rule(addr), frames_addr(tables(&plain).header), frames_len(&plain[0].1));
            let mut sections = SECTIONS.clone();
            for (place, byte) in damage {
                for (_, bytes) in &mut sections {
                    bytes.get_mut(usize::from(place)).into_iter().for_each(|it| *it = byte);
                }
            }
            let _ = tables(&sections).rule(u64::from(at));
        }
    }
}
