//! The NOPs of compilers, and whether a call can take their place.

use super::{Form, MAX_LEN, NOP, Obstacle};

/// Returns the form of the NOPs at a function's entry.
pub(super) fn entry_form(at: u64, code: &[u8]) -> Result<Form, Obstacle> {
    let singles = code.iter().take(5).take_while(|byte| **byte == NOP).count();
    #[expect(clippy::cast_possible_truncation, reason = "at most 15")]
    match (singles, nop_len(code)) {
        (5, _) => Ok(Form::Bytes),
        (0, Some(len)) if len < 5 => {
            let all = nops_at(code);
            Err(if all < 5 { Obstacle::Short(all as u8) } else { Obstacle::Pieces(len as u8) })
        }
        // Its first two bytes are switched at once.
        (0, Some(7..)) if at % 8 == 7 => Err(Obstacle::Split),
        (0, Some(len)) => Ok(Form::Nop(len as u8)),
        (0, None) => Err(Obstacle::Short(0)),
        (few, _) => {
            let all = nops_at(code);
            Err(if all < 5 { Obstacle::Short(all as u8) } else { Obstacle::Pieces(few.min(1) as u8) })
        }
    }
}

/// Returns the number of bytes of NOPs, up to five.
fn nops_at(code: &[u8]) -> usize {
    let mut at = 0;
    while at < 5
        && let Some(len) = code.get(at..).and_then(nop_len)
    {
        at += len;
    }
    at.min(5)
}

/// Returns whether NOPs fill this many bytes.
pub(super) fn nops(code: &[u8], len: usize) -> bool {
    let mut at = 0;
    while at < len {
        let Some(one) = code.get(at..).and_then(nop_len) else { return false };
        at += one;
    }
    at == len
}

/// Returns the length of the NOP at the beginning of some code.
fn nop_len(code: &[u8]) -> Option<usize> {
    let prefixes = code.iter().take(MAX_LEN).take_while(|byte| matches!(byte, 0x66 | 0x2e)).count();
    let len = prefixes
        + match code.get(prefixes..)? {
            [NOP, ..] => 1,
            [0x0f, 0x1f, modrm, ..] => match modrm {
                0x00 => 3,
                0x40 => 4,
                0x44 => 5,
                0x80 => 7,
                0x84 => 8,
                _ => return None,
            },
            _ => return None,
        };
    (len <= MAX_LEN && len <= code.len()).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nops_have_their_lengths() {
        let lens = [
            (&[0x90][..], 1),
            (&[0x66, 0x90], 2),
            (&[0x0f, 0x1f, 0], 3),
            (&[0x0f, 0x1f, 0x40, 8], 4),
            (&[0x0f, 0x1f, 0x44, 0, 8], 5),
            (&[0x66, 0x0f, 0x1f, 0x44, 0, 8], 6),
            (&[0x0f, 0x1f, 0x80, 0, 2, 0, 0], 7),
            (&[0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0], 8),
            (&[0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0], 10),
        ];
        for (code, len) in lens {
            assert_eq!((nop_len(code), nop_len(&code[..len - 1])), (Some(len), None), "{code:02x?}");
        }
        assert_eq!([&[0xcc][..], &[0x0f, 0x1f, 0xc0], &[0x66]].map(nop_len), [None; 3]);
    }
}
