//! Notes, which lead to an object's tables.

use std::array;

use super::image::{Image, Problem};
use super::pages::{LE, NoteHeader, read};

/// Owner of the notes of probes.
const PROBE_OWNER: &[u8; 12] = b"LatentProbe\0";
/// Owner of the notes of runtimes.
const RUNTIME_OWNER: &[u8; 12] = b"LatentOwner\0";
/// Type of the note that leads to the function which starts an agent.
const ENTRY_NOTE: u32 = 2;
/// The bytes before that function, which is aligned to 16, and its first one: a jump.
const ENTRY_MARK: &[u8; 17] = b"LatentAgentEntry\xe9";
/// Bytes of code that are searched for the two.
const MAX_SEARCHED_CODE: u64 = 1 << 28;
/// The flag of a runtime with an agent.
const HAS_AGENT: u32 = 1;
/// Type of the notes of probes and of runtimes that this reader knows.
const KNOWN_NOTE: u32 = 1;
/// Bytes of the descriptor of a note of probes.
const DESCRIPTOR_LEN: u64 = 32;
/// Type of the GNU notes that tell builds apart.
const BUILD_ID_NOTE: u32 = 3;
/// Most bytes of notes: more than a million notes. A sparse file may claim any number.
const MAX_NOTE_BYTES: u64 = 1 << 26;
/// Most bytes of a build's id that are shown.
const MAX_BUILD_ID_LEN: u32 = 64;

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
    /// The first note of probes that this reader knows. All of them lead to the same tables.
    pub probes: Option<NoteAt>,
    /// A note of a later version.
    pub later: Option<u32>,
    /// The build's id.
    pub build_id: Option<Vec<u8>>,
}

/// A note, as its header describes it.
struct RawNote {
    kind: u32,
    /// Length and place of the name in the file.
    name: (usize, u64),
    /// Length of the descriptor, its place in the file, and its address.
    descriptor: u32,
    at: u64,
    addr: u64,
}

/// Reads the notes.
///
/// # Errors
/// If they are far too long, and the system's.
pub fn notes(image: &Image) -> Result<Notes, Problem> {
    let mut found = Notes::default();
    each_note(image, |note| {
        if has_name(image, note, PROBE_OWNER)? {
            match image.pages.bytes::<32>(note.at)? {
                Some(bytes) if note.kind == KNOWN_NOTE && u64::from(note.descriptor) >= DESCRIPTOR_LEN => {
                    let byte = |at: usize| move |byte: usize| bytes[8 * at + byte];
                    let offsets = array::from_fn(|at| i64::from_le_bytes(array::from_fn(byte(at))));
                    found.probes.get_or_insert(NoteAt { addr: note.addr, offsets });
                }
                _ if note.kind != KNOWN_NOTE => _ = found.later.get_or_insert(note.kind),
                _ => (),
            }
        } else if note.kind == BUILD_ID_NOTE && has_name(image, note, b"GNU\0")? {
            let mut id = vec![0; note.descriptor.min(MAX_BUILD_ID_LEN) as usize];
            if image.pages.fill(note.at, &mut id)? {
                found.build_id.get_or_insert(id);
            }
        }
        Ok(found.probes.is_none() || found.build_id.is_none())
    })?;
    Ok(found)
}

/// The runtime in a file: the part of an application that attaches to probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runtime {
    /// Whether it has the feature `agent`.
    pub has_agent: bool,
    /// The address of the function that starts the agent, if the program can do so.
    pub entry: Option<u64>,
}

impl Runtime {
    /// Returns the runtime of a file, if its notes tell of one.
    ///
    /// # Errors
    /// As those of [`notes`].
    pub fn of(image: &Image) -> Result<Option<Self>, Problem> {
        let (mut found, mut entry) = (None, None);
        each_note(image, |note| {
            if note.kind == KNOWN_NOTE && note.descriptor >= 4 && has_name(image, note, RUNTIME_OWNER)? {
                let flags = image.pages.bytes(note.at)?.map_or(0, u32::from_le_bytes);
                found = Some(flags & HAS_AGENT != 0);
            } else if note.kind == ENTRY_NOTE && note.descriptor >= 8 && has_name(image, note, RUNTIME_OWNER)?
            {
                let distance = image.pages.bytes(note.at)?.map_or(0, i64::from_le_bytes);
                let addr = note.addr.wrapping_add_signed(distance);
                entry = entry_of(image, addr)?;
            }
            Ok(found.is_none() || entry.is_none())
        })?;
        Ok(found.map(|has_agent| Self { has_agent, entry }))
    }
}

/// Returns the function that starts an agent: at this address, or if the note was moved, wherever
/// its mark is in the code.
fn entry_of(image: &Image, addr: u64) -> Result<Option<u64>, Problem> {
    let is_entry = |at: u64| Ok::<_, Problem>(image.is_code(at, 17) && image.bytes(at)? == Some(*ENTRY_MARK));
    let own = addr.wrapping_sub(16);
    if is_entry(own)? {
        return Ok(Some(addr));
    }
    let mut left = MAX_SEARCHED_CODE / 16;
    for text in image.code_ranges() {
        let mut at = text.start.next_multiple_of(16);
        while at < text.end && left > 0 {
            if is_entry(at)? {
                return Ok(Some(at + 16));
            }
            at += 16;
            left -= 1;
        }
    }
    Ok(None)
}

/// Calls `visit` for each note with a name of four or twelve bytes, until it returns `false`. Skips
/// notes that are not loaded, as the runtime does.
///
/// Looks at each multiple of four, and not from one note to the next: a linker may join notes of
/// different alignments, so that the length of the padding between them is unknown.
fn each_note(image: &Image, mut visit: impl FnMut(&RawNote) -> Result<bool, Problem>) -> Result<(), Problem> {
    let all = image.notes.iter().fold(0_u64, |sum, [_, _, size]| sum.saturating_add(*size));
    if all > MAX_NOTE_BYTES {
        return Err(Problem::Damaged(format!("its notes have {all} bytes, more than any program has")));
    }
    for &[offset, addr, size] in image.notes.iter().filter(|[_, addr, size]| image.is_mapped(*addr, *size)) {
        let mut at = 0;
        while size - at >= 12 {
            let Some(header) = read::<NoteHeader, 12>(&image.pages, offset + at)? else { break };
            let (name, descriptor) = (header.n_namesz.get(LE), header.n_descsz.get(LE));
            let body = at + 12 + u64::from(name);
            if (name == 4 || name == 12) && body + u64::from(descriptor) <= size {
                let (kind, name) = (header.n_type.get(LE).0, (name as usize, offset + at + 12));
                let (at, addr) = (offset + body, addr.wrapping_add(body));
                if !visit(&RawNote { kind, name, descriptor, at, addr })? {
                    return Ok(());
                }
            }
            at += 4;
            if at > size {
                break;
            }
        }
    }
    Ok(())
}

fn has_name<const N: usize>(image: &Image, note: &RawNote, name: &[u8; N]) -> Result<bool, Problem> {
    Ok(note.name.0 == N && image.pages.bytes(note.name.1)? == Some(*name))
}
