//! An event's payload as values. A payload that is too short, because somebody changed the file,
//! gives fewer values; nothing is read beyond it.

use crate::item::{Definition, FieldValue};
use crate::layout::field;

/// Returns the stack pointer and the fields' values.
pub(super) fn decode(definition: &Definition, payload: &[u64]) -> (Option<u64>, Vec<FieldValue>) {
    let mut rest = payload;
    let frame = if definition.may_skip_exit { word(&mut rest) } else { None };
    let count = definition.fields.len();
    let (types, mut rest) = rest.split_at(count.div_ceil(8).min(rest.len()));
    let types = types.iter().flat_map(|word| word.to_le_bytes()).take(count);
    // A later writer's type has a value of unknown length, so those after it can't be found.
    let mut are_found = true;
    let fields = types.map(|ty| {
        are_found &= matches!(ty, field::U64..=field::FORMATTED | field::ABSENT..=field::UNREADABLE);
        let value = if are_found { value(ty, &mut rest) } else { Some(FieldValue::Unknown) };
        value.unwrap_or(FieldValue::LeftOut)
    });
    (frame, fields.collect())
}

fn word(rest: &mut &[u64]) -> Option<u64> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

fn wide(rest: &mut &[u64]) -> Option<u128> {
    let low = word(rest)?;
    Some(u128::from(low) | u128::from(word(rest)?) << 64)
}

fn value(ty: u8, rest: &mut &[u64]) -> Option<FieldValue> {
    Some(match ty {
        field::U64 => FieldValue::U64(word(rest)?),
        field::I64 => FieldValue::I64(word(rest)?.cast_signed()),
        field::U128 => FieldValue::U128(wide(rest)?),
        field::I128 => FieldValue::I128(wide(rest)?.cast_signed()),
        field::F64 => FieldValue::F64(f64::from_bits(word(rest)?)),
        field::BOOL => FieldValue::Bool(word(rest)? != 0),
        field::CHAR => {
            let letter = u32::try_from(word(rest)?).ok().and_then(char::from_u32);
            FieldValue::Char(letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        }
        field::STR => bytes(rest).map(|(bytes, cut)| FieldValue::Str { text: text(&bytes, cut), cut })?,
        field::FORMATTED => {
            bytes(rest).map(|(bytes, cut)| FieldValue::Formatted { text: text(&bytes, cut), cut })?
        }
        field::BYTES => bytes(rest).map(|(bytes, cut)| FieldValue::Bytes { bytes, cut })?,
        field::OPAQUE => bytes(rest).map(|(bytes, cut)| FieldValue::Opaque(text(&bytes, cut)))?,
        field::ABSENT => FieldValue::Absent,
        field::FAILED => FieldValue::Failed,
        field::UNREADABLE => FieldValue::Unreadable,
        field::LEFT_OUT => FieldValue::LeftOut,
        _ => FieldValue::Unknown,
    })
}

/// Returns the stored bytes, and the number of those that were cut off.
fn bytes(rest: &mut &[u64]) -> Option<(Vec<u8>, u32)> {
    let length = word(rest)?;
    let (stored, whole) = (length & u64::from(u32::MAX), length >> 32);
    let stored = usize::try_from(stored).ok()?;
    let words = rest.get(..stored.div_ceil(8))?;
    *rest = &rest[words.len()..];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(stored);
    Some((bytes, u32::try_from(whole.saturating_sub(stored as u64)).ok()?))
}

/// Returns bytes as text. A character that the cut has divided is left out.
fn text(bytes: &[u8], cut: u32) -> String {
    match std::str::from_utf8(bytes) {
        Err(error) if cut != 0 && error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}
