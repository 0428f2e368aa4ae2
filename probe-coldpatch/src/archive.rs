//! Archives of object files. Members keep their order and their headers but for lengths; the index
//! of symbols keeps its names, and gets the members' new places.

use std::collections::{BTreeMap, HashMap};

use crate::error::Error;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_LEN: usize = 60;
/// The place of a member's length in its header.
const LENGTH: std::ops::Range<usize> = 48..58;

/// A member of an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member<'a> {
    /// Its name, as far as the header has it.
    pub name: String,
    /// The place of its header in the archive.
    at: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl Member<'_> {
    /// Returns whether it is the index of symbols or the table of names.
    fn is_table(&self) -> bool {
        ["/", "//", "/SYM64/"].contains(&&*self.name)
    }
}

/// Returns whether this is an archive.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(b"!<thin>\n")
}

/// Returns the members of an archive, with its index and its table of names.
///
/// # Errors
/// If it is damaged, or of another kind than binutils and LLVM make for Linux.
pub fn members(bytes: &[u8]) -> Result<Vec<Member<'_>>, Error> {
    if !bytes.starts_with(MAGIC) {
        return Err(Error::unsuitable("is a thin archive, which has no members: coldpatch its object files"));
    }
    let mut members = Vec::new();
    let mut at = MAGIC.len();
    while at < bytes.len() {
        let cut = || Error::damaged(format_args!("its member at {at} is not whole: it was cut off"));
        let header = bytes.get(at..at + HEADER_LEN).filter(|it| it.ends_with(b"`\n")).ok_or_else(cut)?;
        let text = |range| std::str::from_utf8(&header[range]).map(str::trim_end).unwrap_or_default();
        let (name, length) = (text(0..16), text(LENGTH).parse::<usize>().map_err(|_| cut())?);
        if name.starts_with("#1/") || name.starts_with("__.SYMDEF") {
            return Err(Error::unsuitable("is an archive of another system"));
        }
        let start = at + HEADER_LEN;
        let end = start.checked_add(length).ok_or_else(cut)?;
        let content = bytes.get(start..end).ok_or_else(cut)?;
        members.push(Member { name: name.to_owned(), at, bytes: content });
        at = end.next_multiple_of(2);
    }
    Ok(members)
}

/// Returns the archive with other bytes for some members, by their numbers.
///
/// # Errors
/// If its index is damaged, or a member is too long.
pub fn with_members(
    members: &[Member<'_>],
    bytes: &[u8],
    new: &BTreeMap<usize, Vec<u8>>,
) -> Result<Vec<u8>, Error> {
    let mut out = MAGIC.to_vec();
    let mut places = HashMap::new();
    let mut indices = Vec::new();
    for (number, member) in members.iter().enumerate() {
        places.insert(member.at, out.len());
        let content = new.get(&number).map_or(member.bytes, Vec::as_slice);
        let mut header = bytes.get(member.at..member.at + HEADER_LEN).unwrap_or_default().to_vec();
        let length = format!("{:<10}", content.len());
        if length.len() > LENGTH.len() || header.len() != HEADER_LEN {
            return Err(Error::unsuitable("has a member that is too long"));
        }
        header[LENGTH].copy_from_slice(length.as_bytes());
        out.extend(header);
        if member.is_table() && member.name != "//" {
            indices.push((out.len(), member));
        }
        out.extend_from_slice(content);
        if out.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    for (at, member) in indices {
        renew_index(&mut out[at..at + member.bytes.len()], member.name == "/SYM64/", &places)?;
    }
    Ok(out)
}

/// Writes members' new places into an index: big-endian numbers, first how many there are.
fn renew_index(index: &mut [u8], is_wide: bool, places: &HashMap<usize, usize>) -> Result<(), Error> {
    let damaged = || Error::damaged("its index of symbols leads to no member");
    let len = if is_wide { 8 } else { 4 };
    let read = |bytes: &[u8]| bytes.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
    let mut fields = index.chunks_exact_mut(len);
    let many = fields.next().map(|it| read(it)).ok_or_else(damaged)?;
    let mut done = 0;
    for field in fields.take(many) {
        let place = *places.get(&read(field)).ok_or_else(damaged)?;
        let bytes = (place as u64).to_be_bytes();
        if bytes[..8 - len].iter().any(|byte| *byte != 0) {
            return Err(Error::unsuitable("would be too long for its index of symbols"));
        }
        field.copy_from_slice(&bytes[8 - len..]);
        done += 1;
    }
    if done == many { Ok(()) } else { Err(damaged()) }
}
