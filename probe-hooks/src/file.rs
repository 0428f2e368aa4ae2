//! Opens files whose tables are no larger than those of programs. `object` takes whole tables, and
//! a sparse file may claim any length.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::ReadCache;

/// Bytes of the longest table that is read.
pub(crate) const MAX_TABLE_LEN: u64 = 1 << 30;
/// Sections of a file.
const MAX_SECTIONS: u64 = 1 << 20;

/// Opens an ELF file of 64 bits. Returns `None` for any other file, and for too large a table.
pub(crate) fn open(path: &Path) -> Option<ReadCache<File>> {
    // The open of a pipe would wait.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let file = File::open(path).ok()?;
    are_tables_bounded(&file).then(|| ReadCache::new(file))
}

/// Returns whether the headers of sections claim no table that is too large.
fn are_tables_bounded(file: &File) -> bool {
    /// Tables of symbols, of names, of relocations, and of dynamic symbols.
    const TABLES: [u32; 4] = [2, 3, 4, 11];
    let word = |at: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let all = || {
        let mut magic = [0; 5];
        file.read_exact_at(&mut magic, 0).ok().filter(|()| magic == *b"\x7fELF\x02")?;
        let start = word(0x28)?;
        // The number is in the first section's size if it is too large for the header.
        let many = match word(0x38)? >> 32 & 0xffff {
            0 if start != 0 => word(start.checked_add(32)?)?,
            many => many,
        };
        if many > MAX_SECTIONS {
            return None;
        }
        let mut header = [0; 64];
        for number in 0..many {
            let at = start.checked_add(number * 64)?;
            file.read_exact_at(&mut header, at).ok()?;
            let [kind, size] = [4..8, 32..40].map(|range| {
                header[range].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
            });
            if size > MAX_TABLE_LEN && TABLES.iter().any(|table| u64::from(*table) == kind) {
                return None;
            }
        }
        Some(())
    };
    all().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    #[test]
    fn a_table_that_no_program_has_is_not_read() {
        let path = env::current_exe().unwrap();
        assert!(open(&path).is_some());
        assert!(open(Path::new("/dev/null")).is_none() && open(Path::new("/")).is_none());
        let bytes = fs::read(&path).unwrap();
        let start = usize::try_from(u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap())).unwrap();
        let copy = env::temp_dir().join(format!("probe-hooks-tables-{}", std::process::id()));
        for (at, value) in [(start + 2 * 64 + 4, 2_u64 | u64::MAX << 32), (0x28, u64::MAX), (0x3c, 0)] {
            let mut bytes = bytes.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            bytes[start + 2 * 64 + 32..][..8].copy_from_slice(&(MAX_TABLE_LEN + 1).to_le_bytes());
            bytes[start + 32..][..8].copy_from_slice(&(MAX_SECTIONS + 1).to_le_bytes());
            fs::write(&copy, &bytes).unwrap();
            assert!(open(&copy).is_none(), "{at:#x}");
        }
        fs::remove_file(copy).unwrap();
    }
}
