//! The table of sections, which a file may lack: only facts that no program header tells are read
//! from it.

use std::ops::Range;

use super::image::{Image, Problem};
use super::pages::{LE, SectionHeader, read};

/// The name that BOLT gives to the code that it has made anew elsewhere. Nothing executes the old.
const LEFT_BY_BOLT: &str = ".bolt.org.text";

/// Returns a section's header; `None` behind the table's end.
pub(super) fn section(image: &Image, number: u64) -> Result<Option<SectionHeader>, Problem> {
    let (start, many) = (image.header.e_shoff.get(LE), image.header.e_shnum.get(LE));
    match start.checked_add(number.saturating_mul(64)) {
        Some(at) if number < u64::from(many) => read::<SectionHeader, 64>(&image.pages, at),
        _ => Ok(None),
    }
}

/// Returns the addresses of the code that BOLT has left behind; `None` if it has not changed the
/// file.
///
/// # Errors
/// The system's.
pub fn left_by_bolt(image: &Image) -> Result<Option<Range<u64>>, Problem> {
    let names = section(image, image.header.e_shstrndx.get(LE).0.into())?;
    let Some(names) = names.map(|names| names.sh_offset.get(LE)) else { return Ok(None) };
    let mut number = 0;
    while let Some(it) = section(image, number)? {
        if image.pages.has_name(names.saturating_add(it.sh_name.get(LE).into()), LEFT_BY_BOLT)? {
            let (start, len) = (it.sh_addr.get(LE), it.sh_size.get(LE));
            return Ok(Some(start..start.saturating_add(len)));
        }
        number += 1;
    }
    Ok(None)
}
