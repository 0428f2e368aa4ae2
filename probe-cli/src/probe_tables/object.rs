//! The tables of one file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use probe_core::abi::noted::Noted;

use super::definitions::{DEFINITION_LEN, Definitions, ProbeGroups};
use super::probe::Probe;
use super::records::Records;
use crate::elf::{Dynamic, ElfError, Image, NoteAt, ObjectType, Problem, left_by_bolt, notes};
use crate::text::{count, hex};

/// Most bytes of a table: five million definitions. No program has more, and a sparse file may
/// claim any number.
const MAX_TABLE_LEN: u64 = 1 << 30;
/// How often each byte of the file may be read as text of definitions, on average. An entry and its
/// exit share their text, as do copies of a definition.
const MAX_TEXT_SHARING: u64 = 16;
/// Bytes of text that even a small file may have.
const MIN_TEXT_BUDGET: u64 = 1 << 17;

/// The probes of one file.
#[derive(Debug)]
pub struct ObjectProbes {
    /// The file.
    pub name: String,
    /// The loader's view of the file.
    pub object_type: ObjectType,
    /// The build's id, in hexadecimal.
    pub build_id: Option<String>,
    /// The probes, in the order of the table.
    pub probes: Vec<Probe>,
    /// Number of sites.
    pub sites: u64,
    /// Unreadable parts.
    pub unread: Unread,
    /// Symbols of other objects whose probes have sites here, with the number of sites.
    pub elsewhere: BTreeMap<String, u64>,
    /// The type of a note that a later version wrote.
    pub later: Option<u32>,
}

/// Reads a file's probes, which may be none.
///
/// # Errors
/// If the file can't be read, is no executable or shared object of x86-64 Linux, or its headers are
/// damaged.
pub fn read(path: &Path) -> Result<ObjectProbes, ElfError> {
    ObjectProbes::of(&Image::open(path)?)
}

impl ObjectProbes {
    /// Reads the probes of an open file.
    ///
    /// # Errors
    /// As those of [`read`].
    pub fn of(image: &Image) -> Result<Self, ElfError> {
        Self::parse(image).map_err(|problem| image.error(problem))
    }

    fn parse(image: &Image) -> Result<Self, Problem> {
        let notes = notes(image)?;
        let mut object = Self {
            name: image.name().to_owned(),
            object_type: image.object_type(),
            build_id: notes.build_id.map(|id| hex(&id).replace(' ', "")),
            probes: Vec::new(),
            sites: 0,
            unread: Unread::default(),
            elsewhere: BTreeMap::new(),
            later: notes.later,
        };
        if let Some(note) = notes.probes {
            object.read_tables(image, note)?;
        }
        object.sites = object.probes.iter().map(|probe| probe.sites.len() as u64).sum();
        object.doubt_moved_code(image)?;
        Ok(object)
    }

    /// Adds the sites in code that a tool has moved without its tables.
    fn doubt_moved_code(&mut self, image: &Image) -> Result<(), Problem> {
        if self.sites == 0 {
            return Ok(());
        }
        let Some(left) = left_by_bolt(image)? else { return Ok(()) };
        let sites = self.probes.iter().flat_map(|probe| &probe.sites);
        let left = sites.filter(|site| left.contains(&site.addr)).count() as u64;
        if left != 0 {
            self.unread.add(|| {
                let are = if left == 1 { "is" } else { "are" };
                format!(
                    "{} {are} in code that BOLT has left behind, which is never executed: use the file from \
                     before BOLT",
                    count(left, "site")
                )
            });
        }
        Ok(())
    }

    fn read_tables(&mut self, image: &Image, note: NoteAt) -> Result<(), Problem> {
        // If neither place has sound tables, they are read where the note leads.
        let noted = Noted::find(note.addr, note.offsets, image);
        let noted = noted.unwrap_or_else(|| Noted::own(note.addr, note.offsets));
        let records = table(image, note, noted.records, "records")?;
        let definitions = table(image, note, noted.definitions, "definitions")?;
        let pointers = Dynamic::read(image, 0)?.pointers(&definitions)?;
        let mut groups = ProbeGroups::default();
        let text_budget = image.length().saturating_mul(MAX_TEXT_SHARING).saturating_add(MIN_TEXT_BUDGET);
        let mut reader =
            Definitions { image, pointers: &pointers, text_budget, text: Vec::new(), file: Arc::default() };
        let many = (definitions.end - definitions.start) / DEFINITION_LEN;
        for number in 0..many {
            let at = definitions.start + number * DEFINITION_LEN;
            groups.add(reader.read(at, &mut self.unread)?);
        }
        let mut reader =
            Records { image, pointers: &pointers, unread: &mut self.unread, elsewhere: &mut self.elsewhere };
        reader.read(records.start, records.end, &mut |at, record, definition, unread| {
            let offset = definition.wrapping_sub(definitions.start);
            let number = usize::try_from(offset / DEFINITION_LEN).unwrap_or(usize::MAX);
            if offset % DEFINITION_LEN != 0 || !groups.note(number, record) {
                unread.add(|| {
                    format!(
                        "the record at {at:#x} leads to {definition:#x}, which is no definition of its table"
                    )
                });
            }
        })?;
        self.probes = groups.finish();
        Ok(())
    }
}

/// Checks the addresses of a table.
fn table(image: &Image, note: NoteAt, table: Range<u64>, what: &str) -> Result<Range<u64>, Problem> {
    let Range { start, end: stop } = table;
    // A table that the linker has dropped has equal ends, which may be anywhere.
    if start == stop {
        return Ok(0..0);
    }
    let damaged = |why: &str| {
        let at = note.addr;
        let problem =
            format!("its note at {at:#x} says that its {what} are at {start:#x} to {stop:#x}, {why}");
        Err(Problem::Damaged(problem))
    };
    match stop.checked_sub(start) {
        None => damaged("backwards"),
        Some(len) if len > MAX_TABLE_LEN => damaged("more than any program has"),
        Some(len) if !image.is_mapped(start, len) => damaged("which is not in the file"),
        Some(_) => Ok(start..stop),
    }
}

/// Most descriptions that are kept. The others are counted.
const MAX_SHOWN: usize = 100;

/// Parts of the tables that could not be read, and why.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Unread {
    /// The first parts, each with its address.
    pub shown: Vec<String>,
    /// The number of all parts.
    pub count: u64,
}

impl Unread {
    /// Adds a part. Its description is made only if it is kept.
    pub(super) fn add(&mut self, describe: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < MAX_SHOWN {
            self.shown.push(describe());
        }
    }
}
