//! A hit's fields as the payload of a record.
//!
//! Most fields are numbers, whose payload has a length that their count tells ([`store_short`]).
//!
//! Cost: one pass over such fields. Two over others: the first one bounds the payload's length, so
//! that there is room before the first word is stored; it formats nothing.

use std::fmt::{self, Write};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use probe_trace::layout::field;

use crate::engine::dispatch::Event;
use probe_core::abi::{Type, Value, ValueRef};

/// Returns the number of payload words of a hit whose values take one word each.
#[inline(always)]
pub(super) fn short(values: &[Value<'_>]) -> usize {
    values.len() + values.len().div_ceil(8)
}

/// Stores the payload of a hit whose values take one word each, in as many words as [`short`] says.
/// `false` if a value takes more, or less.
#[inline(always)]
pub(super) fn store_short(values: &[Value<'_>], words: &[AtomicU64]) -> bool {
    let Some((types, words)) = words.split_at_checked(values.len().div_ceil(8)) else { return false };
    for ((values, words), packed) in values.chunks(8).zip(words.chunks(8)).zip(types) {
        let mut types = 0;
        for ((value, word), place) in values.iter().zip(words).zip((0..).step_by(8)) {
            let Some((ty, value)) = one_word(value) else { return false };
            word.store(value, Relaxed);
            types |= u64::from(ty) << place;
        }
        packed.store(types, Relaxed);
    }
    true
}

/// Returns the number of the type, and the value, if that is one word which no site could have made
/// wrong: a number of up to 64 bits, or a truth value.
#[inline(always)]
fn one_word(value: &Value<'_>) -> Option<(u8, u64)> {
    const NUMBERS: u64 = 1 << field::U64 | 1 << field::I64 | 1 << field::F64;
    let (ty, word) = (value.ty_number(), value.words()[0]);
    let is_number = ty < 64 && NUMBERS >> ty & 1 != 0;
    let is_valid = is_number || (ty == Type::Bool as u64 && word <= 1);
    #[expect(clippy::cast_possible_truncation, reason = "less than 64")]
    is_valid.then_some((ty as u8, word))
}

// The types that are stored as they are have the same numbers in files.
const _: () = {
    assert!(Type::U64 as u8 == field::U64 && Type::I64 as u8 == field::I64);
    assert!(Type::F64 as u8 == field::F64 && Type::Bool as u8 == field::BOOL);
    assert!(Type::Char as u8 == field::CHAR);
};

/// Returns the greatest number of payload words that the hit may need, with texts cut at `limit`
/// bytes.
#[inline]
pub(super) fn bound(event: &Event<'_>, limit: usize, stack: Option<u64>) -> usize {
    let fields = event.fields().values();
    let number = usize::from(stack.is_some());
    let types = (fields.len() + number).div_ceil(8);
    usize::from(event.may_skip_exit())
        + types
        + number
        + fields.map(|value| bound_of(value, limit)).sum::<usize>()
}

fn bound_of(value: ValueRef<'_>, limit: usize) -> usize {
    let text = |len: usize| 1 + len.min(limit).div_ceil(8);
    match value {
        ValueRef::U64(_) | ValueRef::I64(_) | ValueRef::F64(_) | ValueRef::Bool(_) | ValueRef::Char(_) => 1,
        ValueRef::U128(_) | ValueRef::I128(_) => 2,
        ValueRef::Str(text_of) | ValueRef::Opaque(text_of) => text(text_of.len()),
        ValueRef::Bytes(bytes) => text(bytes.len()),
        ValueRef::Format(_) => text(limit),
        _ => 0,
    }
}

/// Stores the payload. Returns the number of words in use. Texts are cut at `limit` bytes; values
/// that find no room are left out. The number of a stack, 0 if it is left out, is the last value.
pub(super) fn store(event: &Event<'_>, limit: usize, stack: Option<u64>, words: &[AtomicU64]) -> usize {
    let mut out = Out { words, at: 0 };
    if event.may_skip_exit() {
        out.word(event.stack_pointer().unwrap_or_default() as u64);
    }
    let fields = event.fields().values();
    let types_at = out.at;
    // Where there is no room for the types, there is none for a value.
    let count = fields.len() + usize::from(stack.is_some());
    let Some(types) = words.get(types_at..types_at + count.div_ceil(8)) else { return out.at };
    out.at += types.len();
    let mut packed = 0;
    let mut put = |number: usize, ty: u8| {
        packed |= u64::from(ty) << (number % 8 * 8);
        if number % 8 == 7 || number + 1 == count {
            types[number / 8].store(packed, Relaxed);
            packed = 0;
        }
    };
    fields.enumerate().for_each(|(number, value)| put(number, out.value(value, limit)));
    if let Some(stack) = stack {
        let is_stored = stack != 0 && out.word(stack);
        put(count - 1, if is_stored { field::STACK } else { field::LEFT_OUT });
    }
    out.at
}

/// The payload's words, and the number of those in use.
struct Out<'a> {
    words: &'a [AtomicU64],
    at: usize,
}

impl Out<'_> {
    /// Stores a word if there is room.
    fn word(&mut self, word: u64) -> bool {
        let Some(place) = self.words.get(self.at) else { return false };
        place.store(word, Relaxed);
        self.at += 1;
        true
    }

    /// Stores a value; returns its type in files.
    fn value(&mut self, value: ValueRef<'_>, limit: usize) -> u8 {
        let (ty, is_stored) = match value {
            ValueRef::U64(value) => (field::U64, self.word(value)),
            ValueRef::I64(value) => (field::I64, self.word(value.cast_unsigned())),
            ValueRef::F64(value) => (field::F64, self.word(value.to_bits())),
            ValueRef::Bool(value) => (field::BOOL, self.word(value.into())),
            ValueRef::Char(value) => (field::CHAR, self.word(u32::from(value).into())),
            ValueRef::U128(value) => (field::U128, self.wide(value)),
            ValueRef::I128(value) => (field::I128, self.wide(value.cast_unsigned())),
            ValueRef::Str(text) => (field::STR, self.bytes(text.as_bytes(), limit)),
            ValueRef::Opaque(name) => (field::OPAQUE, self.bytes(name.as_bytes(), limit)),
            ValueRef::Bytes(bytes) => (field::BYTES, self.bytes(bytes, limit)),
            ValueRef::Format(shown) => (field::FORMATTED, self.formatted(shown, limit)),
            ValueRef::Absent => return field::ABSENT,
            ValueRef::Failed => return field::FAILED,
            ValueRef::Unreadable => return field::UNREADABLE,
            _ => return field::UNKNOWN,
        };
        if is_stored { ty } else { field::LEFT_OUT }
    }

    #[expect(clippy::cast_possible_truncation, reason = "its two halves")]
    fn wide(&mut self, value: u128) -> bool {
        self.words.len() - self.at >= 2 && self.word(value as u64) && self.word((value >> 64) as u64)
    }

    fn bytes(&mut self, bytes: &[u8], limit: usize) -> bool {
        let Some(mut text) = Text::begin(self, limit) else { return false };
        text.push(bytes);
        text.end();
        true
    }

    fn formatted(&mut self, shown: &dyn fmt::Display, limit: usize) -> bool {
        let Some(mut text) = Text::begin(self, limit) else { return false };
        // A value that fails to format itself leaves the text so far.
        let _ = write!(text, "{shown}");
        text.end();
        true
    }
}

/// A text that is being stored: its length, then its bytes in words.
struct Text<'a, 'b> {
    out: &'a mut Out<'b>,
    length_at: usize,
    /// The most bytes that are stored.
    limit: usize,
    stored: usize,
    whole: usize,
    /// The bytes of a word that is not full.
    word: u64,
}

impl<'a, 'b> Text<'a, 'b> {
    fn begin(out: &'a mut Out<'b>, limit: usize) -> Option<Self> {
        let length_at = out.at;
        if !out.word(0) {
            return None;
        }
        let limit = limit.min((out.words.len() - out.at) * 8);
        Some(Self { out, length_at, limit, stored: 0, whole: 0, word: 0 })
    }

    fn push(&mut self, bytes: &[u8]) {
        self.whole = self.whole.saturating_add(bytes.len());
        let mut bytes = &bytes[..bytes.len().min(self.limit - self.stored)];
        while !bytes.is_empty() {
            let filled = self.stored % 8;
            let (now, later) = bytes.split_at(bytes.len().min(8 - filled));
            let mut word = [0; 8];
            word[filled..filled + now.len()].copy_from_slice(now);
            self.word |= u64::from_le_bytes(word);
            self.stored += now.len();
            bytes = later;
            if filled + now.len() == 8 {
                self.out.word(self.word);
                self.word = 0;
            }
        }
    }

    fn end(self) {
        if !self.stored.is_multiple_of(8) {
            self.out.word(self.word);
        }
        let whole = u64::from(u32::try_from(self.whole).unwrap_or(u32::MAX));
        self.out.words[self.length_at].store(whole << 32 | self.stored as u64, Relaxed);
    }
}

impl Write for Text<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}
