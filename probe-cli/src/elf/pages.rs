//! A file's bytes, read in blocks as they are asked for.
//!
//! Memory: at most [`MAX_BLOCKS`] blocks and [`PLACES`] places for them, whatever the file's length
//! and whatever it says. The readers of `object` keep all that they have read, and take whole
//! tables, of which a damaged file may claim any length. Tables are read in order, so hardly any
//! block is read twice.
//!
//! Cost: one indexed look for each read, without a hash.

use std::cell::RefCell;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::pod::{Pod, from_bytes};
use object::{LittleEndian, elf};

use super::image::Problem;

/// Bytes of a block.
const BLOCK_LEN: u64 = 1 << 15;
/// Most blocks that are kept: 64 MiB.
const MAX_BLOCKS: usize = 1 << 11;
/// Places of blocks. Two blocks that are 4 GiB apart take turns in one.
const PLACES: u64 = 1 << 17;

/// A file, or bytes in memory.
pub trait Source {
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The system's.
    fn length(&self) -> io::Result<u64>;

    /// Fills the slice with the bytes from `at` on.
    ///
    /// # Errors
    /// The system's, and one if there are fewer bytes.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()>;
}

/// Opens a regular file. Refuses a pipe, since opening one waits for a writer.
///
/// # Errors
/// If it is something else, and the system's.
pub fn open_regular(path: &Path) -> io::Result<File> {
    length(&fs::metadata(path)?)?;
    File::open(path)
}

/// Returns the length of a file that is a regular one.
fn length(metadata: &Metadata) -> io::Result<u64> {
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    Err(io::Error::other(if metadata.is_dir() { "it is a folder" } else { "it is no regular file" }))
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        length(&self.metadata()?)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(into, at)
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let from = self.get(at..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The file.
pub(super) struct Pages {
    source: Box<dyn Source>,
    length: u64,
    blocks: RefCell<Blocks>,
}

/// The blocks that are kept, with their numbers, by these numbers modulo [`PLACES`].
#[derive(Default)]
struct Blocks {
    places: Vec<Option<(u64, Box<[u8]>)>>,
    kept: usize,
}

impl Blocks {
    /// Returns a block, which `read` reads if it is not kept.
    fn get(
        &mut self,
        number: u64,
        read: impl FnOnce() -> Result<Box<[u8]>, Problem>,
    ) -> Result<&[u8], Problem> {
        let place = usize_of(number % PLACES);
        let is_kept = |block: &Option<(u64, _)>| block.as_ref().is_some_and(|(kept, _)| *kept == number);
        if !self.places.get(place).is_some_and(is_kept) {
            if self.kept == MAX_BLOCKS {
                (self.places, self.kept) = (Vec::new(), 0);
            }
            if self.places.len() <= place {
                self.places.resize_with(place + 1, || None);
            }
            let block = read()?;
            self.kept += usize::from(self.places[place].replace((number, block)).is_none());
        }
        Ok(self.places[place].as_ref().map_or(&[], |(_, block)| block))
    }
}

impl Pages {
    pub(super) fn new(source: Box<dyn Source>) -> io::Result<Self> {
        let length = source.length()?;
        Ok(Self { source, length, blocks: RefCell::default() })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the bytes at a place of the file; `None` if the file has fewer.
    pub(super) fn bytes<const N: usize>(&self, at: u64) -> Result<Option<[u8; N]>, Problem> {
        let mut bytes = [0; N];
        Ok(self.fill(at, &mut bytes)?.then_some(bytes))
    }

    /// Returns the bytes at a place of the file up to the first zero, and at most `limit` of them.
    pub(super) fn until_zero(&self, at: u64, limit: u64) -> Result<Vec<u8>, Problem> {
        let mut bytes = vec![0; usize_of(limit)];
        self.fill(at, &mut bytes)?;
        bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
        Ok(bytes)
    }

    /// Returns whether a place of the file has this name, with a zero behind it.
    pub(super) fn has_name(&self, at: u64, name: &str) -> Result<bool, Problem> {
        for (place, byte) in (0..).zip(name.bytes().chain([0])) {
            if self.bytes(at.wrapping_add(place))? != Some([byte]) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fills the slice with the bytes at a place of the file; returns whether the file has as many.
    pub(super) fn fill(&self, mut at: u64, mut into: &mut [u8]) -> Result<bool, Problem> {
        if at.checked_add(into.len() as u64).is_none_or(|end| end > self.length) {
            return Ok(false);
        }
        let mut blocks = self.blocks.borrow_mut();
        while !into.is_empty() {
            let number = at / BLOCK_LEN;
            let block = blocks.get(number, || {
                let start = number * BLOCK_LEN;
                let mut block = vec![0; usize_of(BLOCK_LEN.min(self.length - start))];
                self.source.read_at(&mut block, start)?;
                Ok(block.into())
            })?;
            let from = &block[usize_of(at % BLOCK_LEN)..];
            let many = from.len().min(into.len());
            into[..many].copy_from_slice(&from[..many]);
            into = &mut into[many..];
            at += many as u64;
        }
        Ok(true)
    }
}

pub(super) const LE: LittleEndian = LittleEndian;

pub(super) type Header = elf::FileHeader64<LittleEndian>;
pub(super) type ProgramHeader = elf::ProgramHeader64<LittleEndian>;
pub(super) type SectionHeader = elf::SectionHeader64<LittleEndian>;
pub(super) type DynamicEntry = elf::Dyn64<LittleEndian>;
pub(super) type HashHeader = elf::GnuHashHeader<LittleEndian>;
pub(super) type NoteHeader = elf::NoteHeader32<LittleEndian>;
pub(super) type Relocation = elf::Rela64<LittleEndian>;
pub(super) type Symbol = elf::Sym64<LittleEndian>;

/// Reads one structure of ELF from a place of the file; `None` if the file ends before.
pub(super) fn read<T: Pod + Copy, const N: usize>(pages: &Pages, at: u64) -> Result<Option<T>, Problem> {
    const { assert!(N == size_of::<T>()) };
    let bytes: Option<[u8; N]> = pages.bytes(at)?;
    // The structures consist of bytes, so each place is aligned.
    Ok(bytes.and_then(|bytes| from_bytes::<T>(&bytes).ok().map(|(it, _)| *it)))
}

/// Converts an address or a length. Those of 64 bits exist on hosts of 64 bits.
pub(crate) fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_the_file_and_nothing_behind_it() {
        let file: Vec<u8> = (0..3 * BLOCK_LEN + 7).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let pages = Pages::new(Box::new(file.clone())).unwrap();
        for at in [0, 5, BLOCK_LEN - 3, 2 * BLOCK_LEN - 8, 3 * BLOCK_LEN - 1] {
            let bytes: [u8; 8] = pages.bytes(at).unwrap().unwrap();
            assert_eq!(bytes, file[usize_of(at)..][..8]);
        }
        let mut whole = vec![0; file.len()];
        assert!(pages.fill(0, &mut whole).unwrap());
        assert_eq!(whole, file);
        for at in [3 * BLOCK_LEN, u64::MAX - 3, u64::MAX] {
            assert_eq!(pages.bytes::<8>(at).unwrap(), None);
        }
    }

    /// A file as long as can be, all of it zeros.
    struct Endless;

    impl Source for Endless {
        fn length(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn memory_has_a_bound() {
        let pages = Pages::new(Box::new(Endless)).unwrap();
        let reads = 3 * MAX_BLOCKS as u64;
        for number in 0..reads {
            assert_eq!(pages.bytes(number * BLOCK_LEN * 1000).unwrap(), Some([0; 4]));
            let blocks = pages.blocks.borrow();
            assert!(blocks.kept <= MAX_BLOCKS && blocks.places.len() as u64 <= PLACES);
            // To count them takes far longer than a read.
            if number % 61 == 0 || number + 1 == reads {
                assert_eq!(blocks.places.iter().flatten().count(), blocks.kept);
            }
        }
    }
}
