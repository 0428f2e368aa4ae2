//! Notes, which lead to an object's tables.

use super::error::Problem;
use super::image::Image;

/// Owner of the notes of probes.
const OWNER: &[u8; 12] = b"LatentProbe\0";
/// Type of those that this reader knows.
const KNOWN: u32 = 1;
/// Bytes of their descriptor.
const DESCRIPTOR: u64 = 32;
/// Type of the GNU notes that tell builds apart.
const BUILD_ID: u32 = 3;
/// Bytes of all notes that are read: more than a million notes. A sparse file may claim any number.
const LONGEST: u64 = 1 << 26;
/// Longest id of a build that is shown.
const LONGEST_ID: u32 = 64;

/// The descriptor of a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoteAt {
    /// Its address.
    pub addr: u64,
    /// Its four offsets, each from its own address.
    pub offsets: [i64; 4],
}

/// The notes of a file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Notes {
    /// The first note of probes that this reader knows; all of them say the same.
    pub probes: Option<NoteAt>,
    /// A note of a later version.
    pub later: Option<u32>,
    /// The build's id.
    pub build_id: Option<Vec<u8>>,
}

/// Reads the notes. Stops where one is damaged: the next one can't be found.
///
/// # Errors
/// If they are far too long, and the system's.
pub fn notes(image: &Image) -> Result<Notes, Problem> {
    let mut found = Notes::default();
    let all = image.notes.iter().fold(0_u64, |sum, [_, _, size, _]| sum.saturating_add(*size));
    if all > LONGEST {
        return Err(Problem::Damaged(format!("its notes have {all} bytes, more than any program has")));
    }
    for &[offset, addr, size, align] in &image.notes {
        let align = if align == 8 { 8 } else { 4 };
        let mut at = 0;
        while let Some(next) = note(image, [offset, addr, size], at, align, &mut found)? {
            if found.probes.is_some() && found.build_id.is_some() {
                return Ok(found);
            }
            at = next;
        }
    }
    Ok(found)
}

/// Reads the note at a place of its segment; returns the place of the next one.
fn note(
    image: &Image,
    [offset, addr, size]: [u64; 3],
    at: u64,
    align: u64,
    found: &mut Notes,
) -> Result<Option<u64>, Problem> {
    if size - at < 12 {
        return Ok(None);
    }
    let Some(head) = image.pages.bytes::<12>(offset + at)? else { return Ok(None) };
    let [name, descriptor, kind] = [0, 4, 8].map(|at| word(&head, at));
    let body = at + 12 + u64::from(name).next_multiple_of(align.min(4));
    let body = body.next_multiple_of(align);
    let end = body + u64::from(descriptor);
    if end > size {
        return Ok(None);
    }
    if name == 12 && image.pages.bytes(offset + at + 12)? == Some(*OWNER) {
        match image.pages.bytes::<32>(offset + body)? {
            Some(bytes) if kind == KNOWN && u64::from(descriptor) >= DESCRIPTOR => {
                let offsets = [0, 8, 16, 24].map(|at| long(&bytes, at));
                found.probes.get_or_insert(NoteAt { addr: addr.wrapping_add(body), offsets });
            }
            _ if kind != KNOWN => _ = found.later.get_or_insert(kind),
            _ => (),
        }
    } else if name == 4 && kind == BUILD_ID && image.pages.bytes(offset + at + 12)? == Some(*b"GNU\0") {
        let mut id = vec![0; descriptor.min(LONGEST_ID) as usize];
        if image.pages.fill(offset + body, &mut id)? {
            found.build_id.get_or_insert(id);
        }
    }
    let next = end.next_multiple_of(align);
    Ok((next <= size).then_some(next))
}

/// Returns the number of four bytes at a place.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> i64 {
    bytes.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, i64::from_le_bytes)
}
