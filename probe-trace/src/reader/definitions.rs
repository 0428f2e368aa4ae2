//! The definitions of a file's probes.
//!
//! Names have a limit: an event of eight bytes makes exports write its probe's names, so in a
//! hostile file a long name would cost its length for each of them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::sync::Arc;

use super::block::bytes_at;
use super::file::Source;
use crate::item::{Definition, Kind};
use crate::layout::flag;

/// Bytes of a path, and of a source file's name, that are kept.
const MAX_PATH_BYTES: usize = 4096;
/// Bytes of a field's name that are kept.
const MAX_FIELD_NAME_BYTES: usize = 256;

/// Adds the definitions of a block. Returns whether the block was read to its end.
pub(super) fn read(block: &[u8], into: &mut HashMap<u32, Arc<Definition>>) -> bool {
    let mut rest = block;
    while !rest.is_empty() {
        let Some(definition) = definition(&mut rest) else { return false };
        into.insert(definition.probe, Arc::new(definition));
        // Each is padded to a word; the block begins at one.
        let padding = rest.len() % 8;
        rest = &rest[padding..];
    }
    true
}

/// Adds the definitions of a block with this content. Returns whether it was read to its end.
pub(super) fn read_at(
    source: &mut dyn Source,
    content: u64,
    bytes: u64,
    into: &mut HashMap<u32, Arc<Definition>>,
) -> io::Result<bool> {
    let block = bytes_at(source, content, usize::try_from(bytes).unwrap_or(usize::MAX))?;
    Ok(read(&block, into))
}

fn definition(rest: &mut &[u8]) -> Option<Definition> {
    let probe = u32::from_le_bytes(take(rest)?);
    let [kind, flags] = take(rest)?;
    let count = u16::from_le_bytes(take(rest)?);
    let line = u32::from_le_bytes(take(rest)?);
    let (path, file) = (text(rest, MAX_PATH_BYTES)?, text(rest, MAX_PATH_BYTES)?);
    let fields = (0..count).map(|_| text(rest, MAX_FIELD_NAME_BYTES)).collect::<Option<_>>()?;
    Some(Definition {
        probe,
        kind: Kind::from_number(kind),
        may_skip_exit: flags & flag::FRAME != 0,
        has_frame: flags & flag::OWN_FRAME != 0,
        is_future: flags & flag::FUTURE != 0,
        path,
        file,
        line,
        fields,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

/// Returns a text. One that is longer than the limit ends in a hash of the whole, so that it stays
/// distinct.
fn text(rest: &mut &[u8], limit: usize) -> Option<String> {
    let length = usize::try_from(u32::from_le_bytes(take(rest)?)).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    if length <= limit {
        return Some(String::from_utf8_lossy(text).into_owned());
    }
    let mut hash = DefaultHasher::new();
    hash.write(text);
    Some(format!("{}…{:016x}", String::from_utf8_lossy(&text[..limit]), hash.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(probe: u32, path: &str) -> Vec<u8> {
        let mut bytes = probe.to_le_bytes().to_vec();
        bytes.extend([1, 0, 1, 0, 7, 0, 0, 0]);
        for text in [path, "src/lib.rs", "n"] {
            bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn long_names_are_cut_and_stay_distinct() {
        let fits = "x".repeat(MAX_PATH_BYTES);
        let [one, other] = ["1", "2"].map(|end| fits.clone() + end);
        let block = [definition(1, &fits), definition(2, &one), definition(3, &other), definition(4, &one)];
        let mut read_back = HashMap::new();
        assert!(read(&block.concat(), &mut read_back));
        let path = |probe: u32| read_back[&probe].path.as_str();
        assert_eq!(path(1), fits);
        assert_eq!(path(2).len(), MAX_PATH_BYTES + "…".len() + 16);
        assert!(path(2).starts_with(&fits) && path(2) != path(3) && path(2) == path(4));
        assert_eq!((read_back[&2].line, &read_back[&2].fields[..]), (7, &["n".to_owned()][..]));
    }
}
