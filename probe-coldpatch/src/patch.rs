//! Calls of hooks, and the bytes that take their place.

use crate::error::Error;
use probe_core::abi::Kind;

/// Bytes of a site.
pub(crate) const SITE_LEN: usize = 5;
/// The latent site: `nopl 8(%rax,%rax,1)`.
pub(crate) const NOP: [u8; SITE_LEN] = [0x0f, 0x1f, 0x44, 0x00, 0x08];
/// A prefix that changes neither the NOP nor a CALL behind it.
const CS: u8 = 0x2e;
const RET: u8 = 0xc3;
const JMP: u8 = 0xe9;
const CALL: u8 = 0xe8;
/// The longest call that is understood: one through a pointer, with a prefix.
const MAX_LEN: usize = 8;

/// The entry or the exit of a function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Probe {
    /// Entry or exit.
    pub kind: Kind,
    /// The function's path.
    pub path: String,
    /// Its source file.
    pub file: String,
    /// Its line in that file, or 0.
    pub line: u32,
}

/// A call of a hook, or a jump to one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The address of the instruction.
    pub addr: u64,
    /// The length of the instruction.
    pub len: usize,
    /// Whether it is a jump: the function ends there.
    pub is_jump: bool,
    /// The number of its probe.
    pub probe: usize,
}

impl Call {
    /// Returns whether its site has to lie elsewhere.
    pub fn needs_thunk(&self) -> bool {
        self.is_jump && self.len <= SITE_LEN
    }

    /// Returns the address of its site, if that takes its place.
    pub(crate) fn site(&self) -> u64 {
        let behind = SITE_LEN + usize::from(self.is_jump);
        self.addr.wrapping_add(self.len.saturating_sub(behind) as u64)
    }

    /// Checks that these bytes, which are at its address, are a call or a jump of its kind.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), Error> {
        let addr = self.addr;
        let is_one = bytes.len() == self.len && Way::of(addr, bytes).is_some_and(|it| it.0 == self.is_jump);
        is_one
            .then_some(())
            .ok_or_else(|| Error::damaged(format_args!("it has no call of a hook at {addr:#x}")))
    }

    /// Returns the bytes that take its place. `thunk` has the address of its site's own code, if
    /// it needs some. Returns `None` if it lacks that, or is out of its reach.
    pub(crate) fn latent(&self, thunk: Option<u64>) -> Option<Vec<u8>> {
        let mut bytes = vec![CS; self.len];
        if let Some(thunk) = thunk {
            bytes[0] = JMP;
            bytes[1..SITE_LEN].copy_from_slice(&rel32(self.addr.wrapping_add(1), thunk)?);
            return Some(bytes);
        }
        let site = self.len.checked_sub(SITE_LEN + usize::from(self.is_jump))?;
        bytes[site..site + SITE_LEN].copy_from_slice(&NOP);
        if self.is_jump {
            bytes[self.len - 1] = RET;
        }
        Some(bytes)
    }
}

/// The way of a call or a jump to a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To this address.
    To(u64),
    /// To the address in the pointer here.
    Through(u64),
}

impl Way {
    /// Decodes the call or the jump that is these bytes at an address: whether it is a jump, and
    /// its way. `None` if it is another instruction, or none that can become a site.
    pub fn of(addr: u64, bytes: &[u8]) -> Option<(bool, Self)> {
        let prefixes = bytes.iter().take_while(|byte| is_prefix(**byte)).count();
        let to = |field: [u8; 4]| {
            let behind = addr.wrapping_add(bytes.len() as u64);
            behind.wrapping_add_signed(i32::from_le_bytes(field).into())
        };
        if bytes.len() > MAX_LEN {
            return None;
        }
        Some(match bytes[prefixes..] {
            [CALL, a, b, c, d] => (false, Self::To(to([a, b, c, d]))),
            [JMP, a, b, c, d] => (true, Self::To(to([a, b, c, d]))),
            [0xff, 0x15, a, b, c, d] => (false, Self::Through(to([a, b, c, d]))),
            [0xff, 0x25, a, b, c, d] => (true, Self::Through(to([a, b, c, d]))),
            _ => return None,
        })
    }
}

/// Returns whether a byte is a prefix that a call or a jump may have.
pub(crate) const fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x2e | 0x3e | 0x67 | 0xf2 | 0xf3 | 0x40..=0x4f)
}

/// The code that a jump of five bytes leads to instead of the hook. The first byte keeps the
/// site away from the beginning.
pub(crate) const THUNK: [u8; 8] = {
    const NOP1: u8 = 0x90;
    let [a, b, c, d, e] = NOP;
    [NOP1, a, b, c, d, e, RET, 0xcc]
};

/// The offset of the site in [`THUNK`].
pub(crate) const SITE_IN_THUNK: u64 = 1;

/// Returns the bytes of the distance from the end of a field of four bytes to `to`.
pub(crate) fn rel32(field: u64, to: u64) -> Option<[u8; 4]> {
    distance(field.wrapping_add(4), to)
}

/// Returns the bytes of a distance; `None` if it is over 2 GiB.
pub(crate) fn distance(from: u64, to: u64) -> Option<[u8; 4]> {
    Some(i32::try_from(to.wrapping_sub(from).cast_signed()).ok()?.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(len: usize, is_jump: bool) -> Call {
        Call { addr: 0x1000, len, is_jump, probe: 0 }
    }

    #[test]
    fn each_form_keeps_its_length() {
        assert_eq!(call(5, false).latent(None).unwrap(), NOP);
        assert_eq!(call(6, false).latent(None).unwrap(), [0x2e, 0x0f, 0x1f, 0x44, 0, 8]);
        assert_eq!(call(6, true).latent(None).unwrap(), [0x0f, 0x1f, 0x44, 0, 8, 0xc3]);
        assert_eq!(call(7, true).latent(None).unwrap(), [0x2e, 0x0f, 0x1f, 0x44, 0, 8, 0xc3]);
        assert_eq!(call(5, true).latent(Some(0x2005)).unwrap(), [0xe9, 0, 0x10, 0, 0]);
        assert_eq!(call(5, true).latent(Some(1 << 40)), None);
        let sites = [call(5, false), call(6, false), call(6, true), call(7, true)].map(|it| it.site());
        assert_eq!(sites, [0x1000, 0x1001, 0x1000, 0x1001]);
    }

    #[test]
    fn other_bytes_are_refused() {
        let known: [(&[u8], bool); 6] = [
            (&[0xe8, 1, 2, 3, 4], false),
            (&[0x67, 0xe8, 1, 2, 3, 4], false),
            (&[0xff, 0x15, 1, 2, 3, 4], false),
            (&[0xe9, 1, 2, 3, 4], true),
            (&[0xff, 0x25, 1, 2, 3, 4], true),
            (&[0x3e, 0xff, 0x25, 1, 2, 3, 4], true),
        ];
        for (bytes, is_jump) in known {
            assert_eq!(call(bytes.len(), is_jump).check(bytes), Ok(()), "{bytes:x?}");
            assert!(call(bytes.len(), !is_jump).check(bytes).is_err(), "{bytes:x?}");
            assert!(call(bytes.len() + 1, is_jump).check(bytes).is_err(), "{bytes:x?}");
            let there = 0x1000 + bytes.len() as u64 + 0x0403_0201;
            let way = if bytes.contains(&0xff) { Way::Through(there) } else { Way::To(there) };
            assert_eq!(Way::of(0x1000, bytes), Some((is_jump, way)));
        }
        for bytes in [
            &[0x90, 1, 2, 3, 4][..],
            &[0x41, 0xff, 0xd4],
            &[0x90, 0xe8, 1, 2, 3, 4],
            &[0xff, 0x35, 0, 0, 0, 0],
        ] {
            assert!(call(bytes.len(), false).check(bytes).is_err(), "{bytes:x?}");
        }
    }
}
