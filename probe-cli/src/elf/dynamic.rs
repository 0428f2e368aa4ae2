//! Pointers that the dynamic linker fills in, as far as the file tells their values.

use std::collections::HashMap;
use std::ops::Range;

use object::elf;

use super::error::Problem;
use super::image::Image;
use super::layout::{Dynamic, LE, Relocation, Symbol, read};

/// Bytes of relocations that are read. A sparse file may claim any number.
const MAX_RELOCATION_BYTES: u64 = 1 << 30;
/// Longest name of a symbol that is read.
const MAX_NAME_LEN: usize = 1024;

/// The value of a pointer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pointer {
    /// An address in this file.
    Here(u64),
    /// A symbol of another object.
    Elsewhere(String),
}

/// Returns the names of the libraries that a file needs.
///
/// # Errors
/// If the file is damaged, and the system's.
pub fn needed(image: &Image) -> Result<Vec<String>, Problem> {
    let Some((offset, size)) = image.dynamic else { return Ok(Vec::new()) };
    let (mut pointers, mut names) = (Pointers::default(), Vec::new());
    for at in (0..size / 16).map(|number| offset + number * 16) {
        let Some(entry) = read::<Dynamic, 16>(&image.pages, at)? else { break };
        match entry.d_tag.get(LE) {
            elf::DT_NULL => break,
            elf::DT_NEEDED => names.push(entry.d_val.get(LE)),
            elf::DT_STRTAB => pointers.names = entry.d_val.get(LE),
            _ => (),
        }
    }
    let name = |at| Ok(String::from_utf8_lossy(&pointers.name(image, at)?).into_owned());
    names.into_iter().map(name).collect()
}

/// The pointers of a file that relocations fill in.
#[derive(Default)]
pub struct Pointers {
    relocated: HashMap<u64, Relocated>,
    symbols: u64,
    names: u64,
}

#[derive(Clone, Copy)]
enum Relocated {
    Address(u64),
    Symbol(u32),
}

impl Pointers {
    /// Reads the relocations of pointers in the range, and of those to symbols.
    ///
    /// # Errors
    /// If the file is damaged, and the system's.
    pub fn read(image: &Image, range: &Range<u64>) -> Result<Self, Problem> {
        let mut pointers = Self::default();
        let Some((offset, size)) = image.dynamic else { return Ok(pointers) };
        let (mut tables, mut sizes) = ([None; 2], [0; 2]);
        for at in (0..size / 16).map(|number| offset + number * 16) {
            let Some(entry) = read::<Dynamic, 16>(&image.pages, at)? else { break };
            let value = entry.d_val.get(LE);
            match entry.d_tag.get(LE) {
                elf::DT_NULL => break,
                elf::DT_RELA => tables[0] = Some(value),
                elf::DT_RELASZ => sizes[0] = value,
                elf::DT_JMPREL => tables[1] = Some(value),
                elf::DT_PLTRELSZ => sizes[1] = value,
                elf::DT_SYMTAB => pointers.symbols = value,
                elf::DT_STRTAB => pointers.names = value,
                _ => (),
            }
        }
        for (table, size) in tables.into_iter().zip(sizes) {
            let Some(addr) = table.filter(|_| size != 0) else { continue };
            let Some(offset) = image.offset(addr, size).filter(|_| size <= MAX_RELOCATION_BYTES) else {
                let problem = format!("its relocations, {size} bytes at {addr:#x}, are not in the file");
                return Err(Problem::Damaged(problem));
            };
            pointers.read_table(image, offset, size, range)?;
        }
        Ok(pointers)
    }

    fn read_table(
        &mut self,
        image: &Image,
        offset: u64,
        size: u64,
        range: &Range<u64>,
    ) -> Result<(), Problem> {
        for at in (0..size / 24).map(|number| offset + number * 24) {
            let Some(entry) = read::<Relocation, 24>(&image.pages, at)? else { break };
            let (place, info) = (entry.r_offset.get(LE), entry.r_info.get(LE));
            let (kind, symbol) = (elf::R_X86_64_RELATIVE.0, u32::try_from(info >> 32).unwrap_or_default());
            match u32::try_from(info & 0xffff_ffff).unwrap_or_default() {
                it if it == kind && range.contains(&place) => {
                    self.relocated.insert(place, Relocated::Address(entry.r_addend.get(LE).cast_unsigned()));
                }
                it if [elf::R_X86_64_GLOB_DAT.0, elf::R_X86_64_JUMP_SLOT.0].contains(&it) => {
                    self.relocated.insert(place, Relocated::Symbol(symbol));
                }
                _ => (),
            }
        }
        Ok(())
    }

    /// Returns the value of the pointer at an address, if something fills it in, or the file does;
    /// `None` if nothing is known of it.
    ///
    /// # Errors
    /// The system's.
    pub fn at(&self, image: &Image, addr: u64) -> Result<Option<Pointer>, Problem> {
        match self.relocated.get(&addr) {
            Some(Relocated::Address(address)) => Ok(Some(Pointer::Here(*address))),
            Some(Relocated::Symbol(number)) => self.symbol(image, *number),
            None => Ok(image.bytes(addr)?.map(u64::from_le_bytes).filter(|it| *it != 0).map(Pointer::Here)),
        }
    }

    fn symbol(&self, image: &Image, number: u32) -> Result<Option<Pointer>, Problem> {
        let addr = self.symbols.wrapping_add(u64::from(number) * 24);
        let Some(offset) = image.offset(addr, 24) else { return Ok(None) };
        let Some(symbol) = read::<Symbol, 24>(&image.pages, offset)? else { return Ok(None) };
        if symbol.st_shndx.get(LE) != elf::SHN_UNDEF {
            return Ok(Some(Pointer::Here(symbol.st_value.get(LE))));
        }
        let name = self.name(image, symbol.st_name.get(LE).into())?;
        Ok(Some(Pointer::Elsewhere(String::from_utf8_lossy(&name).into_owned())))
    }

    /// Reads the name at a place of the table of names. Long ones are cut.
    fn name(&self, image: &Image, at: u64) -> Result<Vec<u8>, Problem> {
        const CHUNK: usize = 32;
        let mut name = Vec::new();
        let mut at = self.names.wrapping_add(at);
        while name.len() < MAX_NAME_LEN {
            let part = match image.bytes::<CHUNK>(at)? {
                Some(part) => part.to_vec(),
                // The table may end before.
                None => match image.bytes::<1>(at)? {
                    Some(byte) => byte.to_vec(),
                    None => break,
                },
            };
            at = at.wrapping_add(part.len() as u64);
            let length = part.iter().position(|byte| *byte == 0);
            name.extend(&part[..length.unwrap_or(part.len())]);
            if length.is_some() {
                break;
            }
        }
        Ok(name)
    }
}
