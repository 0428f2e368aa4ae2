//! The keys of one group, as bytes that are equal if the keys are.
//!
//! ```text
//! integer    1 (8 bytes) | 2 (16 bytes)
//! float      3 (8 bytes)       truth value  4 (1)        character  5 (4)
//! text       6 length, bytes                             cut text   7 length, bytes, hash of the whole (8)
//! no value   8
//! ```

use std::fmt::{self, Write};

use crate::expression::{Datum, Fault};

/// Room for all keys of a group, in bytes.
const ROOM: usize = 128;
pub(super) const WORDS: usize = ROOM / 8;

/// Bytes that one key takes besides its text.
const OVERHEAD: usize = 10;

const INT: u8 = 1;
const WIDE: u8 = 2;
const FLOAT: u8 = 3;
const BOOL: u8 = 4;
const CHAR: u8 = 5;
const TEXT: u8 = 6;
const CUT: u8 = 7;
const NONE: u8 = 8;

/// Keys while they are written.
pub(super) struct Key {
    bytes: [u8; ROOM],
    len: usize,
    /// The most bytes of one text.
    text: usize,
}

impl Key {
    /// Creates room for this many keys.
    #[inline]
    pub(super) fn new(keys: usize) -> Self {
        Self { bytes: [0; ROOM], len: 0, text: (ROOM / keys.max(1)).saturating_sub(OVERHEAD) }
    }

    /// Creates it of words that were read.
    #[cold]
    pub(super) fn of(words: impl Iterator<Item = u64>, len: usize) -> Self {
        let mut key = Self::new(1);
        for (place, word) in key.bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        key.len = len.min(ROOM);
        key
    }

    /// Returns the keys as words, padded with zeros.
    #[inline]
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.bytes.chunks_exact(8).take(self.len.div_ceil(8));
        words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn put(&mut self, tag: u8, bytes: &[u8]) {
        // Keys and their texts are limited, so all of them fit.
        let end = self.len + 1 + bytes.len();
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place[0] = tag;
            place[1..].copy_from_slice(bytes);
            self.len = end;
        }
    }

    /// Adds a key; a value that is missing is one, too.
    #[inline]
    pub(super) fn add(&mut self, datum: Result<Datum<'_>, Fault>) -> Result<(), Fault> {
        match datum {
            Ok(Datum::Int(it)) => match i64::try_from(it) {
                Ok(it) => self.put(INT, &it.to_le_bytes()),
                Err(_) => self.put(WIDE, &it.to_le_bytes()),
            },
            // Both zeros are equal, and so are all NaNs.
            Ok(Datum::Float(0.0)) => self.put(FLOAT, &0_f64.to_le_bytes()),
            Ok(Datum::Float(it)) if it.is_nan() => self.put(FLOAT, &f64::NAN.to_le_bytes()),
            Ok(Datum::Float(it)) => self.put(FLOAT, &it.to_le_bytes()),
            Ok(Datum::Bool(it)) => self.put(BOOL, &[it.into()]),
            Ok(Datum::Char(it)) => self.put(CHAR, &u32::from(it).to_le_bytes()),
            Ok(Datum::Text(it)) => self.add_text(it.bytes),
            Err(Fault::Missing) => self.put(NONE, &[]),
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Adds a value that formats itself.
    #[cold]
    pub(super) fn add_shown(&mut self, value: &dyn fmt::Display) {
        let mut shown = Shown { text: [0; SHOWN], len: 0 };
        // It may be cut.
        let _ = write!(shown, "{value}");
        self.add_text(&shown.text[..shown.len]);
    }

    #[inline]
    fn add_text(&mut self, text: &[u8]) {
        #[expect(clippy::cast_possible_truncation, reason = "less than the room")]
        let start = |most: usize| (text.len().min(most) as u8, &text[..text.len().min(most)]);
        let (len, kept) = start(self.text);
        let is_whole = kept.len() == text.len();
        self.put(if is_whole { TEXT } else { CUT }, &[len]);
        let hash = text.chunks(8).fold(text.len() as u64, |hash, bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            mixed(hash, u64::from_le_bytes(word))
        });
        let rest: &[u8] = if is_whole { &[] } else { &hash.to_le_bytes() };
        for bytes in [kept, rest] {
            if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
                place.copy_from_slice(bytes);
                self.len += bytes.len();
            }
        }
    }
}

/// Adds a word to a hash.
#[inline]
pub(super) fn mixed(hash: u64, word: u64) -> u64 {
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

/// Reads the keys of a group as texts.
pub(super) fn read(bytes: &[u8]) -> Vec<String> {
    let (mut keys, mut rest) = (Vec::new(), bytes);
    while let Some((tag, after)) = rest.split_first() {
        let (key, len) = match *tag {
            INT => (number::<8>(after).map(|it| i64::from_le_bytes(it).to_string()), 8),
            WIDE => (number::<16>(after).map(|it| i128::from_le_bytes(it).to_string()), 16),
            FLOAT => (number::<8>(after).map(|it| f64::from_le_bytes(it).to_string()), 8),
            BOOL => (after.first().map(|it| (*it != 0).to_string()), 1),
            CHAR => {
                let c = number::<4>(after).and_then(|it| char::from_u32(u32::from_le_bytes(it)));
                (c.map(String::from), 4)
            }
            NONE => (Some("(absent)".to_owned()), 0),
            tag @ (TEXT | CUT) => {
                let len = after.first().map_or(0, |len| usize::from(*len));
                let text = after.get(1..=len).map(String::from_utf8_lossy);
                let more = if tag == CUT { "…" } else { "" };
                (text.map(|text| format!("{}{more}", text.trim_end_matches('\u{fffd}'))), {
                    1 + len + if tag == CUT { 8 } else { 0 }
                })
            }
            _ => return keys,
        };
        keys.extend(key);
        rest = after.get(len..).unwrap_or_default();
    }
    keys
}

fn number<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.get(..N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::TextStart;

    fn text(text: &str) -> Datum<'_> {
        Datum::Text(TextStart { bytes: text.as_bytes(), is_whole: true })
    }

    fn key(data: Vec<Result<Datum<'_>, Fault>>) -> Vec<u8> {
        let mut key = Key::new(data.len());
        data.into_iter().for_each(|datum| key.add(datum).unwrap());
        key.bytes[..key.len].to_vec()
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let all = key(vec![Ok(Datum::Int(-7)), Ok(text("a")), Err(Fault::Missing), Ok(Datum::Bool(true))]);
        assert_eq!(read(&all), ["-7", "a", "(absent)", "true"]);
        let all = key(vec![Ok(Datum::Int(1 << 64)), Ok(Datum::Char('é')), Ok(Datum::Float(0.5))]);
        assert_eq!(read(&all), ["18446744073709551616", "é", "0.5"]);
    }

    #[test]
    fn long_texts_stay_apart_although_they_are_cut() {
        let [a, b] = ["a", "b"].map(|end| key(vec![Ok(text(&("/".repeat(200) + end)))]));
        assert_ne!(a, b);
        assert_eq!(read(&a), [format!("{}…", "/".repeat(118))]);
        assert_eq!(read(&a), read(&b));
        let four = key(vec![Ok(text("long, and longer than thirty bytes")); 4]);
        assert_eq!(read(&four), ["long, and longer than …"; 4]);
    }

    #[test]
    fn equal_values_are_equal_keys() {
        assert_eq!(key(vec![Ok(Datum::Float(0.0))]), key(vec![Ok(Datum::Float(-0.0))]));
        assert_eq!(key(vec![Ok(Datum::Float(f64::NAN))]), key(vec![Ok(Datum::Float(-f64::NAN))]));
        assert_ne!(key(vec![Ok(text("ab")), Ok(text("c"))]), key(vec![Ok(text("a")), Ok(text("bc"))]));
    }
}
