//! Functions that a loaded object takes from another one, as its relocations say. Objects need no
//! section headers for that, and nothing is read from their files.
//!
//! Cost: one look at each relocation that names a symbol; those that only add the object's address
//! are skipped by their number.

// Safety: relies on the dynamic linker's program headers, which describe the mapped segments while
// nothing can be unloaded. Each address is checked against them.
#![expect(unsafe_code, reason = "see above")]

use std::ops::Range;
use std::slice;

use super::iterate;
use super::objects::Frozen;

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

impl Frozen {
    /// Returns whether an object takes this function from another one. Leaves out the object that
    /// holds `besides`.
    #[expect(clippy::unused_self, reason = "as long as this is borrowed, objects stay")]
    pub(crate) fn is_imported(&self, function: &str, besides: usize) -> bool {
        let mut is_found = false;
        iterate(&mut |info| {
            let object = Mapped::of(info);
            is_found = !object.holds(besides) && object.imports(function).unwrap_or(false);
            !is_found
        });
        is_found
    }
}

/// The readable memory of an object.
struct Mapped {
    base: usize,
    segments: Vec<Range<usize>>,
    dynamic: Range<usize>,
}

impl Mapped {
    fn of(info: &libc::dl_phdr_info) -> Self {
        // SAFETY: the dynamic linker's own table of program headers.
        let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let base = usize::try_from(info.dlpi_addr).unwrap_or(0);
        let ranges = |ty| {
            let is_readable = move |it: &&libc::Elf64_Phdr| it.p_type == ty && it.p_flags & libc::PF_R != 0;
            headers.iter().filter(is_readable).filter_map(move |it| {
                let start = base.wrapping_add(usize::try_from(it.p_vaddr).ok()?);
                Some(start..start.checked_add(usize::try_from(it.p_memsz).ok()?)?)
            })
        };
        let dynamic = ranges(libc::PT_DYNAMIC).next().unwrap_or(0..0);
        Self { base, segments: ranges(libc::PT_LOAD).collect(), dynamic }
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

    /// Returns whether it calls this function of another object; `None` if its tables can't be
    /// read.
    fn imports(&self, function: &str) -> Option<bool> {
        let (symbols, names) = (self.pointer(SYMTAB)?, self.pointer(STRTAB)?);
        let is_it = |relocation: &[u64]| {
            let [_, info, _] = *relocation else { return false };
            let is_call = [GLOB_DAT, JUMP_SLOT].contains(&(info & 0xffff_ffff));
            is_call && self.is_undefined(symbols, names, (info >> 32) as usize, function).unwrap_or(false)
        };
        let in_table = |table, size, without: Option<u64>| {
            let (start, size) = (self.pointer(table)?, self.tag(size)?);
            let without = without.and_then(|tag| self.tag(tag)).unwrap_or(0);
            let without = without.checked_mul(8 * WORDS)?.min(size);
            let words: Vec<_> = self.words(start + without, size - without)?.collect();
            Some(words.chunks_exact(WORDS).any(is_it))
        };
        let calls = in_table(JMPREL, PLTRELSZ, None).unwrap_or(false);
        Some(calls || in_table(RELA, RELASZ, Some(RELACOUNT)).unwrap_or(false))
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

    #[test]
    #[cfg_attr(miri, ignore = "dl_iterate_phdr(3)")]
    fn the_test_program_takes_functions_of_the_c_library() {
        let is_imported = |function, besides| freeze(|frozen| frozen.is_imported(function, besides));
        assert!(is_imported("dl_iterate_phdr", 0));
        assert!(!is_imported("dl_iterate_phd", 0) && !is_imported("dl_iterate_phdr_", 0));
        assert!(!is_imported("no_object_has_such_a_function", 0));
        // Only this program uses it; the C library defines it.
        let own = (the_test_program_takes_functions_of_the_c_library as *const ()).addr();
        assert!(is_imported("process_vm_readv", 0));
        assert!(!is_imported("process_vm_readv", own));
    }
}
