//! The structures of ELF that are read, by the names and layouts of the crate `object`.

use object::pod::{Pod, from_bytes};
use object::{LittleEndian, elf};

use super::error::Problem;
use super::pages::Pages;

pub(super) const LE: LittleEndian = LittleEndian;

pub(super) type Header = elf::FileHeader64<LittleEndian>;
pub(super) type ProgramHeader = elf::ProgramHeader64<LittleEndian>;
pub(super) type SectionHeader = elf::SectionHeader64<LittleEndian>;
pub(super) type Dynamic = elf::Dyn64<LittleEndian>;
pub(super) type Relocation = elf::Rela64<LittleEndian>;
pub(super) type Symbol = elf::Sym64<LittleEndian>;

/// Reads one structure from a place of the file; `None` if the file ends before.
pub(super) fn read<T: Pod + Copy, const N: usize>(pages: &Pages, at: u64) -> Result<Option<T>, Problem> {
    const { assert!(N == size_of::<T>()) };
    let bytes: Option<[u8; N]> = pages.bytes(at)?;
    // The structures consist of bytes, so each place is aligned.
    Ok(bytes.and_then(|bytes| from_bytes::<T>(&bytes).ok().map(|(it, _)| *it)))
}
