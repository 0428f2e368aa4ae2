//! Reads a stub to find the definition of a site.
//!
//! ```text
//! 57               push rdi
//! 48 8d 3d rel32   lea rdi, [rip + rel32]      the definition
//! ff 27            jmp [rdi]                   its entry
//! ```
//! A generic function that another shared object instantiates reaches its stub through that
//! object's PLT: `[f3 0f 1e fa] [f2] ff 25 rel32`, a jump through a pointer. Pure, except for
//! `read`.

pub(crate) const STUB_LEN: usize = 10;

const PUSH_LEA_RDI: [u8; 4] = [0x57, 0x48, 0x8d, 0x3d];
const JMP_AT_RDI: [u8; 2] = [0xff, 0x27];
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const BND: u8 = 0xf2;
const JMP_AT_RIP: [u8; 2] = [0xff, 0x25];

/// The code at a stub's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StubCode {
    /// A stub, and the address of its definition.
    Definition(usize),
    /// An entry of a procedure linkage table, and the address of its pointer.
    Plt(usize),
}

/// Decodes the bytes at `addr`, of which the caller passes at least [`STUB_LEN`].
#[inline]
pub(crate) fn decode(addr: usize, bytes: &[u8]) -> Option<StubCode> {
    let relative = |end: usize, at: usize| -> Option<usize> {
        let rel = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(addr.wrapping_add(end).wrapping_add_signed(i32::from_le_bytes(rel) as isize))
    };
    if bytes.starts_with(&PUSH_LEA_RDI) && bytes.get(8..STUB_LEN)? == JMP_AT_RDI {
        return relative(8, 4).map(StubCode::Definition);
    }
    let mut at = if bytes.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    at += usize::from(bytes.get(at) == Some(&BND));
    (bytes.get(at..at + 2)? == JMP_AT_RIP).then(|| relative(at + 6, at + 2).map(StubCode::Plt))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stub_names_its_definition() {
        let bytes = [0x57, 0x48, 0x8d, 0x3d, 0x10, 0, 0, 0, 0xff, 0x27];
        assert_eq!(decode(0x1000, &bytes), Some(StubCode::Definition(0x1018)));
    }

    #[test]
    fn linkage_tables_of_both_linkers() {
        let lld = [0xff, 0x25, 0xfa, 0xff, 0xff, 0xff, 0x68, 0, 0];
        assert_eq!(decode(0x1000, &lld), Some(StubCode::Plt(0x1000)));
        let bfd = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x01, 0, 0, 0];
        assert_eq!(decode(0x1000, &bfd), Some(StubCode::Plt(0x100c)));
        let plain = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x01, 0, 0, 0, 0x66];
        assert_eq!(decode(0x1000, &plain), Some(StubCode::Plt(0x100b)));
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(decode(0x1000, &[]), None);
        assert_eq!(decode(0x1000, &[0x57, 0x48, 0x8d, 0x3d, 0, 0, 0, 0]), None);
        assert_eq!(decode(0x1000, &[0x57, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0xff, 0xe7]), None);
        assert_eq!(decode(0x1000, &[0x90; 16]), None);
    }

    proptest! {
        #[test]
        fn never_panics(addr: usize, bytes: Vec<u8>) {
            let _ = decode(addr, &bytes);
        }
    }
}
