//! Definitions: one for each probe.

use std::sync::Arc;

use probe_runtime::abi::Convention;
use probe_runtime::{Kind, Type};

use super::probe::{FieldOf, Probe};
use super::unread::Unread;
use crate::elf::{Image, Pointer, Pointers, Problem};

/// Bytes of a definition.
pub(super) const LEN: u64 = 192;
/// The place of the text's address in it.
const LONG: u64 = 40;
/// The place of the text in it.
const TEXT: usize = 48;

pub(super) struct Definitions<'a> {
    pub(super) image: &'a Image,
    pub(super) pointers: &'a Pointers<'a>,
    /// Bytes of text that may yet be read. In a damaged file, all definitions could share one long
    /// text.
    pub(super) room: u64,
    /// The text of the last definition.
    pub(super) text: Vec<u8>,
    /// Its source file, which most definitions share with the last one.
    pub(super) file: Arc<str>,
}

impl Definitions<'_> {
    /// Reads the definition at an address. `Ok(None)` if it can't be read, which is noted.
    pub(super) fn read(&mut self, at: u64, unread: &mut Unread) -> Result<Option<Probe>, Problem> {
        let Some(bytes) = self.image.bytes::<192>(at)? else { return Ok(None) };
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (version, size) = (short(16), short(18));
        if version != 1 || u64::from(size) != LEN {
            unread.add(|| format!("the definition at {at:#x} has version {version} and {size} bytes"));
            return Ok(None);
        }
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == bytes[20]);
        let convention = Convention::ALL.into_iter().find(|it| *it as u16 == short(22));
        let (Some(kind), Some(convention)) = (kind, convention) else {
            let (kind, convention) = (bytes[20], short(22));
            unread.add(|| {
                format!("the definition at {at:#x} has kind {kind} and convention {convention}, which are not known")
            });
            return Ok(None);
        };
        let lens = [32, 34, 36, 38].map(|at| usize::from(short(at)));
        let len = lens.iter().sum();
        if !self.read_text(at, &bytes[TEXT..], len)? {
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
            // Most have none.
            if notes.is_empty() {
                return None;
            }
            let notes = notes.split_terminator('\n').filter_map(|note| note.split_once('='));
            notes.filter(|(known, _)| *known == key).map(|(_, value)| value.to_owned()).next()
        };
        let types = if fields.is_empty() { None } else { note("types") }.unwrap_or_default();
        let mut types = types.split(',').map(|number| {
            let number: u32 = number.parse().ok()?;
            Type::ALL.into_iter().find(|ty| *ty as u32 == number)
        });
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

    /// Reads the text of the definition at `at`, which it holds, or which its pointer leads to.
    /// Returns whether it is in the file.
    fn read_text(&mut self, at: u64, inside: &[u8], len: usize) -> Result<bool, Problem> {
        let left = self.room.checked_sub(len as u64);
        self.room = left.ok_or_else(|| {
            let problem = "its definitions have far more text than the file: they share it".to_owned();
            Problem::Damaged(problem)
        })?;
        match self.pointers.at(at + LONG)? {
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
