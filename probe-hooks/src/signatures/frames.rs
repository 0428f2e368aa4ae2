//! Where the frames of functions begin at calls of hooks, as `.eh_frame` tells the unwinder (System
//! V psABI 3.7, DWARF 5 6.4): a register, and a distance.

use std::collections::HashMap;

use addr2line::gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection,
};
use object::{Object, ObjectSection, ReadRef};

use super::{Position, Site};
use crate::file::MAX_TABLE_LEN;

/// The beginnings of frames, by the addresses of sites.
#[derive(Default)]
pub(super) struct Frames(HashMap<u64, (u16, i64)>);

impl Frames {
    /// Reads them for calls of hooks. One that is not told, or is not of this kind, is missing.
    pub(super) fn of<'data, R: ReadRef<'data>>(file: &object::File<'data, R>, sites: &[Site]) -> Self {
        let of_hook = |site: &&Site| site.position == Position::Hook;
        let mut addrs: Vec<_> = sites.iter().filter(of_hook).map(|site| site.addr).collect();
        addrs.sort_unstable();
        let mut frames = Self::default();
        if let Some(section) = file.section_by_name(".eh_frame").filter(|it| it.size() <= MAX_TABLE_LEN)
            && let Ok(bytes) = section.data()
            && !addrs.is_empty()
        {
            let text = file.section_by_name(".text").map_or(0, |text| text.address());
            let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
            frames.read(&EhFrame::from(EndianSlice::new(bytes, LittleEndian)), &bases, &addrs);
        }
        frames
    }

    /// Returns the register that a frame begins at, and the distance from there.
    pub(super) fn at(&self, addr: u64) -> Option<(u16, i64)> {
        self.0.get(&addr).copied()
    }

    fn read(&mut self, table: &EhFrame<EndianSlice<'_, LittleEndian>>, bases: &BaseAddresses, addrs: &[u64]) {
        let mut context = UnwindContext::new();
        let mut entries = table.entries(bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(entry) = entry else { continue };
            let Ok(function) = entry.parse(EhFrame::cie_from_offset) else { continue };
            let first = addrs.partition_point(|addr| *addr < function.initial_address());
            let of_function = addrs[first..].iter().take_while(|addr| function.contains(**addr));
            for addr in of_function {
                let row = function.unwind_info_for_address(table, bases, &mut context, *addr);
                if let Ok(CfaRule::RegisterAndOffset { register, offset }) = row.map(|row| row.cfa().clone())
                {
                    self.0.insert(*addr, (register.0, offset));
                }
            }
        }
    }
}
