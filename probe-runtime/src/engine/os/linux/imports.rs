//! Functions that a loaded object takes from another one, as its relocations say, and the words
//! that lead its calls there. Objects need no section headers for that, and nothing is read from
//! their files.
//!
//! Cost: one look at each relocation that names a symbol; those that only add the object's address
//! are skipped by their number.

// Safety: relies on the dynamic linker's program headers, which describe the mapped segments while
// nothing can be unloaded. Each address is checked against them.
#![expect(unsafe_code, reason = "see above")]

#[cfg(probe_modules)]
use std::ffi::CString;
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
#[cfg(probe_modules)]
const VERSYM: u64 = 0x6fff_fff0;
#[cfg(probe_modules)]
const VERNEED: u64 = 0x6fff_fffe;
#[cfg(probe_modules)]
const VERNEEDNUM: u64 = 0x6fff_ffff;

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

/// A slot of one of several functions.
#[cfg(probe_modules)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Import {
    pub(crate) slot: ImportSlot,
    /// The number of the function's name.
    pub(crate) name: usize,
    /// The version of the function that the object was linked to.
    pub(crate) version: Option<CString>,
}

/// The slots of one object.
#[cfg(probe_modules)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ObjectImports {
    /// The object's readable segments.
    pub(crate) segments: Vec<Range<usize>>,
    /// The addresses that are to be read only once the dynamic linker has finished the object.
    pub(crate) sealed: Range<usize>,
    pub(crate) imports: Vec<Import>,
}

impl Frozen {
    /// Returns the words by which objects call this function of another one. Leaves out the object
    /// that holds `besides`.
    #[expect(clippy::unused_self, reason = "as long as this is borrowed, objects stay")]
    pub(crate) fn import_slots(&self, function: &str, besides: usize) -> Vec<ImportSlot> {
        let mut slots = Vec::new();
        iterate(&mut |info| {
            let object = LoadedObject::of(info).filter(|object| !object.holds(besides));
            object.into_iter().for_each(|object| {
                object.each_import(&mut |_, name, slot| {
                    slots.extend((name == function.as_bytes()).then_some(slot));
                });
            });
            true
        });
        slots
    }

    /// Returns the words by which objects call functions of other ones. These have names to which
    /// `number_of` gives a number. Leaves out the object that holds `besides`, and objects without
    /// such words.
    #[cfg(probe_modules)]
    #[expect(clippy::unused_self, reason = "as long as this is borrowed, objects stay")]
    pub(crate) fn imports(
        &self,
        number_of: &dyn Fn(&[u8]) -> Option<usize>,
        besides: usize,
    ) -> Vec<ObjectImports> {
        let mut objects = Vec::new();
        iterate(&mut |info| {
            let Some(object) = LoadedObject::of(info).filter(|object| !object.holds(besides)) else {
                return true;
            };
            let mut imports = Vec::new();
            object.each_import(&mut |symbol, name, slot| {
                if let Some(name) = number_of(name) {
                    imports.push(Import { slot, name, version: object.version(symbol) });
                }
            });
            if !imports.is_empty() {
                let LoadedObject { segments, sealed, .. } = object;
                objects.push(ObjectImports { segments, sealed, imports });
            }
            true
        });
        objects
    }
}

/// The readable memory of an object.
struct LoadedObject {
    base: usize,
    segments: Vec<Range<usize>>,
    dynamic: Range<usize>,
    #[cfg(probe_modules)]
    sealed: Range<usize>,
}

impl LoadedObject {
    fn of(info: &libc::dl_phdr_info) -> Option<Self> {
        let headers = ProgramHeaders::of(info)?;
        let only = |ty| headers.ranges(ty, libc::PF_R).next().unwrap_or(0..0);
        let segments = headers.ranges(libc::PT_LOAD, libc::PF_R).collect();
        Some(Self {
            base: headers.base,
            segments,
            dynamic: only(libc::PT_DYNAMIC),
            #[cfg(probe_modules)]
            sealed: only(libc::PT_GNU_RELRO),
        })
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

    /// Returns the bytes of the object up to the next 0.
    fn text(&self, start: usize) -> Option<&[u8]> {
        let segment = self.segments.iter().find(|it| it.contains(&start))?;
        let rest = self.bytes(start, segment.end - start)?;
        Some(&rest[..rest.iter().position(|byte| *byte == 0)?])
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

    /// Calls `take` for each word that leads calls to a function of another object, with the number
    /// of its symbol, and its name. A table that can't be read has none.
    fn each_import(&self, take: &mut dyn FnMut(usize, &[u8], ImportSlot)) {
        let (Some(symbols), Some(names)) = (self.pointer(SYMTAB), self.pointer(STRTAB)) else {
            return;
        };
        let tables = [(JMPREL, PLTRELSZ, None), (RELA, RELASZ, Some(RELACOUNT))];
        let words = tables.into_iter().filter_map(|(table, size, without)| self.table(table, size, without));
        for words in words {
            for relocation in words.chunks_exact(WORDS) {
                let (symbol, ty) = ((relocation[1] >> 32) as usize, relocation[1] & 0xffff_ffff);
                if [GLOB_DAT, JUMP_SLOT].contains(&ty)
                    && let Some(name) = self.undefined_name(symbols, names, symbol)
                    && let Some(slot) = self.slot(relocation[0])
                {
                    take(symbol, name, slot);
                }
            }
        }
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

    /// Returns the name of a symbol that is defined elsewhere.
    fn undefined_name(&self, symbols: usize, names: usize, number: usize) -> Option<&[u8]> {
        let symbol = symbols.checked_add(number.checked_mul(8 * WORDS)?)?;
        // Name, kind and visibility, section.
        let head = self.words(symbol, 8)?.next()?;
        let (name, section) = (usize::try_from(head & 0xffff_ffff).ok()?, head >> 48);
        if section == 0 { self.text(names.checked_add(name)?) } else { None }
    }
}

#[cfg(probe_modules)]
impl LoadedObject {
    /// Returns the version of a symbol that is defined elsewhere.
    fn version(&self, symbol: usize) -> Option<CString> {
        let number = self.half(self.pointer(VERSYM)?.checked_add(symbol.checked_mul(2)?)?)? & 0x7fff;
        // The local and the global one are no names.
        if number < 2 {
            return None;
        }
        let names = self.pointer(STRTAB)?;
        let mut file = self.pointer(VERNEED)?;
        for _ in 0..self.tag(VERNEEDNUM)? {
            let mut version = file.checked_add(self.word(file + 8)?)?;
            for _ in 0..self.half(file + 2)? {
                if self.half(version + 6)? == number {
                    return CString::new(self.text(names.checked_add(self.word(version + 8)?)?)?).ok();
                }
                version = version.checked_add(self.word(version + 12)?)?;
            }
            file = file.checked_add(self.word(file + 12)?)?;
        }
        None
    }

    fn half(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(at, 2)?.try_into().ok()?))
    }

    fn word(&self, at: usize) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.bytes(at, 4)?.try_into().ok()?)).ok()
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
