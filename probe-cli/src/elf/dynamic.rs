//! The dynamic section, and the tables that it leads to: the libraries that an object needs, the
//! symbols that it has (by its GNU hash table) or takes (by its relocations), and the pointers that
//! relocations fill in.
//!
//! The object may be one in memory. The dynamic linker of glibc writes addresses of this run over
//! those of the file there. The distance between the two, its bias, tells the latter.

use std::collections::HashMap;
use std::ops::Range;

use object::elf;

use super::image::{Image, Problem};
use super::pages::{DynamicEntry, HashHeader, LE, Relocation, Symbol, read};

/// Bytes of relocations that are read for pointers. A sparse file may claim any number.
const MAX_RELOCATION_BYTES: u64 = 1 << 30;
/// Symbols of a hash chain, or relocations of a table, that are searched for a function. A damaged
/// table may lead anywhere.
const MAX_SEARCHED: u32 = 1 << 20;
/// Bytes of a symbol's name that are read.
const MAX_NAME_LEN: u64 = 1024;

/// The dynamic section of an object.
pub struct Dynamic<'a> {
    image: &'a Image,
    /// The names of the libraries that it needs, as offsets in the table of names.
    needed: Vec<u64>,
    hash: Option<u64>,
    symbols: Option<u64>,
    names: Option<u64>,
    /// Addresses and sizes of the tables of relocations.
    relocations: [(Option<u64>, u64); 2],
}

/// The value of a pointer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pointer {
    /// An address in this file.
    Here(u64),
    /// A symbol of another object.
    Elsewhere(String),
}

/// The pointers of a file that relocations fill in.
pub struct Pointers<'a> {
    dynamic: Dynamic<'a>,
    relocated: HashMap<u64, Relocated>,
}

#[derive(Clone, Copy)]
enum Relocated {
    Address(u64),
    Symbol(u32),
}

impl<'a> Dynamic<'a> {
    /// Reads the section. An object without one has no tables.
    ///
    /// # Errors
    /// The system's.
    pub fn read(image: &'a Image, bias: u64) -> Result<Self, Problem> {
        let (needed, relocations) = (Vec::new(), [(None, 0); 2]);
        let mut tables = Self { image, needed, hash: None, symbols: None, names: None, relocations };
        let (offset, size) = image.dynamic.unwrap_or_default();
        for number in 0..size / 16 {
            let Some(entry) = read::<DynamicEntry, 16>(&image.pages, offset + number * 16)? else { break };
            let value = entry.d_val.get(LE);
            let address = Some(value.checked_sub(bias).unwrap_or(value));
            match entry.d_tag.get(LE) {
                elf::DT_NULL => break,
                elf::DT_NEEDED => tables.needed.push(value),
                elf::DT_GNU_HASH => tables.hash = address,
                elf::DT_SYMTAB => tables.symbols = address,
                elf::DT_STRTAB => tables.names = address,
                elf::DT_RELA => tables.relocations[0].0 = address,
                elf::DT_RELASZ => tables.relocations[0].1 = value,
                elf::DT_JMPREL => tables.relocations[1].0 = address,
                elf::DT_PLTRELSZ => tables.relocations[1].1 = value,
                _ => (),
            }
        }
        Ok(tables)
    }

    /// Returns the names of the libraries that the object needs.
    ///
    /// # Errors
    /// The system's.
    pub fn needed(&self) -> Result<Vec<String>, Problem> {
        self.needed.iter().map(|name| self.name(*name)).collect()
    }

    /// Returns whether the object has dynamic symbols, and needs other objects.
    pub fn needs_others(&self) -> bool {
        self.has_symbols() && !self.needed.is_empty()
    }

    /// A hash table without symbols says nothing of an object's functions.
    fn has_symbols(&self) -> bool {
        self.hash.is_some() && self.symbols.is_some() && self.names.is_some()
    }

    /// Returns the address and the size of a function that the object has.
    ///
    /// # Errors
    /// The system's.
    pub fn function(&self, name: &str) -> Result<Option<(u64, u64)>, Problem> {
        let Some(table) = self.hash.filter(|_| self.has_symbols()) else { return Ok(None) };
        let Some(header) = self.image.structure::<HashHeader, 16>(table)? else { return Ok(None) };
        let (buckets, first) = (header.bucket_count.get(LE), header.symbol_base.get(LE));
        if buckets == 0 {
            return Ok(None);
        }
        let hash = elf::gnu_hash(name.as_bytes());
        let word = |of: u64, at: u32| self.image.bytes(of.wrapping_add(u64::from(at) * 4));
        let bucket_table = table.wrapping_add(16 + u64::from(header.bloom_count.get(LE)) * 8);
        let chains = bucket_table.wrapping_add(u64::from(buckets) * 4);
        let Some(begin) = word(bucket_table, hash % buckets)?.map(u32::from_le_bytes) else {
            return Ok(None);
        };
        for number in begin..begin.saturating_add(MAX_SEARCHED) {
            let Some(place) = number.checked_sub(first) else { break };
            let Some(other) = word(chains, place)?.map(u32::from_le_bytes) else { break };
            if (other ^ hash) >> 1 == 0
                && let Some(symbol) = self.symbol(number)?
                && symbol.st_shndx.get(LE) != elf::SHN_UNDEF
                && self.has_name(&symbol, name)?
            {
                return Ok(Some((symbol.st_value.get(LE), symbol.st_size.get(LE))));
            }
            if other & 1 == 1 {
                break;
            }
        }
        Ok(None)
    }

    /// Returns whether the object's code takes this function from another object.
    ///
    /// # Errors
    /// The system's.
    pub fn is_imported(&self, name: &str) -> Result<bool, Problem> {
        Ok(!self.words(name, false)?.is_empty())
    }

    /// Returns the addresses of the words through which the object's code reaches this function of
    /// another object; if `is_own`, its own one, which another object's may replace.
    ///
    /// # Errors
    /// The system's.
    pub fn words(&self, name: &str, is_own: bool) -> Result<Vec<u64>, Problem> {
        let mut words = Vec::new();
        for (table, size) in self.relocations.into_iter().filter(|_| self.has_symbols()) {
            let Some(table) = table else { continue };
            for number in 0..(size / 24).min(MAX_SEARCHED.into()) {
                let place = table.wrapping_add(number * 24);
                let Some(entry) = self.image.structure::<Relocation, 24>(place)? else { break };
                if let Some(number) = import(&entry)
                    && let Some(symbol) = self.symbol(number)?
                    && (symbol.st_shndx.get(LE) != elf::SHN_UNDEF) == is_own
                    && self.has_name(&symbol, name)?
                {
                    words.push(entry.r_offset.get(LE));
                }
            }
        }
        Ok(words)
    }

    /// Reads the relocations of pointers in the range, and of those to symbols.
    ///
    /// # Errors
    /// If the file is damaged, and the system's.
    pub fn pointers(self, range: &Range<u64>) -> Result<Pointers<'a>, Problem> {
        let mut relocated = HashMap::new();
        for (table, size) in self.relocations {
            let Some(addr) = table.filter(|_| size != 0) else { continue };
            let Some(offset) = self.image.offset(addr, size).filter(|_| size <= MAX_RELOCATION_BYTES) else {
                let problem = format!("its relocations, {size} bytes at {addr:#x}, are not in the file");
                return Err(Problem::Damaged(problem));
            };
            for at in (0..size / 24).map(|number| offset + number * 24) {
                let Some(entry) = read::<Relocation, 24>(&self.image.pages, at)? else { break };
                let place = entry.r_offset.get(LE);
                if let Some(symbol) = import(&entry) {
                    relocated.insert(place, Relocated::Symbol(symbol));
                } else if entry.r_type(LE, false) == elf::R_X86_64_RELATIVE && range.contains(&place) {
                    let address = entry.r_addend.get(LE).cast_unsigned();
                    relocated.insert(place, Relocated::Address(address));
                }
            }
        }
        Ok(Pointers { dynamic: self, relocated })
    }

    fn symbol(&self, number: u32) -> Result<Option<Symbol>, Problem> {
        self.image.structure::<Symbol, 24>(self.symbols.unwrap_or(0).wrapping_add(u64::from(number) * 24))
    }

    fn has_name(&self, symbol: &Symbol, name: &str) -> Result<bool, Problem> {
        let addr = self.names.unwrap_or(0).wrapping_add(symbol.st_name.get(LE).into());
        let offset = self.image.offset(addr, name.len() as u64 + 1);
        offset.map_or(Ok(false), |offset| self.image.pages.has_name(offset, name))
    }

    /// Reads the name at an offset of the table of names. Long ones are cut.
    fn name(&self, offset: u64) -> Result<String, Problem> {
        let name = self.image.until_zero(self.names.unwrap_or(0).wrapping_add(offset), MAX_NAME_LEN)?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }
}

/// Returns the number of the symbol whose address a relocation fills in for code.
fn import(entry: &Relocation) -> Option<u32> {
    let is_import = [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT].contains(&entry.r_type(LE, false));
    is_import.then(|| entry.r_sym(LE, false))
}

impl Pointers<'_> {
    /// Returns the value of the pointer at an address: of its relocation, or of the file; `None` if
    /// nothing is known of it.
    ///
    /// # Errors
    /// The system's.
    pub fn at(&self, addr: u64) -> Result<Option<Pointer>, Problem> {
        let dynamic = &self.dynamic;
        let symbol = match self.relocated.get(&addr) {
            Some(Relocated::Address(address)) => return Ok(Some(Pointer::Here(*address))),
            Some(Relocated::Symbol(number)) => dynamic.symbol(*number)?,
            None => {
                let own = dynamic.image.bytes(addr)?.map(u64::from_le_bytes);
                return Ok(own.filter(|it| *it != 0).map(Pointer::Here));
            }
        };
        Ok(match symbol {
            Some(symbol) if symbol.st_shndx.get(LE) == elf::SHN_UNDEF => {
                Some(Pointer::Elsewhere(dynamic.name(symbol.st_name.get(LE).into())?))
            }
            symbol => symbol.map(|symbol| Pointer::Here(symbol.st_value.get(LE))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_c_library_has_functions_until_its_tables_are_damaged() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let file = maps.lines().find_map(|line| line.split_once('/').filter(|it| it.1.contains("/libc.so")));
        let mut bytes = std::fs::read(format!("/{}", file.unwrap().1)).unwrap();
        let library = Image::read("libc.so", Box::new(bytes.clone())).unwrap();
        let dynamic = Dynamic::read(&library, 0).unwrap();
        let (address, size) = dynamic.function("malloc").unwrap().unwrap();
        assert!(library.is_code(address, size) && size > 16);
        assert_eq!(dynamic.function("no_such_function").unwrap(), None);
        let own = Image::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(Dynamic::read(&own, 0).unwrap().is_imported("realloc").unwrap());

        let (offset, size) = library.dynamic.unwrap();
        let (from, to) = (usize::try_from(offset).unwrap(), usize::try_from(offset + size).unwrap());
        let tag = elf::DT_GNU_HASH.0.to_le_bytes();
        let at = (from..to).step_by(16).find(|at| bytes[*at..].starts_with(&tag)).unwrap();
        for value in [u64::MAX, u64::MAX - 16, 0, 1 << 63] {
            bytes[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
            let library = Image::read("libc.so", Box::new(bytes.clone())).unwrap();
            let dynamic = Dynamic::read(&library, 0).unwrap();
            assert_eq!(dynamic.function("malloc").unwrap(), None, "{value:#x}");
            assert!(!dynamic.is_imported("no_such_function").unwrap());
        }
    }
}
