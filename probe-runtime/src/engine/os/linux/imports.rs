//! Functions that a loaded object takes from another one, as its relocations say, and the words
//! that lead its calls there. Objects need no section headers for that, and nothing is read from
//! their files.
//!
//! Cost: one look at each relocation that names a symbol; those that only add the object's address
//! are skipped by their number.

// Safety: relies on the dynamic linker's program headers, which describe the mapped segments while
// nothing can be unloaded. Each address is checked against them.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::slice;

use super::iterate;
use super::objects::{Frozen, ProgramHeaders};

/// Tags of the dynamic section.
const PLTRELSZ: u64 = 2;
const STRTAB: u64 = 5;
const SYMTAB: u64 = 6;
const RELA: u64 = 7;
const RELASZ: u64 = 8;
const JMPREL: u64 = 23;
const RELACOUNT: u64 = 0x6fff_fff9;

/// Types of relocations that lead calls to other objects.
const GLOB_DAT: u64 = 6;
const JUMP_SLOT: u64 = 7;

/// Words of a relocation, and of a symbol.
const WORDS: usize = 3;

/// A word of an object that leads its calls to a function of another object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ImportSlot {
    pub(crate) addr: usize,
    /// The function's address, or one in the object's own linkage table as long as the function has
    /// not been looked up.
    pub(crate) value: usize,
    pub(crate) is_looked_up: bool,
}

impl Frozen {
    /// Returns the words by which objects call this function of another one. Leaves out the object
    /// that holds `besides`.
    #[expect(clippy::unused_self, reason = "as long as this is borrowed, objects stay")]
    pub(crate) fn import_slots(&self, function: &str, besides: usize) -> Vec<ImportSlot> {
        let mut slots = Vec::new();
        iterate(&mut |info| {
            let object = LoadedObject::of(info).filter(|object| !object.holds(besides));
            slots.extend(object.into_iter().flat_map(|object| object.import_slots(function)));
            true
        });
        slots
    }
}

/// The readable memory of an object.
struct LoadedObject {
    base: usize,
    segments: Vec<Range<usize>>,
    dynamic: Range<usize>,
}

impl LoadedObject {
    fn of(info: &libc::dl_phdr_info) -> Option<Self> {
        let headers = ProgramHeaders::of(info)?;
        let dynamic = headers.ranges(libc::PT_DYNAMIC, libc::PF_R).next().unwrap_or(0..0);
        let segments = headers.ranges(libc::PT_LOAD, libc::PF_R).collect();
        Some(Self { base: headers.base, segments, dynamic })
    }

    fn holds(&self, addr: usize) -> bool {
        self.segments.iter().any(|segment| segment.contains(&addr))
    }

    /// Returns bytes of the object, unless some of them are not mapped.
    fn bytes(&self, start: usize, len: usize) -> Option<&[u8]> {
        let end = start.checked_add(len)?;
        let is_mapped = self.segments.iter().any(|it| it.start <= start && end <= it.end);
        // SAFETY: the bytes lie within a segment that is mapped, and readable.
        is_mapped.then(|| unsafe { slice::from_raw_parts(start as *const u8, len) })
    }

    /// Returns words of the object. They may lie at any address.
    fn words(&self, start: usize, len: usize) -> Option<impl DoubleEndedIterator<Item = u64> + '_> {
        let words = self.bytes(start, len)?.chunks_exact(8);
        Some(words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))))
    }

    /// Returns the value of a tag in the dynamic section.
    fn tag(&self, tag: u64) -> Option<usize> {
        let words: Vec<_> = self.words(self.dynamic.start, self.dynamic.len())?.collect();
        let entry = words.chunks_exact(2).take_while(|it| it[0] != 0).find(|it| it[0] == tag)?;
        usize::try_from(entry[1]).ok()
    }

    /// Returns the address in a tag. glibc adds the object's own address to it, musl does not.
    fn pointer(&self, tag: u64) -> Option<usize> {
        let value = self.tag(tag)?;
        Some(if self.holds(value) { value } else { self.base.wrapping_add(value) })
    }

    /// Returns the words that lead calls to this function of another object. A table that can't be
    /// read has none.
    fn import_slots(&self, function: &str) -> Vec<ImportSlot> {
        let (Some(symbols), Some(names)) = (self.pointer(SYMTAB), self.pointer(STRTAB)) else {
            return Vec::new();
        };
        let of = |relocation: &[u64]| {
            let [offset, info, _] = *relocation else { return None };
            let (symbol, ty) = ((info >> 32) as usize, info & 0xffff_ffff);
            let is_call = [GLOB_DAT, JUMP_SLOT].contains(&ty);
            let is_it = is_call && self.is_undefined(symbols, names, symbol, function)?;
            if is_it { self.slot(offset) } else { None }
        };
        let tables = [(JMPREL, PLTRELSZ, None), (RELA, RELASZ, Some(RELACOUNT))];
        let words = tables.into_iter().filter_map(|(table, size, without)| self.table(table, size, without));
        words.flat_map(|words| words.chunks_exact(WORDS).filter_map(of).collect::<Vec<_>>()).collect()
    }

    /// Returns a table of relocations, without those at its begin that name no symbol.
    fn table(&self, table: u64, size: u64, without: Option<u64>) -> Option<Vec<u64>> {
        let (start, size) = (self.pointer(table)?, self.tag(size)?);
        let without = without.and_then(|tag| self.tag(tag)).unwrap_or(0);
        let without = without.checked_mul(8 * WORDS)?.min(size);
        Some(self.words(start + without, size - without)?.collect())
    }

    fn slot(&self, offset: u64) -> Option<ImportSlot> {
        let addr = self.base.wrapping_add(usize::try_from(offset).ok()?);
        if !addr.is_multiple_of(8) {
            return None;
        }
        let value = usize::try_from(self.words(addr, 8)?.next()?).ok()?;
        Some(ImportSlot { addr, value, is_looked_up: !self.holds(value) })
    }

    /// Returns whether a symbol has this name, and is defined elsewhere.
    fn is_undefined(&self, symbols: usize, names: usize, number: usize, function: &str) -> Option<bool> {
        let symbol = symbols.checked_add(number.checked_mul(8 * WORDS)?)?;
        // Name, kind and visibility, section.
        let head = self.words(symbol, 8)?.next()?;
        let (name, section) = (usize::try_from(head & 0xffff_ffff).ok()?, head >> 48);
        if section != 0 {
            return Some(false);
        }
        let found = self.bytes(names.checked_add(name)?, function.len() + 1)?;
        Some(found.split_last() == Some((&0, function.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::freeze;
    use super::ImportSlot;

    #[test]
    #[cfg_attr(miri, ignore = "dl_iterate_phdr(3)")]
    fn the_test_program_takes_functions_of_the_c_library() {
        let slots = |function, besides| freeze(|frozen| frozen.import_slots(function, besides));
        let is_imported = |function, besides| !slots(function, besides).is_empty();
        assert!(is_imported("dl_iterate_phdr", 0));
        assert!(!is_imported("dl_iterate_phd", 0) && !is_imported("dl_iterate_phdr_", 0));
        assert!(!is_imported("no_object_has_such_a_function", 0));
        // Only this program uses it; the C library defines it.
        let own = (the_test_program_takes_functions_of_the_c_library as *const ()).addr();
        assert!(is_imported("process_vm_readv", 0));
        assert!(!is_imported("process_vm_readv", own));
        let [slot] = slots("process_vm_readv", 0)[..] else { panic!("one object imports it") };
        // Rust's programs look functions up at their start.
        let expected = ImportSlot {
            addr: slot.addr,
            value: (libc::process_vm_readv as *const ()).addr(),
            is_looked_up: true,
        };
        assert_eq!(slot, expected);
    }
}
