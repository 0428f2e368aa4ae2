//! Finds where functions begin: by the symbols, or in a stripped file by the unwind tables; and
//! which function beginnings stand for a site, since each call of the function passes the site
//! once.

use std::collections::HashMap;

use object::elf;

use super::image::{Image, Problem};
use super::pages::{LE, Symbol, read};
use super::sections::section;
use super::straight_line::passed_once;

/// Most bytes of a symbol table. A sparse file may claim any number.
const MAX_SYMBOL_BYTES: u64 = 1 << 30;
/// Most functions of unwind tables that are read.
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
    let (mut starts, mut by) = (Vec::new(), "symbols");
    each_function(image, &mut |addr, _| {
        starts.push(addr);
        Ok(())
    })?;
    if starts.is_empty() {
        (starts, by) = (by_unwind_tables(image)?, "unwind tables");
    }
    starts.sort_unstable();
    starts.dedup();
    let by = if starts.is_empty() { "" } else { by };
    Ok(Functions { starts, by })
}

/// Returns the address of the function with this name in the linker's symbol table.
pub(super) fn named(image: &Image, name: &str) -> Result<Option<u64>, Problem> {
    let mut named = None;
    each_function(image, &mut |addr, at| {
        if image.pages.has_name(at, name)? {
            named = Some(addr);
        }
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
    for number in 0.. {
        let Some(table) = section(image, number)? else { break };
        if table.sh_type.get(LE) != elf::SHT_SYMTAB {
            continue;
        }
        let names = section(image, table.sh_link.get(LE).into())?.map_or(0, |names| names.sh_offset.get(LE));
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

/// Reads the table of `.eh_frame_hdr`, in the only encoding that linkers give it: a pointer of four
/// bytes, a count of four bytes, and pairs of 32-bit numbers relative to its beginning.
fn by_unwind_tables(image: &Image) -> Result<Vec<u64>, Problem> {
    let mut starts = Vec::new();
    let Some((offset, addr, size)) = image.unwind_tables else { return Ok(starts) };
    let Some([1, _, 0x03, 0x3b, _, _, _, _, many @ ..]) = image.pages.bytes::<12>(offset)? else {
        return Ok(starts);
    };
    let many = u64::from(u32::from_le_bytes(many)).min(size.saturating_sub(12) / 8).min(MAX_UNWIND_ENTRIES);
    for number in 0..many {
        let Some(start) = image.pages.bytes(offset + 12 + number * 8)? else { break };
        let start = addr.wrapping_add_signed(i32::from_le_bytes(start).into());
        if image.is_code(start, 1) {
            starts.push(start);
        }
    }
    Ok(starts)
}

/// Most bytes of a function that is decoded. No site of a longer one is known to be passed once.
const MAX_FUNCTION_LEN: usize = 1 << 20;

/// Answers which function each of whose calls passes a site once. A function is decoded at the
/// first question for one of its sites, and its result is kept: all sites of a file cost one pass
/// over the functions that have them.
pub struct FunctionStarts<'a> {
    image: &'a Image,
    functions: &'a Functions,
    /// The addresses of the instructions that each call passes once, by the function's address.
    passed: HashMap<u64, Vec<u64>>,
}

impl<'a> FunctionStarts<'a> {
    /// Starts without any decoded function.
    pub fn new(image: &'a Image, functions: &'a Functions) -> Self {
        Self { image, functions, passed: HashMap::new() }
    }

    /// Returns the beginning of the function around a site, if each of its calls is known to pass
    /// the site exactly once.
    ///
    /// # Errors
    /// The system's.
    pub fn of(&mut self, site: u64) -> Result<Option<u64>, Problem> {
        let all = &self.functions.starts;
        let next = all.partition_point(|start| *start <= site);
        let Some(start) = next.checked_sub(1).map(|at| all[at]) else { return Ok(None) };
        if !self.passed.contains_key(&start) {
            let passed = self.read(start, all.get(next).copied())?;
            self.passed.insert(start, passed);
        }
        Ok(self.passed[&start].binary_search(&site).is_ok().then_some(start))
    }

    /// Decodes the function between its beginning and that of the next one. The last one ends with
    /// the text.
    fn read(&self, start: u64, next: Option<u64>) -> Result<Vec<u64>, Problem> {
        let Some(end) = self.image.end_of_code(start) else { return Ok(Vec::new()) };
        let length = next.map_or(end, |next| next.min(end)) - start;
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_FUNCTION_LEN);
        let mut code = Vec::new();
        match length {
            Some(length) if self.image.read_into(start, length, &mut code)? => Ok(passed_once(&code, start)),
            _ => Ok(Vec::new()),
        }
    }
}
