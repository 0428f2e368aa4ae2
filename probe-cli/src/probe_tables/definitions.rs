//! Definitions, and the probes that they make: definitions that agree in path, file, line, column
//! and kind are one probe.

use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use probe_core::abi::Convention;
use probe_core::{Kind, Type};
use rustc_hash::FxHashMap;

use super::object::Unread;
use super::probe::{FieldOf, Probe};
use super::records::Record;
use crate::elf::{Image, Pointer, Pointers, Problem};

/// Bytes of a definition.
pub(super) const DEFINITION_LEN: u64 = 192;
/// Offset of the text's address in a definition.
const TEXT_POINTER: u64 = 40;
/// Offset of the text in a definition that holds its text.
const TEXT_OFFSET: usize = 48;

pub(super) struct Definitions<'a> {
    pub(super) image: &'a Image,
    pub(super) pointers: &'a Pointers<'a>,
    /// Bytes of text that may still be read. In a damaged file, all definitions could share one
    /// long text.
    pub(super) text_budget: u64,
    /// The text of the last definition.
    pub(super) text: Vec<u8>,
    /// The source file of the last definition, which the next one shares as a rule.
    pub(super) file: Arc<str>,
}

impl Definitions<'_> {
    /// Reads the definition at an address. Notes why, and returns `None`, if it can't be read.
    pub(super) fn read(&mut self, at: u64, unread: &mut Unread) -> Result<Option<Probe>, Problem> {
        let Some(bytes) = self.image.bytes::<192>(at)? else { return Ok(None) };
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (version, size) = (short(16), short(18));
        if version != 1 || u64::from(size) != DEFINITION_LEN {
            unread.add(|| format!("the definition at {at:#x} has version {version} and {size} bytes"));
            return Ok(None);
        }
        let (kind, convention) = (bytes[20], short(22));
        let (Some(kind), Some(convention)) = (Kind::from_number(kind), Convention::from_number(convention))
        else {
            unread.add(|| {
                format!("the definition at {at:#x} has kind {kind} and convention {convention}, which are not known")
            });
            return Ok(None);
        };
        let lens = [32, 34, 36, 38].map(|at| usize::from(short(at)));
        let len = lens.iter().sum();
        if !self.read_text(at, &bytes[TEXT_OFFSET..], len)? {
            unread.add(|| {
                format!("the definition at {at:#x} has no text: {len} bytes that are not in the file")
            });
            return Ok(None);
        }
        let mut parts = self.text.as_slice();
        let [path, file, fields, notes] = lens.map(|len| {
            let (part, rest) = parts.split_at(len.min(parts.len()));
            parts = rest;
            utf8(part)
        });
        let note = |key: &str| {
            // Most definitions have none.
            if notes.is_empty() {
                return None;
            }
            let notes = notes.split_terminator('\n').filter_map(|note| note.split_once('='));
            notes.filter(|(known, _)| *known == key).map(|(_, value)| value.to_owned()).next()
        };
        let types = if fields.is_empty() { None } else { note("types") }.unwrap_or_default();
        let mut types = types.split(',').map(|number| Type::from_number(number.parse::<u32>().ok()?.into()));
        let fields = (!fields.is_empty()).then(|| fields.split_terminator('\n')).into_iter().flatten();
        let fields = fields.map(|name| FieldOf { name: name.to_owned(), ty: types.next().flatten() });
        if *self.file != *file {
            self.file = file.into();
        }
        Ok(Some(Probe {
            path: path.to_owned(),
            kind,
            file: Arc::clone(&self.file),
            line: long(24),
            column: long(28),
            fields: fields.collect(),
            group: note("group"),
            doc: note("doc"),
            skipped: note("skipped"),
            is_usdt: note("usdt").is_some(),
            convention,
            sites: Vec::new(),
        }))
    }

    /// Reads the text of the definition at `at`, which follows the definition's head, or is where
    /// its pointer leads. Returns whether the file has the text.
    fn read_text(&mut self, at: u64, inside: &[u8], len: usize) -> Result<bool, Problem> {
        let left = self.text_budget.checked_sub(len as u64);
        self.text_budget = left.ok_or_else(|| {
            let problem = "its definitions have far more text than the file: they share it".to_owned();
            Problem::Damaged(problem)
        })?;
        match self.pointers.at(at + TEXT_POINTER)? {
            None => {
                let inside = inside.get(..len);
                self.text.clear();
                self.text.extend_from_slice(inside.unwrap_or_default());
                Ok(inside.is_some())
            }
            Some(Pointer::Here(addr)) => self.image.read_into(addr, len, &mut self.text),
            Some(Pointer::Elsewhere(_)) => Ok(false),
        }
    }
}

/// Returns the text up to the first byte that is not UTF-8, as the runtime does.
fn utf8(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// The probes, and the definitions that belong to each.
#[derive(Default)]
pub(super) struct ProbeGroups {
    pub(super) probes: Vec<Probe>,
    /// Indices of probes, by the numbers of their definitions in the table.
    places: Vec<Option<u32>>,
    /// Hashes identities with a random key, so that no file can make them collide.
    hashes: RandomState,
    /// The index of the last probe with a hash of its identity, and by index, that of the one
    /// before with the same hash.
    known: FxHashMap<u64, u32>,
    same_hash: Vec<Option<u32>>,
    /// Types of fields according to their sites, by probe and field: `None` where sites disagree.
    types: FxHashMap<(u32, u8), Option<Type>>,
}

impl ProbeGroups {
    /// Adds the next definition of the table.
    pub(super) fn add(&mut self, probe: Option<Probe>) {
        let place = probe.map(|probe| self.place(probe));
        self.places.push(place);
    }

    fn place(&mut self, probe: Probe) -> u32 {
        // A table has at most 1 GiB, so the number of definitions fits.
        let place = u32::try_from(self.probes.len()).unwrap_or(u32::MAX);
        let next = match self.known.entry(self.hash(&probe)) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                None
            }
            Entry::Occupied(mut entry) => {
                let mut same_hash = Some(*entry.get());
                while let Some(other) = same_hash {
                    if identity(&self.probes[other as usize]) == identity(&probe) {
                        return other;
                    }
                    same_hash = self.same_hash[other as usize];
                }
                Some(entry.insert(place))
            }
        };
        self.same_hash.push(next);
        self.probes.push(probe);
        place
    }

    /// Hashes an identity by few calls of the hasher, which take longer than its short texts.
    fn hash(&self, probe: &Probe) -> u64 {
        let (path, file, line, column, kind) = identity(probe);
        let mut hasher = self.hashes.build_hasher();
        hasher.write(path.as_bytes());
        hasher.write(file.as_bytes());
        hasher.write_u64(u64::from(line) << 32 | u64::from(column));
        hasher.write_u64((path.len() as u64) << 8 | u64::from(kind));
        hasher.finish()
    }

    /// Adds a record of the definition with this number. Returns whether there is such a
    /// definition.
    pub(super) fn note(&mut self, definition: usize, record: Record) -> bool {
        let Some(Some(place)) = self.places.get(definition).copied() else { return false };
        match record {
            Record::Site(site) => {
                let sites = &mut self.probes[place as usize].sites;
                // Most probes have one site.
                if sites.is_empty() {
                    sites.reserve_exact(1);
                }
                sites.push(site);
            }
            // A panic leaves the result out, which tells nothing of its type.
            Record::Type(_, Some(Type::Absent)) => (),
            Record::Type(field, ty) => match self.types.entry((place, field)) {
                Entry::Vacant(entry) => _ = entry.insert(ty),
                Entry::Occupied(mut entry) if *entry.get() != ty => _ = entry.insert(None),
                Entry::Occupied(_) => (),
            },
        }
        true
    }

    /// Returns the probes, with their fields' types.
    pub(super) fn finish(mut self) -> Vec<Probe> {
        for ((place, field), ty) in self.types {
            let fields = &mut self.probes[place as usize].fields;
            if let Some(field) = fields.get_mut(usize::from(field)) {
                field.ty = field.ty.or(ty);
            }
        }
        self.probes
    }
}

fn identity(probe: &Probe) -> (&str, &str, u32, u32, u8) {
    (&probe.path, &probe.file, probe.line, probe.column, probe.kind as u8)
}
