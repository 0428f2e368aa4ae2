//! Decodes a file's bytes: words, the headers of blocks, the definitions of probes, and the
//! payloads of events.
//!
//! Every length is compared with the bytes that are there. Names have a limit, because an event of
//! eight bytes makes exports write its probe's names. In a hostile file a long name would cost its
//! length for each event.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use probe_core::abi::Kind;

use crate::item::{Definition, FieldValue, Stack};
use crate::layout::{block, field, flag, reading, ring, sub_buffer};

/// Bytes of a block's header.
const BLOCK_HEADER_BYTES: u64 = block::WORDS as u64 * 8;
/// The most bytes that are kept of a path, and of a source file's name.
const MAX_PATH_BYTES: usize = 4096;
/// The most bytes that are kept of a field's name.
const MAX_FIELD_NAME_BYTES: usize = 256;
/// The most calls of a stack that are kept, and the most bytes of their names.
const MAX_STACK_CALLS: usize = 64;
const MAX_STACK_BYTES: usize = 1 << 14;

/// A file, or its content in memory.
pub(super) trait Source: Read + Seek + Send {}

impl<S: Read + Seek + Send> Source for S {}

/// Returns this many bytes of the file; an error if it ends before.
pub(super) fn bytes_at(source: &mut dyn Source, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut content = vec![0; bytes];
    source.seek(SeekFrom::Start(at))?;
    source.read_exact(&mut content)?;
    Ok(content)
}

/// Returns this many words of the file; an error if it ends before.
pub(super) fn words_at(source: &mut dyn Source, at: u64, words: usize) -> io::Result<Vec<u64>> {
    Ok(words_of(&bytes_at(source, at, words * 8)?))
}

pub(super) fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// A block, as its header describes it.
#[derive(Clone, Copy)]
pub(super) struct Block {
    magic: u64,
    pub(super) kind: u64,
    pub(super) bytes: u64,
    pub(super) ring: u64,
    /// The first byte of its content.
    pub(super) content: u64,
}

impl Block {
    /// Reads the header of the block at this place; `None` if the file ends before.
    pub(super) fn at(source: &mut dyn Source, at: u64, length: u64) -> io::Result<Option<Self>> {
        let Some(content) = at.checked_add(BLOCK_HEADER_BYTES).filter(|end| *end <= length) else {
            return Ok(None);
        };
        let words = words_at(source, at, block::WORDS)?;
        let [magic, kind, bytes, ring] =
            [block::MAGIC_AT, block::KIND_AT, block::BYTES_AT, block::RING_AT].map(|at| words[at]);
        Ok(Some(Self { magic, kind, bytes, ring, content }))
    }

    /// Reads the header of the block at this place, and returns where the block ends; `None` unless
    /// the block is [possible](Self::is_possible), and all of it is in the file.
    pub(super) fn whole_at(
        source: &mut dyn Source,
        at: u64,
        length: u64,
        sub_buffer_words: u64,
    ) -> io::Result<Option<(Self, u64)>> {
        let block = Self::at(source, at, length)?.filter(|it| it.is_possible(sub_buffer_words));
        Ok(block.and_then(|block| Some((block, block.end().filter(|end| *end <= length)?))))
    }

    pub(super) fn has_magic(self) -> bool {
        self.magic == block::MAGIC
    }

    /// Returns the first byte after the block.
    pub(super) fn end(self) -> Option<u64> {
        self.bytes.checked_next_multiple_of(8)?.checked_add(self.content)
    }

    /// Returns whether this is a block, and a block of its kind may have its length. A sub-buffer
    /// has at most `sub_buffer_words`.
    pub(super) fn is_possible(self, sub_buffer_words: u64) -> bool {
        let words = self.bytes / 8;
        self.has_magic()
            && match self.kind {
                block::SUB_BUFFER => (sub_buffer::WORDS as u64..=sub_buffer_words).contains(&words),
                block::READING => words >= reading::WORDS as u64,
                block::RING => words >= ring::WORDS as u64,
                block::UNSEEN => words >= 2,
                block::OFF => (1..=block::MOST_OFF_WORDS).contains(&words),
                block::DEFINITIONS | block::STACKS => self.bytes <= block::MOST_DEFINITIONS,
                _ => true,
            }
    }

    /// Reads the first words of the content.
    pub(super) fn words<const N: usize>(self, source: &mut dyn Source) -> io::Result<[u64; N]> {
        let words = words_at(source, self.content, N)?;
        Ok(std::array::from_fn(|at| words[at]))
    }
}

/// The probes of a file, by number.
pub(super) type Definitions = HashMap<u32, Arc<Definition>>;

/// The stacks of a file, by number.
pub(super) type Stacks = HashMap<u64, Stack>;

/// Adds the stacks of a block. Returns whether the block was read to its end.
pub(super) fn add_stacks(block: &[u8], into: &mut Stacks) -> bool {
    let mut rest = block;
    let Some(count) = take(&mut rest).map(u64::from_le_bytes) else { return false };
    let mut names = Vec::new();
    for _ in 0..count {
        let Some(name) = name(&mut rest, MAX_PATH_BYTES) else { return false };
        names.push(Arc::from(name));
    }
    // The names are padded to a word, and the block begins at a word.
    let words = words_of(&rest[rest.len() % 8..]);
    let mut rest = &words[..];
    while !rest.is_empty() {
        let Some([number, calls]) = take(&mut rest) else { return false };
        let calls = usize::try_from(calls).ok().and_then(|calls| rest.split_at_checked(calls));
        let Some((calls, after)) = calls else { return false };
        rest = after;
        let Some(stack) = stack(calls, &names) else { return false };
        into.insert(number, stack);
    }
    true
}

/// Returns the names of calls. The outermost ones may be left out, since an event of a few bytes
/// makes exports write all that are kept.
fn stack(calls: &[u64], names: &[Arc<str>]) -> Option<Stack> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for call in calls {
        let name: &Arc<str> = names.get(usize::try_from(*call).ok()?)?;
        bytes += name.len();
        if kept.len() == MAX_STACK_CALLS || bytes > MAX_STACK_BYTES {
            kept.push(Arc::from("…"));
            break;
        }
        kept.push(Arc::clone(name));
    }
    Some(kept.into())
}

/// Adds the stacks of a block of the file. Returns whether the block was read to its end.
pub(super) fn add_stacks_from(source: &mut dyn Source, of: Block, into: &mut Stacks) -> io::Result<bool> {
    Ok(add_stacks(&bytes_at(source, of.content, usize::try_from(of.bytes).unwrap_or(usize::MAX))?, into))
}

/// Adds the definitions of a block. Returns whether the block was read to its end.
pub(super) fn define(block: &[u8], into: &mut Definitions) -> bool {
    let mut rest = block;
    while !rest.is_empty() {
        let Some(definition) = definition(&mut rest) else { return false };
        into.insert(definition.probe, Arc::new(definition));
        // Each definition is padded to a word, and the block begins at a word.
        let padding = rest.len() % 8;
        rest = &rest[padding..];
    }
    true
}

/// Adds the definitions of a block of the file. Returns whether the block was read to its end.
pub(super) fn define_from(source: &mut dyn Source, of: Block, into: &mut Definitions) -> io::Result<bool> {
    Ok(define(&bytes_at(source, of.content, usize::try_from(of.bytes).unwrap_or(usize::MAX))?, into))
}

fn definition(rest: &mut &[u8]) -> Option<Definition> {
    let probe = u32::from_le_bytes(take(rest)?);
    let [kind, flags] = take(rest)?;
    let count = u16::from_le_bytes(take(rest)?);
    let line = u32::from_le_bytes(take(rest)?);
    let (path, file) = (name(rest, MAX_PATH_BYTES)?, name(rest, MAX_PATH_BYTES)?);
    let fields = (0..count).map(|_| name(rest, MAX_FIELD_NAME_BYTES)).collect::<Option<_>>()?;
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

fn take<T: Copy, const N: usize>(rest: &mut &[T]) -> Option<[T; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

/// Returns a name. A name that exceeds the limit is cut, and ends in a hash of the whole, so that
/// it stays distinct.
fn name(rest: &mut &[u8], limit: usize) -> Option<String> {
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

/// Returns the stack pointer and the fields' values of an event. A payload that is too short,
/// because somebody changed the file, gives fewer values.
pub(super) fn payload(
    definition: &Definition,
    payload: &[u64],
    stacks: &Stacks,
) -> (Option<u64>, Vec<FieldValue>) {
    let mut rest = payload;
    let frame = if definition.may_skip_exit { word(&mut rest) } else { None };
    let count = definition.fields.len();
    let (types, mut rest) = rest.split_at(count.div_ceil(8).min(rest.len()));
    let types = types.iter().flat_map(|word| word.to_le_bytes()).take(count);
    // A value of a later writer's type has an unknown length. So the values after it can't be
    // found.
    let mut are_found = true;
    let fields = types.map(|ty| {
        are_found &= matches!(ty, field::U64..=field::FORMATTED | field::ABSENT..=field::STACK);
        let value = if are_found { value(ty, &mut rest, stacks) } else { Some(FieldValue::Unknown) };
        value.unwrap_or(FieldValue::LeftOut)
    });
    (frame, fields.collect())
}

fn word(rest: &mut &[u64]) -> Option<u64> {
    take(rest).map(|[word]| word)
}

fn wide(rest: &mut &[u64]) -> Option<u128> {
    let low = word(rest)?;
    Some(u128::from(low) | u128::from(word(rest)?) << 64)
}

fn value(ty: u8, rest: &mut &[u64], stacks: &Stacks) -> Option<FieldValue> {
    Some(match ty {
        field::U64 => FieldValue::U64(word(rest)?),
        field::I64 => FieldValue::I64(word(rest)?.cast_signed()),
        field::U128 => FieldValue::U128(wide(rest)?),
        field::I128 => FieldValue::I128(wide(rest)?.cast_signed()),
        field::F64 => FieldValue::F64(f64::from_bits(word(rest)?)),
        field::BOOL => FieldValue::Bool(word(rest)? != 0),
        field::CHAR => {
            let letter = u32::try_from(word(rest)?).ok().and_then(char::from_u32);
            FieldValue::Char(letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        }
        field::STR => text(rest).map(|(text, cut)| FieldValue::Str { text, cut })?,
        field::FORMATTED => text(rest).map(|(text, cut)| FieldValue::Formatted { text, cut })?,
        field::BYTES => bytes(rest).map(|(bytes, cut)| FieldValue::Bytes { bytes, cut })?,
        field::OPAQUE => FieldValue::Opaque(text(rest)?.0),
        field::ABSENT => FieldValue::Absent,
        field::FAILED => FieldValue::Failed,
        field::UNREADABLE => FieldValue::Unreadable,
        field::LEFT_OUT => FieldValue::LeftOut,
        field::STACK => {
            stacks.get(&word(rest)?).map_or(FieldValue::Unknown, |it| FieldValue::Stack(Arc::clone(it)))
        }
        _ => FieldValue::Unknown,
    })
}

/// Returns the stored bytes, and the number of those that were cut off.
fn bytes(rest: &mut &[u64]) -> Option<(Vec<u8>, u32)> {
    let length = word(rest)?;
    let (stored, whole) = (length & u64::from(u32::MAX), length >> 32);
    let stored = usize::try_from(stored).ok()?;
    let words = rest.get(..stored.div_ceil(8))?;
    *rest = &rest[words.len()..];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(stored);
    Some((bytes, u32::try_from(whole.saturating_sub(stored as u64)).ok()?))
}

/// Returns the stored bytes as text, without a character that the cut has divided, and the number
/// of bytes that were cut off.
fn text(rest: &mut &[u64]) -> Option<(String, u32)> {
    let (bytes, cut) = bytes(rest)?;
    let end = match std::str::from_utf8(&bytes) {
        Err(error) if cut != 0 && error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    Some((String::from_utf8_lossy(&bytes[..end]).into_owned(), cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(probe: u32, path: &str) -> Vec<u8> {
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
        let block = [encoded(1, &fits), encoded(2, &one), encoded(3, &other), encoded(4, &one)];
        let mut read_back = HashMap::new();
        assert!(define(&block.concat(), &mut read_back));
        let path = |probe: u32| read_back[&probe].path.as_str();
        assert_eq!(path(1), fits);
        assert_eq!(path(2).len(), MAX_PATH_BYTES + "…".len() + 16);
        assert!(path(2).starts_with(&fits) && path(2) != path(3) && path(2) == path(4));
        assert_eq!((read_back[&2].line, &read_back[&2].fields[..]), (7, &["n".to_owned()][..]));
    }
}
