//! The keys of one group, as words that are equal if the keys are.
//!
//! ```text
//! shape      16 bits for each key: its kind, the bytes of its text
//! words      integer 1 (2 if it needs them)    float, truth value, character, call, stack 1    no value 0
//!            text: its bytes, padded with zeros    cut text: its first bytes, the hash of the whole
//! ```
//! A word is written and read as a whole: a processor makes a load wait that covers several
//! stores. The hash is made of the words as they come.

use std::fmt::{self, Write};

use super::callers::CallerNames;
use probe_core::abi::{Type, Value, ValueRef};
use probe_lang::expression::{Datum, Fault};

/// Words of all keys of a group.
pub(super) const WORDS: usize = 16;
const WORD: usize = size_of::<u64>();

const INT: u64 = 1;
const WIDE: u64 = 2;
const FLOAT: u64 = 3;
const BOOL: u64 = 4;
const CHAR: u64 = 5;
const TEXT: u64 = 6;
const CUT: u64 = 7;
const NONE: u64 = 8;
/// An integer of 2^127 or more.
const LARGE: u64 = 9;
/// The address of a call.
const CALL: u64 = 10;
/// The number of a stack; 0 of one without room.
const STACK: u64 = 11;

/// The text of a key without a value.
pub(super) const ABSENT: &str = "(absent)";

/// Bits of a key in the shape, and of its kind.
const KEY_BITS: u32 = 16;
const KIND_BITS: u32 = 8;

/// Keys while they are written.
pub(super) struct Key {
    words: [u64; WORDS],
    len: usize,
    /// The words that each key may take.
    room: usize,
    shape: u64,
    /// The place of the next key in the shape.
    shift: u32,
    subject: u32,
    hash: u64,
}

impl Key {
    /// Returns the words that each of this many keys may take.
    pub(super) fn room(keys: usize) -> usize {
        WORDS / keys.max(1)
    }

    /// Begins the keys of a subject's group.
    #[inline(always)]
    pub(super) fn new(subject: u32, room: usize) -> Self {
        let hash = mixed(0, subject.into());
        Self { words: [0; WORDS], len: 0, room, shape: 0, shift: 0, subject, hash }
    }

    /// Creates it of a shape and of words that were read.
    #[cold]
    pub(super) fn of(subject: u32, shape: u64, words: impl Iterator<Item = u64>) -> Self {
        let len = (0..u64::BITS).step_by(KEY_BITS as usize).map(|at| words_of(shape >> at)).sum();
        let mut key = Self { shape, ..Self::new(subject, WORDS) };
        words.take(len).for_each(|word| key.push(word));
        key
    }

    #[inline(always)]
    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.len.min(WORDS)]
    }

    #[inline(always)]
    pub(super) fn shape(&self) -> u64 {
        self.shape
    }

    #[inline(always)]
    pub(super) fn subject(&self) -> u32 {
        self.subject
    }

    /// Returns the hash of the subject and the words. Its high bits depend on all of them.
    #[inline(always)]
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    #[inline(always)]
    fn begin(&mut self, kind: u64, bytes: usize) {
        self.shape |= (kind | (bytes as u64) << KIND_BITS) << (self.shift % u64::BITS);
        self.shift += KEY_BITS;
    }

    #[inline(always)]
    fn push(&mut self, word: u64) {
        // Keys and their texts are limited, so all of them fit.
        if let Some(place) = self.words.get_mut(self.len) {
            *place = word;
            self.len += 1;
            self.hash = mixed(self.hash, word);
        }
    }

    #[inline(always)]
    fn put(&mut self, kind: u64, word: u64) {
        self.begin(kind, 0);
        self.push(word);
    }

    fn put_two(&mut self, kind: u64, wide: u128) {
        self.begin(kind, 0);
        #[expect(clippy::cast_possible_truncation, reason = "the other half follows")]
        self.push(wide as u64);
        self.push((wide >> u64::BITS) as u64);
    }

    /// Adds a field; one without a value is a key, too.
    #[inline(always)]
    pub(super) fn add_field(&mut self, value: Option<&Value<'_>>) -> Result<(), Fault> {
        match value {
            // The most frequent types first.
            Some(value) if value.ty_number() == Type::I64 as u64 => self.put(INT, value.words()[0]),
            Some(value)
                if value.ty_number() == Type::U64 as u64 && !value.words()[0].cast_signed().is_negative() =>
            {
                self.put(INT, value.words()[0]);
            }
            Some(value) => match value.slice() {
                Some(text) => self.add_text(text),
                None => return self.add_other(value),
            },
            None => self.begin(NONE, 0),
        }
        Ok(())
    }

    /// Only hits tell types where sites are not patched: there a value may format itself.
    #[inline(never)]
    fn add_other(&mut self, value: &Value<'_>) -> Result<(), Fault> {
        if let ValueRef::Format(shown) = value.get() {
            self.add_shown(shown);
            return Ok(());
        }
        self.add(Datum::of(value))
    }

    /// Adds a key; a value that is missing is one, too.
    #[inline(never)]
    pub(super) fn add(&mut self, datum: Result<Datum<'_>, Fault>) -> Result<(), Fault> {
        match datum {
            Ok(Datum::Int(it)) => match i64::try_from(it) {
                Ok(it) => self.put(INT, it.cast_unsigned()),
                Err(_) => self.put_two(WIDE, it.cast_unsigned()),
            },
            Ok(Datum::Large(it)) => self.put_two(LARGE, it),
            // Both zeros are equal, and so are all NaNs.
            Ok(Datum::Float(0.0)) => self.put(FLOAT, 0_f64.to_bits()),
            Ok(Datum::Float(it)) if it.is_nan() => self.put(FLOAT, f64::NAN.to_bits()),
            Ok(Datum::Float(it)) => self.put(FLOAT, it.to_bits()),
            Ok(Datum::Bool(it)) => self.put(BOOL, it.into()),
            Ok(Datum::Char(it)) => self.put(CHAR, it.into()),
            Ok(Datum::Text(it)) => self.add_text(it.bytes),
            Err(Fault::Missing) => self.begin(NONE, 0),
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Returns whether the first key has no value.
    #[inline(always)]
    pub(super) fn is_missing(&self) -> bool {
        self.shape % (1 << KIND_BITS) == NONE
    }

    /// Adds the address of a call.
    #[inline(always)]
    pub(super) fn add_call(&mut self, addr: Option<u64>) {
        match addr {
            Some(addr) => self.put(CALL, addr),
            None => self.begin(NONE, 0),
        }
    }

    /// Adds the number of a stack.
    #[inline(always)]
    pub(super) fn add_stack(&mut self, number: Option<u64>) {
        self.put(STACK, number.unwrap_or_default());
    }

    /// Adds the next key of another group, whose keys have as much room.
    #[cold]
    pub(super) fn add_stored(&mut self, of: &mut StoredKeys) {
        let bits = (of.keys.shape >> of.shift) % (1 << KEY_BITS);
        self.shape |= bits << (self.shift % u64::BITS);
        self.shift += KEY_BITS;
        let end = of.next + words_of(bits);
        of.keys.words.get(of.next..end).unwrap_or_default().iter().for_each(|word| self.push(*word));
        (of.next, of.shift) = (end, (of.shift + KEY_BITS) % u64::BITS);
    }

    /// Adds a value that formats itself.
    #[cold]
    pub(super) fn add_shown(&mut self, value: &dyn fmt::Display) {
        let mut shown = Shown { text: [0; SHOWN], len: 0 };
        // It may be cut.
        let _ = write!(shown, "{value}");
        self.add_text(&shown.text[..shown.len]);
    }

    #[inline(always)]
    fn add_text(&mut self, text: &[u8]) {
        if text.len() > self.room * WORD {
            return self.add_cut(text);
        }
        self.begin(TEXT, text.len());
        let (words, rest) = text.as_chunks::<WORD>();
        words.iter().for_each(|word| self.push(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            self.push(match text.last_chunk::<WORD>() {
                // One load, of bytes that the word before has, too.
                Some(last) => u64::from_le_bytes(*last) >> (u64::BITS as usize - 8 * rest.len()),
                None => short(rest),
            });
        }
    }

    #[cold]
    fn add_cut(&mut self, text: &[u8]) {
        let (words, _) = text.as_chunks::<WORD>();
        let kept = &words[..self.room - 1];
        self.begin(CUT, kept.len() * WORD);
        kept.iter().for_each(|word| self.push(u64::from_le_bytes(*word)));
        self.push(whole(text));
    }
}

/// The keys of a group, which are read one after another.
pub(super) struct StoredKeys {
    keys: WrittenKeys,
    /// The place of the next key, in the shape and in the words.
    shift: u32,
    next: usize,
}

impl StoredKeys {
    pub(super) fn new(keys: WrittenKeys) -> Self {
        Self { keys, shift: 0, next: 0 }
    }
}

/// Returns fewer than eight bytes as a word. A copy of so few would be a call, and its stores
/// shorter than the load of the word.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<2>(), bytes.last_chunk::<2>()) {
        u64::from(u16::from_le_bytes(*first)) | u64::from(u16::from_le_bytes(*last)) << (8 * (len - 2))
    } else {
        bytes.first().map_or(0, |byte| u64::from(*byte))
    }
}

/// Returns the hash of a text that is cut.
fn whole(text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<WORD>();
    let hash = words.iter().fold(text.len() as u64, |hash, word| mixed(hash, u64::from_le_bytes(*word)));
    mixed(hash, short(rest))
}

#[inline(always)]
fn mixed(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Bytes of a value that formats itself.
const SHOWN: usize = 256;

struct Shown {
    text: [u8; SHOWN],
    len: usize,
}

impl Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let taken = text.len().min(SHOWN - self.len);
        self.text[self.len..self.len + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Returns the bytes of the text of a key, from the key's bits of a shape.
fn bytes_of(bits: u64) -> usize {
    usize::from(bits.to_le_bytes()[1])
}

/// Returns the words of a key, from its bits of a shape.
fn words_of(bits: u64) -> usize {
    match bits % (1 << KIND_BITS) {
        INT | FLOAT | BOOL | CHAR | CALL | STACK => 1,
        WIDE | LARGE => 2,
        TEXT => bytes_of(bits).div_ceil(WORD),
        CUT => bytes_of(bits) / WORD + 1,
        _ => 0,
    }
}

/// A key that tells where a function was called.
pub(super) enum CallerKey<'a> {
    Call(&'a mut u64),
    Stack(&'a mut u64),
}

/// The keys of a group as they were written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct WrittenKeys {
    pub(super) shape: u64,
    pub(super) words: [u64; WORDS],
}

impl WrittenKeys {
    /// Calls `each` with the words of each call and each stack.
    pub(super) fn each_caller(&mut self, mut each: impl FnMut(CallerKey<'_>)) {
        let mut rest = &mut self.words[..];
        for at in (0..u64::BITS).step_by(KEY_BITS as usize) {
            let bits = self.shape >> at;
            let (words, after) = rest.split_at_mut(words_of(bits).min(rest.len()));
            match (bits % (1 << KIND_BITS), words.first_mut()) {
                (CALL, Some(word)) => each(CallerKey::Call(word)),
                (STACK, Some(word)) => each(CallerKey::Stack(word)),
                _ => (),
            }
            rest = after;
        }
    }

    /// Returns them as texts, calls and stacks by their names.
    pub(super) fn texts(&self, names: &CallerNames) -> Vec<String> {
        let (mut keys, mut rest) = (Vec::new(), &self.words[..]);
        for at in (0..u64::BITS).step_by(KEY_BITS as usize) {
            let bits = self.shape >> at;
            let (words, after) = rest.split_at(words_of(bits).min(rest.len()));
            let word = words.first().copied().unwrap_or_default();
            let wide =
                || u128::from(word) | u128::from(words.get(1).copied().unwrap_or_default()) << u64::BITS;
            let text = || {
                let bytes: Vec<u8> =
                    words.iter().flat_map(|word| word.to_le_bytes()).take(bytes_of(bits)).collect();
                String::from_utf8_lossy(&bytes).trim_end_matches('\u{fffd}').to_owned()
            };
            keys.push(match bits % (1 << KIND_BITS) {
                INT => word.cast_signed().to_string(),
                WIDE => wide().cast_signed().to_string(),
                LARGE => wide().to_string(),
                FLOAT => f64::from_bits(word).to_string(),
                BOOL => (word != 0).to_string(),
                CHAR => {
                    u32::try_from(word).ok().and_then(char::from_u32).map_or_else(String::new, String::from)
                }
                NONE => ABSENT.to_owned(),
                CALL => names.of_call(word),
                STACK => names.of_stack(word),
                TEXT => text(),
                CUT => text() + "…",
                _ => break,
            });
            rest = after;
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe_core::__private::v1::InMemory;
    use probe_core::abi::{Field, TextStart};

    fn text(text: &str) -> Datum<'_> {
        Datum::Text(TextStart { bytes: text.as_bytes(), is_whole: true })
    }

    fn key(data: Vec<Result<Datum<'_>, Fault>>) -> WrittenKeys {
        let mut key = Key::new(0, Key::room(data.len()));
        data.into_iter().for_each(|datum| key.add(datum).unwrap());
        let again = Key::of(0, key.shape, key.words.into_iter());
        assert_eq!((again.words(), again.hash), (key.words(), key.hash));
        WrittenKeys { shape: key.shape, words: key.words }
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let all = key(vec![Ok(Datum::Int(-7)), Ok(text("a")), Err(Fault::Missing), Ok(Datum::Bool(true))]);
        assert_eq!(all.texts(&CallerNames::default()), ["-7", "a", "(absent)", "true"]);
        let all = key(vec![Ok(Datum::Int(1 << 64)), Ok(Datum::Char('é')), Ok(Datum::Float(0.5))]);
        assert_eq!(all.texts(&CallerNames::default()), ["18446744073709551616", "é", "0.5"]);
    }

    #[test]
    fn long_texts_stay_apart_although_they_are_cut() {
        let [a, b] = ["a", "b"].map(|end| key(vec![Ok(text(&("/".repeat(200) + end)))]));
        assert_ne!(a, b);
        assert_eq!(a.texts(&CallerNames::default()), [format!("{}…", "/".repeat(120))]);
        assert_eq!(a.texts(&CallerNames::default()), b.texts(&CallerNames::default()));
        let four = key(vec![Ok(text("long, and longer than thirty bytes")); 4]);
        assert_eq!(four.texts(&CallerNames::default()), ["long, and longer than th…"; 4]);
        assert_eq!(
            key(vec![Ok(text(&"/".repeat(128)))]).texts(&CallerNames::default()),
            ["/".repeat(128)],
            "the longest that is whole"
        );
    }

    #[test]
    fn texts_of_any_length_are_read_as_they_were_written() {
        let all = "abcdefghijklmnopqrstuvwxyz";
        let keys: Vec<_> =
            (0..=all.len()).map(|len| key(vec![Ok(text(&all[..len])), Ok(Datum::Int(1))])).collect();
        for (len, key) in keys.iter().enumerate() {
            assert_eq!(key.texts(&CallerNames::default()), [&all[..len], "1"]);
            assert_eq!(key.words[..len.div_ceil(8)], words(&all.as_bytes()[..len]), "padded with zeros");
        }
        assert_ne!(key(vec![Ok(text("a"))]), key(vec![Ok(text("a\0"))]));
    }

    fn words(text: &[u8]) -> Vec<u64> {
        let mut bytes = text.to_vec();
        bytes.resize(text.len().next_multiple_of(8), 0);
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn a_field_is_the_key_of_its_value() {
        let of_field = |value: &Value<'_>| {
            let mut key = Key::new(0, WORDS);
            key.add_field(Some(value)).unwrap();
            WrittenKeys { shape: key.shape, words: key.words }
        };
        let mut fields = vec!["ab".pass::<InMemory>(), true.pass::<InMemory>(), 'é'.pass::<InMemory>()];
        fields.extend([0, 1, i64::MAX as u64, 1 << 63, u64::MAX].iter().map(Field::pass::<InMemory>));
        fields.extend([-1, i64::MIN, i64::MAX].iter().map(Field::pass::<InMemory>));
        fields.extend([0, 1 << 64, (1 << 127) - 1, 1 << 127, u128::MAX].iter().map(Field::pass::<InMemory>));
        for field in fields {
            let written = of_field(&field);
            assert_eq!(written, key(vec![Datum::of(&field)]), "{field}");
            assert_eq!(written.texts(&CallerNames::default()), [field.to_string()]);
        }
        let mut none = Key::new(0, WORDS);
        none.add_field(None).unwrap();
        assert_eq!(none.shape, key(vec![Err(Fault::Missing)]).shape);
    }

    #[test]
    fn equal_values_are_equal_keys() {
        assert_eq!(key(vec![Ok(Datum::Float(0.0))]), key(vec![Ok(Datum::Float(-0.0))]));
        assert_eq!(key(vec![Ok(Datum::Float(f64::NAN))]), key(vec![Ok(Datum::Float(-f64::NAN))]));
        assert_ne!(key(vec![Ok(text("ab")), Ok(text("c"))]), key(vec![Ok(text("a")), Ok(text("bc"))]));
    }
}
