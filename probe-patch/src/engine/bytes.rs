//! One instruction's bytes.

use std::fmt;
use std::ops::Deref;

/// Length of the longest instruction that can be patched, in bytes.
///
/// ```
/// use probe_patch::{Bytes, MAX_LEN};
/// assert!(Bytes::new(&[0x90; MAX_LEN]).is_some());
/// assert!(Bytes::new(&[0x90; MAX_LEN + 1]).is_none());
/// ```
pub const MAX_LEN: usize = 8;

/// The bytes of one instruction, 1 to 8 of them, the first in the lowest place.
///
/// ```
/// use probe_patch::Bytes;
/// let nop = Bytes::from([0x0f, 0x1f, 0x44, 0x00, 0x00]);
/// assert_eq!(nop.len(), 5);
/// assert_eq!(Bytes::new(&nop), Some(nop));
/// assert_eq!(Bytes::new(&[]), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bytes {
    // Unused places hold zeroes, so that comparing two values compares the instructions.
    raw: [u8; MAX_LEN],
    len: u8,
}

impl Bytes {
    /// Returns an instruction of 1 to 8 bytes; `None` for any other length.
    pub const fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > MAX_LEN {
            return None;
        }
        let mut raw = [0; MAX_LEN];
        let mut at = 0;
        while at < bytes.len() {
            raw[at] = bytes[at];
            at += 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 8")]
        let len = bytes.len() as u8;
        Some(Self { raw, len })
    }

    /// Returns the bytes as a number, the first in the lowest place, zeroes above.
    pub(crate) const fn number(self) -> u64 {
        u64::from_le_bytes(self.raw)
    }

    /// Returns the lowest `len` bytes of a number.
    pub(crate) const fn from_number(number: u64, len: usize) -> Self {
        debug_assert!(0 < len && len <= MAX_LEN);
        let raw = (number & mask(len)).to_le_bytes();
        #[expect(clippy::cast_possible_truncation, reason = "at most 8")]
        let len = len as u8;
        Self { raw, len }
    }
}

/// Returns a mask of the lowest `len` bytes.
pub const fn mask(len: usize) -> u64 {
    if len >= MAX_LEN { u64::MAX } else { (1 << (8 * len)) - 1 }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.raw[..usize::from(self.len)]
    }
}

macro_rules! from_arrays {
    ($($len:literal)*) => {$(
        impl From<[u8; $len]> for Bytes {
            fn from(bytes: [u8; $len]) -> Self {
                let mut raw = [0; MAX_LEN];
                raw[..$len].copy_from_slice(&bytes);
                Self { raw, len: $len }
            }
        }
    )*};
}

from_arrays!(1 2 3 4 5 6 7 8);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", &**self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_outside_one_to_eight_are_refused() {
        assert_eq!(Bytes::new(&[]), None);
        assert_eq!(Bytes::new(&[0; 9]), None);
        for len in 1..=MAX_LEN {
            assert_eq!(Bytes::new(&vec![7; len]).map(|bytes| bytes.len()), Some(len));
        }
    }

    #[test]
    fn numbers_and_bytes_agree() {
        let bytes = Bytes::from([1, 2, 3]);
        assert_eq!(bytes.number(), 0x03_02_01);
        assert_eq!(Bytes::from_number(0xffff_ff03_0201, 3), bytes);
        assert_eq!(Bytes::from_number(u64::MAX, 8), Bytes::from([0xff; 8]));
        assert_eq!(format!("{bytes:?}"), "[01, 02, 03]");
    }
}
