//! Where functions begin: by the symbols, or in a stripped file by the unwind tables.

use object::elf;

use super::error::Problem;
use super::image::Image;
use super::layout::{LE, ProgramHeader, SectionHeader, Symbol, read};
use super::notes::word;

/// Bytes of a symbol table that are read. A sparse file may claim any number.
const MAX_SYMBOL_BYTES: u64 = 1 << 30;
/// Functions of unwind tables that are read.
const MAX_UNWIND_ENTRIES: u64 = 1 << 24;

/// The addresses at which functions begin.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Functions {
    /// In order, each once.
    pub starts: Vec<u64>,
    /// The source: `symbols` or `unwind tables`; empty without either.
    pub by: &'static str,
}

impl Functions {
    /// Returns whether a function begins at this address.
    pub fn is_start(&self, addr: u64) -> bool {
        self.starts.binary_search(&addr).is_ok()
    }
}

/// Finds the functions.
///
/// # Errors
/// The system's.
pub fn functions(image: &Image) -> Result<Functions, Problem> {
    let starts = by_symbols(image)?;
    let (mut starts, by) =
        if starts.is_empty() { (by_unwind_tables(image)?, "unwind tables") } else { (starts, "symbols") };
    starts.sort_unstable();
    starts.dedup();
    let by = if starts.is_empty() { "" } else { by };
    Ok(Functions { starts, by })
}

fn by_symbols(image: &Image) -> Result<Vec<u64>, Problem> {
    let mut starts = Vec::new();
    each_function(image, &mut |addr, _| {
        starts.push(addr);
        Ok(())
    })?;
    Ok(starts)
}

/// Returns the address of a function that the linker's symbol table names so.
pub(super) fn named(image: &Image, name: &str) -> Result<Option<u64>, Problem> {
    let mut named = None;
    each_function(image, &mut |addr, at| {
        for (at, byte) in (at..).zip(name.bytes().chain([0])) {
            if image.pages.bytes(at)? != Some([byte]) {
                return Ok(());
            }
        }
        named = Some(addr);
        Ok(())
    })?;
    Ok(named)
}

/// Calls `found` for the functions of the linker's symbol table, which stripping removes: with the
/// address, and the place of the name in the file.
fn each_function(
    image: &Image,
    found: &mut dyn FnMut(u64, u64) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let (start, many) = (image.header.e_shoff.get(LE), image.header.e_shnum.get(LE));
    let section = |number: u64| match start.checked_add(number * 64) {
        Some(at) => read::<SectionHeader, 64>(&image.pages, at),
        None => Ok(None),
    };
    for number in 0..u64::from(many) {
        let Some(table) = section(number)? else { break };
        if table.sh_type.get(LE) != elf::SHT_SYMTAB {
            continue;
        }
        let names = section(table.sh_link.get(LE).into())?.map_or(0, |names| names.sh_offset.get(LE));
        let (offset, size) = (table.sh_offset.get(LE), table.sh_size.get(LE));
        // A damaged header may claim bytes behind the file's end.
        let size = size.min(image.length().saturating_sub(offset));
        if size > MAX_SYMBOL_BYTES {
            let problem = format!("its symbol table has {size} bytes, more than any program has");
            return Err(Problem::Damaged(problem));
        }
        for at in (0..size / 24).map(|number| offset + number * 24) {
            let Some(symbol) = read::<Symbol, 24>(&image.pages, at)? else { break };
            let addr = symbol.st_value.get(LE);
            // A symbol without a size may be a label inside of a function, as assemblers make them.
            let is_function = symbol.st_info.0 & 0xf == elf::STT_FUNC.0 && symbol.st_size.get(LE) != 0;
            if is_function && image.is_code(addr, 1) {
                found(addr, names.saturating_add(symbol.st_name.get(LE).into()))?;
            }
        }
        break;
    }
    Ok(())
}

/// Reads the table of `.eh_frame_hdr`, in the only encoding that linkers give it: 32-bit numbers
/// relative to its beginning.
fn by_unwind_tables(image: &Image) -> Result<Vec<u64>, Problem> {
    let mut starts = Vec::new();
    let Some((offset, addr, size)) = unwind_tables(image)? else { return Ok(starts) };
    let Some(head) = image.pages.bytes::<12>(offset)? else { return Ok(starts) };
    // A pointer of four bytes, a count of four bytes, pairs relative to the beginning.
    if head[0] != 1 || head[2] != 0x03 || head[3] != 0x3b {
        return Ok(starts);
    }
    let many = u64::from(word(&head, 8)).min(size.saturating_sub(12) / 8).min(MAX_UNWIND_ENTRIES);
    for number in 0..many {
        let Some(pair) = image.pages.bytes::<4>(offset + 12 + number * 8)? else { break };
        let start = addr.wrapping_add_signed(i32::from_le_bytes(pair).into());
        if image.is_code(start, 1) {
            starts.push(start);
        }
    }
    Ok(starts)
}

/// Returns the place, address and size of the unwind tables' header.
fn unwind_tables(image: &Image) -> Result<Option<(u64, u64, u64)>, Problem> {
    let (start, many) = (image.header.e_phoff.get(LE), image.header.e_phnum.get(LE));
    for number in 0..u64::from(many) {
        let Some(header) = read::<ProgramHeader, 56>(&image.pages, start + number * 56)? else { break };
        let (offset, size) = (header.p_offset.get(LE), header.p_filesz.get(LE));
        if header.p_type.get(LE) == elf::PT_GNU_EH_FRAME && offset.checked_add(size).is_some() {
            return Ok(Some((offset, header.p_vaddr.get(LE), size)));
        }
    }
    Ok(None)
}
