//! Reading one object's tables: its definitions and its sites.
//!
//! A damaged record is counted and skipped. A record with a damaged size ends its table. A site or
//! target outside of the object's text is never patched or jumped to.
//!
//! While another thread loads an object, the registry may see it before the dynamic linker has
//! filled in its addresses (pointers of a linkage table, a definition's long text). The reader
//! follows such an address only if it leads into an object that has probes. It skips any other
//! address and remembers it as [`UnresolvedPointer`]. Once such an address has changed, the object
//! is read again.

// Safety: relies on the object's segments, as the dynamic linker states them: every address is
// checked against them before it is read; and on `Frozen`: no thread unloads an object while tables
// are borrowed.
#![expect(unsafe_code, reason = "see above")]

use std::cell::RefCell;
use std::ops::Range;
use std::{ptr, slice};

use crate::engine::entry::backend::stub::{self, StubCode};
use crate::engine::os::objects::{Frozen, Object, Segment};
use crate::engine::sites::{Instruction, Rel32, SITE_LEN, Site, SiteAddr};
use probe_core::abi::noted::{Memory, Noted};
use probe_core::abi::{Definition, FIELD_TYPE, FieldRecord, Note, Record, SITE_CALL, SITE_JUMP, VERSION};

/// The tables of one object.
pub(super) struct Tables<'a> {
    object: &'a Object,
    /// All objects that have probes.
    all: &'a [Object],
    /// Its first segment of text, where most of its sites, cold blocks and stubs are.
    text: Range<usize>,
    records: Range<usize>,
    definitions: Range<usize>,
    unresolved: RefCell<Vec<UnresolvedPointer>>,
}

/// A pointer that led nowhere when the reader followed it, with its value at that time. Either the
/// dynamic linker has yet to fill it in, or it is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnresolvedPointer {
    at: usize,
    found: usize,
}

impl UnresolvedPointer {
    #[cfg(test)]
    pub(super) const UNKNOWN: Self = Self { at: 0, found: 0 };

    /// Returns whether the pointer has changed. Call this only in the generation that noted it.
    pub(super) fn has_changed(&self, _frozen: &Frozen) -> bool {
        // SAFETY: within an object that was loaded when this was noted. The generation says that no
        // object was unloaded since, and none can be while `_frozen` lives.
        self.found != unsafe { ptr::read_unaligned(self.at as *const usize) }
    }
}

impl Memory for Object {
    /// Reads as little as a reader of tables does: the object's other threads may write to the
    /// rest.
    fn bytes<const N: usize>(&self, addr: u64) -> Option<[u8; N]> {
        let addr = usize::try_from(addr).ok()?;
        let is_filled = |it: &Segment| lies_in(&(addr..addr.wrapping_add(N)), &(it.range.start..it.filled));
        // SAFETY: the bytes lie within a segment of the object, which can't be unloaded.
        self.segments.iter().any(is_filled).then(|| unsafe { ptr::read_volatile(addr as *const [u8; N]) })
    }

    fn segments(&self, is_data: bool) -> impl Iterator<Item = Range<u64>> {
        let some = self.segments.iter().filter(move |it| it.is_data == is_data);
        some.map(|it| it.range.start as u64..it.filled as u64)
    }
}

pub(super) enum TableRecord {
    Site(Site),
    Type(FieldRecord),
}

impl<'a> Tables<'a> {
    /// Returns the tables that the object's notes point at; all its notes point at the same ones.
    /// They are read while `_frozen` lives.
    pub(super) fn of(_frozen: &'a Frozen, object: &'a Object, all: &'a [Object]) -> Option<Self> {
        object.notes.iter().find_map(|note| Self::at(object, all, note.clone()))
    }

    fn at(object: &'a Object, all: &'a [Object], note: Range<usize>) -> Option<Self> {
        if note.len() < size_of::<Note>() {
            return None;
        }
        // SAFETY: the descriptor lies wholly in a segment; a note is aligned to 4 only.
        let offsets = unsafe { ptr::read_unaligned(note.start as *const Note) };
        let Note { records_start, records_stop, definitions_start, definitions_stop } = offsets;
        let offsets = [records_start, records_stop, definitions_start, definitions_stop];
        let noted = Noted::find(note.start as u64, offsets, object)?;
        let table = |range: Range<u64>| -> Option<Range<usize>> {
            let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
            Some(if range.is_empty() || !is_mapped(object, &range) { 0..0 } else { range })
        };
        Some(Self {
            object,
            all,
            text: object.segments.iter().find(|it| it.is_text).map_or(0..0, |it| it.range.clone()),
            unresolved: RefCell::default(),
            records: table(noted.records)?,
            definitions: table(noted.definitions)?,
        })
    }

    /// Returns whether these are the executable's tables.
    pub(super) fn is_main(&self) -> bool {
        self.object.is_main
    }

    /// Returns the address at which the object was loaded.
    #[cfg(probe_values)]
    pub(super) fn base(&self) -> usize {
        self.object.base
    }

    /// Returns the pointers that led nowhere. The executable has none, since all its addresses were
    /// filled in before it began; those of other objects may yet be filled in.
    pub(super) fn unresolved(&self) -> Vec<UnresolvedPointer> {
        if self.is_main() { Vec::new() } else { self.unresolved.take() }
    }

    /// Returns whether a definition and its text can be read.
    pub(super) fn is_readable(&self, definition: &Definition) -> bool {
        let lost = definition
            .text_elsewhere()
            .filter(|text| text.is_empty() || !self.all.iter().any(|object| is_mapped(object, text)));
        if let Some(text) = &lost {
            self.add_unresolved(definition.text_pointer(), text.start);
        }
        lost.is_none() && definition.is_readable()
    }

    /// Returns an upper bound of the number of records.
    pub(super) fn capacity(&self) -> usize {
        self.records.len() / size_of::<Record>()
    }

    pub(super) fn definition_range(&self) -> Range<usize> {
        self.definitions.clone()
    }

    /// Returns all definitions, readable or not, in the order of their addresses. Reads none of
    /// them, since most are never needed.
    pub(super) fn definitions(&self) -> &'a [Definition] {
        // SAFETY: the object stays loaded while `'a` lasts: `of` has been given the proof.
        unsafe { self.all_definitions() }
    }

    /// Returns the same of the executable, which is never unloaded.
    pub(super) fn definitions_for_good(&self) -> Option<&'static [Definition]> {
        // SAFETY: the executable stays loaded.
        self.is_main().then(|| unsafe { self.all_definitions() })
    }

    /// # Safety
    /// The object stays loaded while `'b` lasts.
    unsafe fn all_definitions<'b>(&self) -> &'b [Definition] {
        let start = self.definitions.start as *const Definition;
        let len = if start.is_aligned() { self.definitions.len() / size_of::<Definition>() } else { 0 };
        // SAFETY: the range is mapped: the caller's promise. Every bit pattern of it is a
        // `Definition` as far as `is_readable` looks.
        unsafe { slice::from_raw_parts(if len == 0 { ptr::dangling() } else { start }, len) }
    }

    /// Calls `each` for every record that this reader understands, with the address of its
    /// definition. Returns the number of site records that it could not read.
    pub(super) fn for_each_record(&self, mut each: impl FnMut(TableRecord, usize)) -> usize {
        let (mut at, mut skipped) = (self.records.start, 0);
        while at + size_of::<[u8; 4]>() <= self.records.end {
            // SAFETY: within the mapped table.
            let [version, size, form, _] = unsafe { ptr::read_unaligned(at as *const [u8; 4]) };
            let size = usize::from(size);
            if size < 4 || at + size > self.records.end {
                // Without a size, the next record can't be found.
                return skipped + 1;
            }
            let is_known = u16::from(version) == VERSION;
            let is_type = is_known && form == FIELD_TYPE && size >= size_of::<FieldRecord>();
            // The record's content, and the stub of its probe.
            let said = match form {
                SITE_JUMP | SITE_CALL if is_known && size >= size_of::<Record>() => {
                    // SAFETY: within the mapped table.
                    let record = unsafe { ptr::read_unaligned(at as *const Record) };
                    self.site(&record, at)
                        .map(|site| (TableRecord::Site(site), relative(at + 12, record.stub)))
                }
                FIELD_TYPE if is_type => {
                    // SAFETY: within the mapped table.
                    let record = unsafe { ptr::read_unaligned(at as *const FieldRecord) };
                    Some((TableRecord::Type(record), relative(at + 8, record.stub)))
                }
                _ => None,
            };
            let found = said.and_then(|(entry, stub)| Some((entry, self.definition_of(stub)?)));
            match found {
                Some((entry, definition)) => each(entry, definition),
                None => skipped += usize::from(!is_type),
            }
            at += size;
        }
        skipped
    }

    /// Returns the site of the record at `at`, if it lies in text.
    #[inline]
    fn site(&self, record: &Record, at: usize) -> Option<Site> {
        let addr = SiteAddr(relative(at + 4, record.site));
        let target = relative(at + 8, record.target);
        let is_sound = self.is_text(&(addr.word()..addr.0.wrapping_add(SITE_LEN)))
            && self.is_text(&(target..target.wrapping_add(1)));
        let rel = Rel32::between(addr, target).filter(|_| is_sound)?;
        let active = if record.form == SITE_CALL { Instruction::call(rel) } else { Instruction::jmp(rel) };
        Some(Site::new(addr, active))
    }

    /// Returns the definition that the stub at `addr` names, directly or through a linkage table.
    #[inline]
    fn definition_of(&self, addr: usize) -> Option<usize> {
        if !self.is_text(&stub_at(addr)) {
            return None;
        }
        // SAFETY: in the text of this object.
        match stub::decode(addr, unsafe { slice::from_raw_parts(addr as *const u8, stub::STUB_LEN) })? {
            StubCode::Definition(definition) => Some(definition),
            StubCode::Plt(pointer) => self.definition_behind(pointer),
        }
    }

    /// Returns the definition named by the stub that this pointer of a linkage table leads to.
    #[cold]
    fn definition_behind(&self, pointer: usize) -> Option<usize> {
        if !is_mapped(self.object, &(pointer..pointer.wrapping_add(8))) {
            return None;
        }
        // SAFETY: mapped; the dynamic linker's pointer.
        let addr = unsafe { ptr::read_unaligned(pointer as *const usize) };
        if !self.all.iter().any(|object| is_text(object, &stub_at(addr))) {
            self.add_unresolved(pointer, addr);
            return None;
        }
        // SAFETY: in the text of the object that the pointer leads to.
        match stub::decode(addr, unsafe { slice::from_raw_parts(addr as *const u8, stub::STUB_LEN) })? {
            StubCode::Definition(definition) => Some(definition),
            StubCode::Plt(_) => None,
        }
    }

    fn add_unresolved(&self, at: usize, found: usize) {
        let mut unresolved = self.unresolved.borrow_mut();
        // Neighbouring records share a pointer.
        if unresolved.last().is_none_or(|last| last.at != at) {
            unresolved.push(UnresolvedPointer { at, found });
        }
    }

    #[inline]
    fn is_text(&self, bytes: &Range<usize>) -> bool {
        lies_in(bytes, &self.text) || is_text(self.object, bytes)
    }
}

fn is_text(object: &Object, bytes: &Range<usize>) -> bool {
    object.segments.iter().any(|segment| segment.is_text && lies_in(bytes, &segment.range))
}

fn is_mapped(object: &Object, bytes: &Range<usize>) -> bool {
    object.segments.iter().any(|segment| lies_in(bytes, &segment.range))
}

/// Returns whether these bytes lie in a segment. A pointer may lead anywhere, even so near to the
/// end of the address space that the range wraps.
#[inline]
fn lies_in(bytes: &Range<usize>, segment: &Range<usize>) -> bool {
    segment.start <= bytes.start && bytes.start <= bytes.end && bytes.end <= segment.end
}

fn stub_at(addr: usize) -> Range<usize> {
    addr..addr.wrapping_add(stub::STUB_LEN)
}

fn relative(field: usize, offset: i32) -> usize {
    field.wrapping_add_signed(offset as isize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_go_on_at_the_beginning_lie_nowhere() {
        let segment = 0x1000..0x2000;
        for (start, len, expected) in [
            (0x1000, 0x1000, true),
            (0x1ff8, 8, true),
            (0x1ff8, 9, false),
            (0xfff, 2, false),
            (usize::MAX - 3, 10, false),
            (usize::MAX, 1, false),
        ] {
            let bytes = start..usize::wrapping_add(start, len);
            assert_eq!(lies_in(&bytes, &segment), expected, "{bytes:x?}");
        }
    }
}
