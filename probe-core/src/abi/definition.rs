//! The definition: one for each probe in the source, shared by all its sites.
//!
//! Life cycle: the compiler builds it; the linker collects it in the section of a `linkme` slice,
//! so it exists even if every site was optimised away; the runtime does not touch it until probes
//! are listed. Its text lies inside it, so it needs no relocation.
//!
//! Cost: 192 bytes in the file and in the address space; none of it is read before the first use.

// Safety: relies on definitions being built only by `Definition::new`, which keeps the parts'
// lengths within the text and cuts the text at the borders of the `str`s that it was given.
#![expect(unsafe_code, reason = "see above")]

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicPtr, Ordering};
use core::{fmt, ptr, slice, str};

use super::kind::{Convention, Kind};
use super::value::Type;
use core::str::SplitTerminator;

/// Bytes of text that fit into the definition. A longer text lies outside of it and costs one
/// relocation.
pub const INLINE_TEXT: usize = 144;

/// A probe in the source: its name, its place, and its consumers' hook.
///
/// The first two words are all that a hit reads. `entry` is the code that an active site calls
/// (with the definition in `rdi`, see `docs/abi.md`); it is set before the first site becomes
/// active and is never cleared. `hook` belongs to the runtime that owns `entry`.
#[repr(C, align(64))]
pub struct Definition {
    entry: AtomicPtr<()>,
    hook: AtomicPtr<()>,
    version: u16,
    size: u16,
    kind: u8,
    field_count: u8,
    convention: u16,
    line: u32,
    column: u32,
    path_len: u16,
    file_len: u16,
    fields_len: u16,
    notes_len: u16,
    long: *const u8,
    text: [u8; INLINE_TEXT],
}

/// Offset of the number of fields, for code that reads it by itself.
#[cfg(all(feature = "std", probe_backend = "patched"))]
pub const FIELD_COUNT: usize = offset_of!(Definition, field_count);

const _: () = {
    assert!(size_of::<Definition>() == 192);
    assert!(offset_of!(Definition, entry) == 0);
    assert!(offset_of!(Definition, hook) == 8);
    assert!(offset_of!(Definition, version) == 16);
    assert!(offset_of!(Definition, kind) == 20);
    assert!(offset_of!(Definition, convention) == 22);
    assert!(offset_of!(Definition, line) == 24);
    assert!(offset_of!(Definition, path_len) == 32);
    assert!(offset_of!(Definition, long) == 40);
    assert!(offset_of!(Definition, text) == 48);
};

// SAFETY: only two atomics ever change; `long` points at immutable static text.
unsafe impl Sync for Definition {}

impl Definition {
    /// Makes a definition from its text: path, file, field names and notes, one after the other,
    /// each field name and each note ended by a line feed. Path, file and notes are also given
    /// separately. Measuring them here rather than in each expansion saves compile time.
    ///
    /// # Panics
    /// At compile time, if a part is longer than 65,535 bytes or the parts are longer than the
    /// text.
    #[expect(clippy::cast_possible_truncation, reason = "asserted, at compile time")]
    pub const fn new(
        kind: Kind,
        text: &'static str,
        path: &str,
        file: &str,
        notes: &str,
        line: u32,
        column: u32,
    ) -> Self {
        let bytes = text.as_bytes();
        let (path_len, file_len, notes_len) = (path.len(), file.len(), notes.len());
        assert!(path_len <= u16::MAX as usize, "the probe's path is longer than 65,535 bytes");
        assert!(file_len <= u16::MAX as usize, "the file's path is longer than 65,535 bytes");
        assert!(notes_len <= u16::MAX as usize, "the probe's notes are longer than 65,535 bytes");
        assert!(path_len + file_len + notes_len <= bytes.len(), "the text is shorter than its parts");
        let fields_len = bytes.len() - path_len - file_len - notes_len;
        assert!(fields_len <= u16::MAX as usize, "the fields' names are longer than 65,535 bytes");
        let mut inline = [0; INLINE_TEXT];
        if bytes.len() <= INLINE_TEXT {
            // A slice's method would be slower: the compiler evaluates this for each probe, and
            // each call inside takes it some microseconds.
            // SAFETY: both have `bytes.len()` bytes or more, as just checked, and do not overlap.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), inline.as_mut_ptr(), bytes.len()) };
        }
        let mut field_count = 0;
        let mut at = path_len + file_len;
        while at < path_len + file_len + fields_len {
            if bytes[at] == b'\n' {
                field_count += 1;
            }
            at += 1;
        }
        Self {
            entry: AtomicPtr::new(ptr::null_mut()),
            hook: AtomicPtr::new(ptr::null_mut()),
            version: super::VERSION,
            size: size_of::<Self>() as u16,
            kind: kind as u8,
            field_count,
            convention: Convention::ColdBlock as u16,
            line,
            column,
            path_len: path_len as u16,
            file_len: file_len as u16,
            fields_len: fields_len as u16,
            notes_len: notes_len as u16,
            long: if bytes.len() <= INLINE_TEXT { ptr::null() } else { bytes.as_ptr() },
            text: inline,
        }
    }

    /// Makes the definitions of a function's entry and exit, in this order, without fields.
    ///
    /// # Panics
    /// The same as [`new`](Self::new).
    pub const fn entry_and_exit(
        text: &'static str,
        file: &str,
        notes: &str,
        line: u32,
        column: u32,
    ) -> [Self; 2] {
        let (path, _) = text.split_at(text.len() - file.len() - notes.len());
        [
            Self::new(Kind::Entry, text, path, file, notes, line, column),
            Self::new(Kind::Exit, text, path, file, notes, line, column),
        ]
    }

    /// Makes the definition of a discovered probe, as [`new`](Self::new) does, for sites of this
    /// convention.
    #[cfg(all(feature = "std", probe_backend = "patched"))]
    pub const fn discovered(
        kind: Kind,
        convention: Convention,
        text: &'static str,
        path: &str,
        file: &str,
        notes: &str,
        line: u32,
    ) -> Self {
        let mut it = Self::new(kind, text, path, file, notes, line, 0);
        it.convention = convention as u16;
        it
    }

    /// Copies all but `entry` and `hook`, which hits may be reading.
    ///
    /// # Safety
    /// `at` must be valid for writes, and no other thread may read the other fields meanwhile.
    #[cfg(all(feature = "std", probe_backend = "patched"))]
    pub unsafe fn describe(&self, at: *mut Self) {
        const HEAD: usize = offset_of!(Definition, version);
        let from = ptr::from_ref(self).cast::<u8>();
        // SAFETY: both have the same type, and the head is left out; the caller's promise.
        unsafe {
            ptr::copy_nonoverlapping(from.add(HEAD), at.cast::<u8>().add(HEAD), size_of::<Self>() - HEAD);
        };
    }

    /// Returns whether this reader understands the definition: it knows the version, size, kind and
    /// convention.
    pub fn is_readable(&self) -> bool {
        self.version == super::VERSION
            && usize::from(self.size) == size_of::<Self>()
            && Kind::from_number(self.kind).is_some()
            && Convention::from_number(self.convention).is_some()
            && (!self.long.is_null() || self.text_len() <= INLINE_TEXT)
    }

    /// Returns the probe's path: module path and name, joined by `::`.
    pub fn path(&self) -> &str {
        self.part(0, self.path_len)
    }

    /// Returns whether the path begins with this text. Reads only that much of the path: a selector
    /// checks every probe in this way, and rejects most.
    #[cfg(feature = "std")]
    #[inline]
    pub fn path_begins_with(&self, start: &str) -> bool {
        let Some(last) = start.as_bytes().last() else { return true };
        // `path` ends before the first byte that is not UTF-8, and `start` is all UTF-8. Paths that
        // begin alike differ at their end: the last byte rejects most without a call.
        let path = self.bytes(0, self.path_len);
        path.get(start.len() - 1) == Some(last) && path.starts_with(start.as_bytes())
    }

    /// Returns the source file, as `file!()` gives it.
    pub fn file(&self) -> &str {
        self.part(self.path_len.into(), self.file_len)
    }

    /// Returns the line of the function or macro call, from 1.
    #[inline]
    pub const fn line(&self) -> u32 {
        self.line
    }

    /// Returns the column of the function or macro call, from 1.
    pub const fn column(&self) -> u32 {
        self.column
    }

    /// Returns the kind of place that the probe marks.
    #[inline]
    pub const fn kind(&self) -> Kind {
        match Kind::from_number(self.kind) {
            Some(kind) => kind,
            None => panic!("`is_readable` has refused it"),
        }
    }

    /// Returns how active sites reach `entry`.
    #[inline(always)]
    pub const fn convention(&self) -> Convention {
        match self.convention {
            1 => Convention::Hidden,
            2 => Convention::Call,
            3 => Convention::KeptColdBlock,
            4 => Convention::Wrapped,
            // `is_readable` has refused other values.
            _ => Convention::ColdBlock,
        }
    }

    /// Returns the field names, in the order of their values.
    pub fn fields(&self) -> FieldNames<'_> {
        let start = usize::from(self.path_len) + usize::from(self.file_len);
        FieldNames::new(self.part(start, self.fields_len))
    }

    /// Returns the notes that the source attaches to the probe, as pairs of key and value.
    pub fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        let start = self.text_len() - usize::from(self.notes_len);
        self.part(start, self.notes_len).split_terminator('\n').filter_map(|note| note.split_once('='))
    }

    /// Returns the value of a note; `None` without it.
    #[inline]
    pub fn note(&self, key: &str) -> Option<&str> {
        // Most definitions have no notes, and a selection asks every definition for some.
        if self.notes_len == 0 { None } else { self.find_note(key) }
    }

    fn find_note(&self, key: &str) -> Option<&str> {
        self.notes().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Returns why a block with `#[probe]` left the function out. Such a definition never has a
    /// site.
    pub fn skipped(&self) -> Option<&str> {
        self.note("skipped")
    }

    /// Returns the type of a field if the definition states it, which it does if no compiler had to
    /// infer it.
    pub fn field_type(&self, index: usize) -> Option<Type> {
        let number: u32 = self.note("types")?.split(',').nth(index)?.parse().ok()?;
        Type::from_number(number.into())
    }

    /// Returns the number of fields of a hit.
    #[inline]
    pub const fn field_count(&self) -> usize {
        self.field_count as usize
    }

    /// Returns the values that identify a probe in all copies of its definition.
    pub fn identity(&self) -> (&str, &str, u32, u32, Kind) {
        (self.path(), self.file(), self.line, self.column, self.kind())
    }

    /// Returns the code that an active site runs; null before the first activation.
    #[cfg(any(feature = "std", probe_backend = "portable"))]
    #[inline]
    pub fn entry(&self) -> &AtomicPtr<()> {
        &self.entry
    }

    /// Returns the data that the owner of `entry` keeps for hits; null while no consumer is
    /// attached.
    #[cfg(feature = "std")]
    #[inline]
    pub fn hook(&self) -> &AtomicPtr<()> {
        &self.hook
    }

    /// Returns whether a consumer is attached. A site of the portable backend asks this.
    #[inline(always)]
    pub fn is_hooked(&self) -> bool {
        !self.hook.load(Ordering::Relaxed).is_null()
    }

    /// Returns the range of the text if it lies outside of the definition. The dynamic linker fills
    /// in its address, and may not have done so yet.
    #[cfg(all(feature = "std", probe_backend = "patched"))]
    pub fn text_elsewhere(&self) -> Option<core::ops::Range<usize>> {
        let is_known = self.version == super::VERSION && usize::from(self.size) == size_of::<Self>();
        let is_inside = self.long.is_null() && self.text_len() <= INLINE_TEXT;
        let start = self.long.addr();
        (is_known && !is_inside).then(|| start..start.wrapping_add(self.text_len()))
    }

    /// Returns the address of the text's address.
    #[cfg(all(feature = "std", probe_backend = "patched"))]
    pub fn text_pointer(&self) -> usize {
        (&raw const self.long).addr()
    }

    fn text_len(&self) -> usize {
        usize::from(self.path_len)
            + usize::from(self.file_len)
            + usize::from(self.fields_len)
            + usize::from(self.notes_len)
    }

    fn bytes(&self, start: usize, len: u16) -> &[u8] {
        let base = if self.long.is_null() { self.text.as_ptr() } else { self.long };
        debug_assert!(!self.long.is_null() || start + usize::from(len) <= INLINE_TEXT);
        // SAFETY: `new` copied the text inline or left it in a static; the part lies within it.
        unsafe { slice::from_raw_parts(base.add(start), len.into()) }
    }

    fn part(&self, start: usize, len: u16) -> &str {
        let bytes = self.bytes(start, len);
        if is_ascii(bytes) {
            // SAFETY: ASCII is UTF-8.
            return unsafe { str::from_utf8_unchecked(bytes) };
        }
        part_of(bytes)
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) at {}:{}", self.path(), self.kind().name(), self.file(), self.line())
    }
}

/// Returns the text up to the first byte that is not UTF-8: another language may have written it.
#[cold]
fn part_of(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        // SAFETY: `valid_up_to` bytes have just been checked.
        Err(error) => unsafe { str::from_utf8_unchecked(&bytes[..error.valid_up_to()]) },
    }
}

/// The same as the slice's method, which would check the last bytes one by one. In a name they are
/// many.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let Some(last) = bytes.last_chunk() else { return bytes.is_ascii() };
    let (words, _) = bytes.as_chunks();
    let all = words.iter().fold(u64::from_ne_bytes(*last), |all, word| all | u64::from_ne_bytes(*word));
    all & HIGH == 0
}

/// Returns the index of this name among the fields, whose names each end with a line feed.
///
/// # Panics
/// At compile time, if no field has this name.
pub const fn field_index(fields: &str, name: &str) -> usize {
    let (fields, name) = (fields.as_bytes(), name.as_bytes());
    let (mut index, mut start, mut at) = (0, 0, 0);
    let mut is_same = true;
    while at < fields.len() {
        if fields[at] == b'\n' {
            if is_same && at - start == name.len() {
                return index;
            }
            (index, start, is_same) = (index + 1, at + 1, true);
        } else {
            is_same = is_same && at - start < name.len() && fields[at] == name[at - start];
        }
        at += 1;
    }
    panic!("not a field of this probe")
}

/// The names of a probe's fields, see [`Definition::fields`](super::Definition::fields).
#[derive(Clone, Debug)]
pub struct FieldNames<'a>(SplitTerminator<'a, char>);

impl<'a> Iterator for FieldNames<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }
}

impl<'a> FieldNames<'a> {
    pub(super) fn new(names: &'a str) -> Self {
        Self(names.split_terminator('\n'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SHORT: Definition = Definition::new(
        Kind::Point,
        "app::parsedsrc/a.rsbytes\nok\ngroup=net\n",
        "app::parsed",
        "src/a.rs",
        "group=net\n",
        7,
        9,
    );

    #[test]
    fn parts_are_cut_from_the_text() {
        assert!(SHORT.is_readable());
        assert_eq!(SHORT.identity(), ("app::parsed", "src/a.rs", 7, 9, Kind::Point));
        assert_eq!(SHORT.fields().collect::<Vec<_>>(), ["bytes", "ok"]);
        assert_eq!(SHORT.field_count(), 2);
        assert_eq!(SHORT.notes().collect::<Vec<_>>(), [("group", "net")]);
        assert_eq!((SHORT.note("group"), SHORT.skipped()), (Some("net"), None));
        assert!(SHORT.long.is_null());
    }

    #[test]
    fn long_text_stays_outside() {
        macro_rules! path {
            () => {
                "a_path_that_is_as_long_as_a_path_can_be_when_modules_are_nested_deeply::and::named::verbosely"
            };
        }
        macro_rules! file {
            () => {
                "/registry/src/index/some-crate-with-a-long-name-1.2.3/src/a_module/another_module/file.rs"
            };
        }
        static LONG: Definition =
            Definition::new(Kind::Exit, concat!(path!(), file!(), "field\n"), path!(), file!(), "", 1, 1);
        assert!(LONG.is_readable());
        assert!(!LONG.long.is_null());
        assert_eq!((LONG.path(), LONG.file()), (path!(), file!()));
        assert_eq!(LONG.fields().collect::<Vec<_>>(), ["field"]);
    }

    #[test]
    fn a_path_ends_before_bytes_that_are_not_utf_8() {
        for (path, expected) in [
            (&b"app::caf\xe9::poll"[..], "app::caf"),
            (b"app::caf\xc3\xa9::poll", "app::café::poll"),
            (b"\xe9pp", ""),
            (b"app::pol\xe9", "app::pol"),
            (b"app", "app"),
            (b"", ""),
        ] {
            let mut it = Definition::new(Kind::Point, "", "", "", "", 1, 1);
            it.text[..path.len()].copy_from_slice(path);
            it.path_len = u16::try_from(path.len()).unwrap();
            assert_eq!(it.path(), expected);
            #[cfg(feature = "std")]
            for start in ["", "a", "app::caf", "app::café", "app::café::poll", "app::pol", "é", "app::x"] {
                assert_eq!(it.path_begins_with(start), expected.starts_with(start), "{expected}, {start}");
            }
        }
    }

    #[test]
    fn types_of_a_note() {
        static TYPED: Definition = Definition::new(
            Kind::Point,
            "a::bx.ca\nb\nc\ntypes=1,11,99\n",
            "a::b",
            "x.c",
            "types=1,11,99\n",
            1,
            1,
        );
        assert_eq!(
            [0, 1, 2, 3].map(|at| TYPED.field_type(at)),
            [Some(Type::U64), Some(Type::CStr), None, None]
        );
        assert_eq!(SHORT.field_type(0), None);
    }

    #[test]
    fn without_fields() {
        static NONE: Definition = Definition::new(Kind::Entry, "a::bx.rs", "a::b", "x.rs", "", 1, 1);
        assert_eq!((NONE.fields().count(), NONE.field_count()), (0, 0));
    }

    #[test]
    fn fields_have_an_index() {
        let fields = "a\nab\nb\nabc\n";
        let names = ["a", "ab", "b", "abc"];
        assert_eq!(names.map(|name| field_index(fields, name)), [0, 1, 2, 3]);
    }
}
