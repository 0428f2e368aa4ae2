//! Symbols that an object shares with others: those that it has, by its GNU hash table, and those
//! that it takes, by its relocations. A hash table without symbols says nothing of the others.
//!
//! The object may be one in memory. The dynamic linker of glibc writes addresses of this run over
//! those of the file there, which its place (`bias`) tells.

use object::elf;

use super::error::Problem;
use super::image::Image;
use super::layout::{Dynamic, LE, Symbol, read};

/// Symbols of a chain, or relocations, that are read. A damaged table may lead anywhere.
const MAX_CHAIN_LEN: u32 = 1 << 20;
/// Types of relocations by which code reaches functions of other objects.
const CALL_TYPES: [u64; 2] = [6, 7];
/// Bytes of a relocation.
const RELOCATION_LEN: u64 = 24;
/// Longest name of a symbol that is compared.
const MAX_FUNCTION_NAME_LEN: u64 = 64;

/// The dynamic symbols of an object.
pub struct Exported<'a> {
    image: &'a Image,
    hash: u64,
    symbols: u64,
    names: u64,
    /// Addresses and sizes of the tables of relocations.
    relocations: [(u64, u64); 2],
    needs_others: bool,
}

impl<'a> Exported<'a> {
    /// Finds the tables. `None` if the object has none.
    ///
    /// # Errors
    /// The system's.
    pub fn of(image: &'a Image, bias: u64) -> Result<Option<Self>, Problem> {
        let Some((offset, size)) = image.dynamic else { return Ok(None) };
        let (mut hash, mut symbols, mut names) = (None, None, None);
        let (mut relocations, mut needs_others) = ([(0, 0); 2], false);
        for at in (0..size / 16).map(|number| offset.saturating_add(number * 16)) {
            let Some(entry) = read::<Dynamic, 16>(&image.pages, at)? else { break };
            let number = entry.d_val.get(LE);
            let value = number.checked_sub(bias).unwrap_or(number);
            match entry.d_tag.get(LE) {
                elf::DT_NULL => break,
                elf::DT_GNU_HASH => hash = Some(value),
                elf::DT_SYMTAB => symbols = Some(value),
                elf::DT_STRTAB => names = Some(value),
                elf::DT_NEEDED => needs_others = true,
                elf::DT_JMPREL => relocations[0].0 = value,
                elf::DT_PLTRELSZ => relocations[0].1 = number,
                elf::DT_RELA => relocations[1].0 = value,
                elf::DT_RELASZ => relocations[1].1 = number,
                _ => (),
            }
        }
        let all = hash.zip(symbols).zip(names);
        Ok(all.map(|((hash, symbols), names)| Self {
            image,
            hash,
            symbols,
            names,
            relocations,
            needs_others,
        }))
    }

    /// Returns whether the object needs other ones.
    pub fn needs_others(&self) -> bool {
        self.needs_others
    }

    /// Returns the address and the size of a function that the object has.
    ///
    /// # Errors
    /// The system's.
    pub fn function(&self, name: &str) -> Result<Option<(u64, u64)>, Problem> {
        let hash = gnu_hash(name);
        let [buckets, first, bloom, _] = self.head()?;
        if buckets == 0 {
            return Ok(None);
        }
        let words = self.hash.wrapping_add(16 + u64::from(bloom) * 8);
        let chains = words.wrapping_add(u64::from(buckets) * 4);
        let bucket = words.wrapping_add(u64::from(hash % buckets) * 4);
        let begin = self.word(bucket)?;
        for number in begin..begin.saturating_add(MAX_CHAIN_LEN) {
            let Some(place) = number.checked_sub(first) else { return Ok(None) };
            let other = self.word(chains.wrapping_add(u64::from(place) * 4))?;
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

    /// Returns whether the object's code takes this function from another one.
    ///
    /// # Errors
    /// The system's.
    pub fn is_imported(&self, name: &str) -> Result<bool, Problem> {
        Ok(!self.import_words(name)?.is_empty())
    }

    /// Returns the addresses of the words through which the object's code reaches this function of
    /// another one.
    ///
    /// # Errors
    /// The system's.
    pub fn import_words(&self, name: &str) -> Result<Vec<u64>, Problem> {
        let mut words = Vec::new();
        for (table, size) in self.relocations {
            for at in (0..size / RELOCATION_LEN).take(MAX_CHAIN_LEN as usize) {
                let at = table.wrapping_add(at * RELOCATION_LEN);
                let Some(info) = self.image.bytes(at.wrapping_add(8))?.map(u64::from_le_bytes) else { break };
                let (number, is_call) = ((info >> 32) as u32, CALL_TYPES.contains(&(info & 0xffff_ffff)));
                if is_call
                    && let Some(symbol) = self.symbol(number)?
                    && symbol.st_shndx.get(LE) == elf::SHN_UNDEF
                    && self.has_name(&symbol, name)?
                {
                    words.extend(self.image.bytes(at)?.map(u64::from_le_bytes));
                }
            }
        }
        Ok(words)
    }

    /// Returns the table's numbers: buckets, the first symbol, words of its filter, a shift.
    fn head(&self) -> Result<[u32; 4], Problem> {
        let mut head = [0; 4];
        for (at, word) in (0_u64..).zip(&mut head) {
            *word = self.word(self.hash.wrapping_add(at * 4))?;
        }
        Ok(head)
    }

    fn word(&self, addr: u64) -> Result<u32, Problem> {
        Ok(self.image.bytes(addr)?.map_or(1, u32::from_le_bytes))
    }

    fn symbol(&self, number: u32) -> Result<Option<Symbol>, Problem> {
        let addr = self.symbols.wrapping_add(u64::from(number) * 24);
        let Some(offset) = self.image.offset(addr, 24) else { return Ok(None) };
        read::<Symbol, 24>(&self.image.pages, offset)
    }

    fn has_name(&self, symbol: &Symbol, name: &str) -> Result<bool, Problem> {
        let begin = self.names.wrapping_add(symbol.st_name.get(LE).into());
        for (at, byte) in (0..MAX_FUNCTION_NAME_LEN).zip(name.bytes().chain([0])) {
            if self.image.bytes(begin.wrapping_add(at))? != Some([byte]) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_hashes() {
        assert_eq!([gnu_hash(""), gnu_hash("printf"), gnu_hash("exit")], [0x1505, 0x156b_2bb8, 0x7c96_7e3f]);
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_c_library_has_functions_until_its_tables_are_damaged() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let file = maps.lines().find_map(|line| line.split_once('/').filter(|it| it.1.contains("/libc.so")));
        let mut bytes = std::fs::read(format!("/{}", file.unwrap().1)).unwrap();
        let library = Image::read("libc.so", Box::new(bytes.clone())).unwrap();
        let exported = Exported::of(&library, 0).unwrap().unwrap();
        let (address, size) = exported.function("malloc").unwrap().unwrap();
        assert!(library.is_code(address, size) && size > 16);
        assert_eq!(exported.function("no_such_function").unwrap(), None);
        let own = Image::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(Exported::of(&own, 0).unwrap().unwrap().is_imported("realloc").unwrap());

        let (offset, size) = library.dynamic.unwrap();
        let (from, to) = (usize::try_from(offset).unwrap(), usize::try_from(offset + size).unwrap());
        let tag = elf::DT_GNU_HASH.0.to_le_bytes();
        let at = (from..to).step_by(16).find(|at| bytes[*at..].starts_with(&tag)).unwrap();
        for value in [u64::MAX, u64::MAX - 16, 0, 1 << 63] {
            bytes[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
            let library = Image::read("libc.so", Box::new(bytes.clone())).unwrap();
            let exported = Exported::of(&library, 0).unwrap().unwrap();
            assert_eq!(exported.function("malloc").unwrap(), None, "{value:#x}");
            assert!(!exported.is_imported("no_such_function").unwrap());
        }
    }
}
