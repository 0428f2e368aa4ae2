//! Values at sites of C, which pass none: an attachment reads them from registers and memory.
//!
//! ```text
//! attach ▸ a program for each site of each probe whose values are needed: what, and where
//! hit    ▸ the way in ▸ `capture` ▸ here: the site, by the address after it ▸ each value, in an array
//!        ▸ the consumer, with an event that leads to the array
//! ```
//! Cost: none for hits of other attachments' hooks. For these, a look-up of the probe, a comparison
//! of addresses, and some instructions for each value. Memory is read in a way that may fault.

// Safety: relies on the way in and `capture`, which pass the registers of the hit's site, and on
// the names of enumerations, which live as long as the subscription.
#![expect(unsafe_code, reason = "see above")]

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::{ptr, slice};

use super::ProbeId;
use crate::engine::entry::backend::registers::{Captured, StoredRegister};
use crate::engine::os::guarded_read;
use probe_core::abi::{Type, Value};

/// The most fields of a probe.
pub(crate) const MOST_FIELDS: usize = 16;

/// The values that an attachment reads.
pub(crate) trait SiteValues: Send + Sync {
    /// Returns the fields of a probe; `None` if none of its values is read.
    fn of(&self, probe: ProbeId) -> Option<&SiteFields>;

    /// Leaves a probe its fields without values: its sites have gone, and others may come.
    fn forget(&self, probe: ProbeId);
}

/// The fields of one probe, and how each of its sites reads them.
#[derive(Debug)]
pub(crate) struct SiteFields {
    /// At most [`MOST_FIELDS`] names, and the types of their values, as far as all sites agree.
    pub(crate) fields: Box<[(String, Option<Type>)]>,
    /// By their addresses, which ascend.
    pub(crate) sites: Box<[SiteReadings]>,
    /// Whether the sites stay, whatever objects go.
    pub(crate) is_lasting: bool,
}

/// The readings of one site, one for each field.
#[derive(Debug)]
pub(crate) struct SiteReadings {
    /// The address after the site.
    pub(crate) after: usize,
    pub(crate) readings: Box<[Reading]>,
}

/// How one value is read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Reading {
    pub(crate) kind: ReadAs,
    pub(crate) from: ReadFrom,
}

/// Values of an enumeration, ascending, with their names.
pub(crate) type ValueNames = [(i64, Box<str>)];

/// The meaning of a value's bytes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ReadAs {
    /// An unsigned integer of this many bytes.
    Unsigned(u8),
    /// A signed integer of this many bytes.
    Signed(u8),
    Bool,
    Single,
    Double,
    /// The address of a string of C.
    Text,
    /// A value that has a name; others are numbers.
    Enumeration {
        bytes: u8,
        is_signed: bool,
        names: Arc<ValueNames>,
    },
}

/// The place of a value's bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ReadFrom {
    Nowhere,
    Register(StoredRegister),
    /// In the word this far above the stack pointer, which is surely the stack's.
    Stack(u16),
    /// Elsewhere in memory, where a read may fault.
    Memory {
        base: StoredRegister,
        offset: i32,
    },
}

impl ReadAs {
    /// Returns the type of the values.
    pub(crate) fn ty(&self) -> Type {
        match self {
            Self::Unsigned(_) => Type::U64,
            Self::Signed(_) => Type::I64,
            Self::Bool => Type::Bool,
            Self::Single | Self::Double => Type::F64,
            Self::Text => Type::CStr,
            Self::Enumeration { .. } => Type::Str,
        }
    }

    fn bytes(&self) -> u8 {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) | Self::Enumeration { bytes, .. } => *bytes,
            Self::Bool => 1,
            Self::Single => 4,
            Self::Double | Self::Text => 8,
        }
    }

    /// Returns the value that these bytes are; only as many as it has matter.
    #[inline(always)]
    fn value(&self, word: u64) -> Value<'_> {
        let (ty, words) = match self {
            Self::Unsigned(bytes) => (Type::U64, [unsigned(word, *bytes), 0]),
            Self::Signed(bytes) => (Type::I64, [signed(word, *bytes), 0]),
            Self::Bool => (Type::Bool, [u64::from(word & 0xff != 0), 0]),
            #[expect(clippy::cast_possible_truncation, reason = "its lower half")]
            Self::Single => (Type::F64, [f64::from(f32::from_bits(word as u32)).to_bits(), 0]),
            Self::Double => (Type::F64, [word, 0]),
            Self::Text => (Type::CStr, [word, 0]),
            Self::Enumeration { bytes, is_signed, names } => named(word, *bytes, *is_signed, names),
        };
        // SAFETY: numbers; the address of a string, which may be any; and a name of this reading.
        unsafe { Value::of_words(ty, words) }
    }
}

/// Returns the words of a value of an enumeration: its name, or the number.
#[inline(never)]
fn named(word: u64, bytes: u8, is_signed: bool, names: &[(i64, Box<str>)]) -> (Type, [u64; 2]) {
    let number = if is_signed { signed(word, bytes) } else { unsigned(word, bytes) };
    match names.binary_search_by_key(&number.cast_signed(), |(value, _)| *value) {
        Ok(at) => (Type::Str, [names[at].1.as_ptr().addr() as u64, names[at].1.len() as u64]),
        Err(_) if is_signed => (Type::I64, [number, 0]),
        Err(_) => (Type::U64, [number, 0]),
    }
}

#[inline(always)]
fn unsigned(word: u64, bytes: u8) -> u64 {
    let shift = unused_bits(bytes);
    word << shift >> shift
}

#[inline(always)]
fn signed(word: u64, bytes: u8) -> u64 {
    let shift = unused_bits(bytes);
    ((word << shift).cast_signed() >> shift).cast_unsigned()
}

#[inline(always)]
fn unused_bits(bytes: u8) -> u32 {
    64 - 8 * u32::from(bytes.clamp(1, 8))
}

impl Reading {
    /// Reads the value.
    ///
    /// # Safety
    /// As for [`StoredRegister::read`].
    #[inline(always)]
    unsafe fn read(&self, frame: *const Value<'_>, captured: *const Captured) -> Value<'_> {
        let word = match self.from {
            // SAFETY: the caller's promise.
            ReadFrom::Register(register) => unsafe { register.read(frame, captured) },
            ReadFrom::Stack(offset) => {
                // SAFETY: the frame is the stack pointer. By the debug information of the mapped
                // file, a variable or an argument begins here. A variable lies below a return
                // address, and an argument has a word. So this word ends in the same frame.
                Some(unsafe { frame.byte_add(offset.into()).cast::<u64>().read_unaligned() })
            }
            ReadFrom::Memory { base, offset } => {
                // SAFETY: the caller's promise.
                let base = unsafe { base.read(frame, captured) };
                base.and_then(|base| in_memory(base.wrapping_add_signed(offset.into()), self.kind.bytes()))
            }
            ReadFrom::Nowhere => None,
        };
        match word {
            Some(word) => self.kind.value(word),
            None => absent(),
        }
    }
}

#[inline(always)]
fn absent() -> Value<'static> {
    // SAFETY: such a value has no data.
    unsafe { Value::of_words(Type::Absent, [0, 0]) }
}

/// How far above the stack pointer memory is surely the stack's: there are the program's arguments
/// and environment.
const SURELY_STACK: u16 = 1024;

impl SiteFields {
    /// Returns whether a value is in a register that the way in does not store.
    pub(super) fn needs_captured(&self) -> bool {
        let mut readings = self.sites.iter().flat_map(|site| &site.readings);
        readings.any(|reading| match reading.from {
            ReadFrom::Register(register) | ReadFrom::Memory { base: register, .. } => register.is_captured(),
            ReadFrom::Nowhere | ReadFrom::Stack(_) => false,
        })
    }
}

impl ReadFrom {
    /// Returns the place of a value in memory, this far from where a register leads.
    pub(crate) fn memory(base: StoredRegister, offset: i32) -> Self {
        match u16::try_from(offset) {
            Ok(near @ ..SURELY_STACK) if base == StoredRegister::StackPointer => Self::Stack(near),
            _ => Self::Memory { base, offset },
        }
    }

    /// Returns whether a read of it may fault.
    pub(crate) fn may_fault(self) -> bool {
        matches!(self, Self::Memory { .. })
    }
}

/// Returns the bytes at an address, if they can be read.
#[expect(clippy::cast_possible_truncation, reason = "addresses have as many bits")]
#[inline(never)]
fn in_memory(addr: u64, bytes: u8) -> Option<u64> {
    let (start, len) = (addr as usize, usize::from(bytes.min(8)));
    let mut word = [0; 8];
    if !guarded_read::is_readable(start, len) {
        return None;
    }
    // SAFETY: the stack of the site's function, by the debug information of the very file that is
    // mapped. They were readable just now.
    unsafe {
        ptr::copy_nonoverlapping(ptr::with_exposed_provenance::<u8>(start), word.as_mut_ptr(), len);
    }
    Some(u64::from_le_bytes(word))
}

/// The values of one hit.
pub(crate) struct GivenValues<'a> {
    fields: &'a SiteFields,
    values: [MaybeUninit<Value<'a>>; MOST_FIELDS],
}

impl<'a> GivenValues<'a> {
    /// Reads the values of a hit at the site before this address, into the place where they stay.
    /// All are absent at a site that was not known.
    ///
    /// # Safety
    /// As for [`StoredRegister::read`].
    #[inline(always)]
    pub(super) unsafe fn read<'p>(
        place: &'p mut MaybeUninit<Self>,
        fields: &'a SiteFields,
        after: usize,
        frame: *const Value<'_>,
        captured: *const Captured,
    ) -> &'p Self {
        let given = place.write(Self { fields, values: [const { MaybeUninit::uninit() }; MOST_FIELDS] });
        let site = match &*fields.sites {
            [one] if one.after == after => Some(one),
            sites => sites.binary_search_by_key(&after, |site| site.after).ok().map(|at| &sites[at]),
        };
        let readings = site.map_or(&[][..], |site| &site.readings);
        for (at, value) in given.values.iter_mut().take(fields.fields.len()).enumerate() {
            value.write(match readings.get(at) {
                // SAFETY: the caller's promise.
                Some(reading) => unsafe { reading.read(frame, captured) },
                None => absent(),
            });
        }
        given
    }

    /// Returns the names of the fields, and their types.
    pub(super) fn names(&self) -> &'a [(String, Option<Type>)] {
        &self.fields.fields[..self.fields.fields.len().min(MOST_FIELDS)]
    }

    #[inline(always)]
    pub(super) fn values(&self) -> &[Value<'a>] {
        // SAFETY: as many were written.
        unsafe {
            slice::from_raw_parts(self.values.as_ptr().cast(), self.fields.fields.len().min(MOST_FIELDS))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: &ReadAs, word: u64) -> String {
        kind.value(word).get().to_string()
    }

    #[test]
    fn values_have_as_many_bytes_as_they_should() {
        let word = 0xfedc_ba98_7654_3280;
        for (kind, expected) in [
            (ReadAs::Unsigned(1), "128"),
            (ReadAs::Signed(1), "-128"),
            (ReadAs::Unsigned(2), "12928"),
            (ReadAs::Signed(4), "1985229440"),
            (ReadAs::Unsigned(8), "18364758544493064832"),
            (ReadAs::Signed(8), "-81985529216486784"),
            (ReadAs::Bool, "true"),
        ] {
            assert_eq!(shown(&kind, word), expected, "{kind:?}");
        }
        assert_eq!(shown(&ReadAs::Bool, 0x100), "false");
        assert_eq!(shown(&ReadAs::Double, 2.5_f64.to_bits()), "2.5");
        assert_eq!(shown(&ReadAs::Single, u64::from(1.5_f32.to_bits()) | 7 << 32), "1.5");
    }

    #[test]
    fn only_registers_that_the_way_in_does_not_store_are_captured() {
        let needs = |from| {
            let readings = [Reading { kind: ReadAs::Double, from }].into();
            let sites = [SiteReadings { after: 5, readings }].into();
            SiteFields { fields: [("x".to_owned(), None)].into(), sites, is_lasting: false }.needs_captured()
        };
        // In DWARF: rdi is 5, rbx 3, xmm0 17.
        let register = |number| StoredRegister::of(number).unwrap();
        let memory = |number| ReadFrom::Memory { base: register(number), offset: 8 };
        assert!(![ReadFrom::Nowhere, ReadFrom::Register(register(5)), memory(7)].into_iter().any(needs));
        assert!([ReadFrom::Register(register(17)), memory(3)].into_iter().all(needs));
    }

    #[test]
    fn enumerations_have_names_or_numbers() {
        let names = [(-1, "CLOSED".into()), (7, "WRITE".into())].into();
        let modes = ReadAs::Enumeration { bytes: 4, is_signed: true, names };
        assert_eq!(shown(&modes, 0xffff_ffff), "CLOSED");
        assert_eq!(shown(&modes, 1 << 32 | 7), "WRITE");
        assert_eq!(shown(&modes, 0xffff_fffe), "-2");
    }
}
