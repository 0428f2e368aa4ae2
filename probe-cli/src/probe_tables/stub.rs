//! Stubs, which lead from a site to its definition.

/// Bytes to read at a stub's address. The longest entry of a linkage table has 11.
pub(super) const READ: usize = 11;
/// Bytes of a stub.
pub(super) const LEN: usize = 10;

/// The code at a stub's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StubCode {
    /// A stub, and the address of its definition.
    Definition(u64),
    /// An entry of a procedure linkage table, and the address of its pointer.
    Linkage(u64),
}

pub(super) fn decode(addr: u64, bytes: &[u8]) -> Option<StubCode> {
    let relative = |end: usize| -> Option<u64> {
        let rel = bytes.get(end - 4..end)?.try_into().ok()?;
        Some(addr.wrapping_add(end as u64).wrapping_add_signed(i32::from_le_bytes(rel).into()))
    };
    // push rdi; lea rdi, [rip + rel32]; jmp [rdi]
    if bytes.starts_with(&[0x57, 0x48, 0x8d, 0x3d]) && bytes.get(8..LEN) == Some(&[0xff, 0x27]) {
        return relative(8).map(StubCode::Definition);
    }
    // endbr64, bnd, jmp [rip + rel32]
    let mut at = if bytes.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
    at += usize::from(bytes.get(at) == Some(&0xf2));
    (bytes.get(at..at + 2) == Some(&[0xff, 0x25])).then(|| relative(at + 6).map(StubCode::Linkage))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_and_entries_of_linkage_tables() {
        let stub = [0x57, 0x48, 0x8d, 0x3d, 0x10, 0, 0, 0, 0xff, 0x27, 0xcc];
        assert_eq!(decode(0x1000, &stub), Some(StubCode::Definition(0x1018)));
        assert_eq!(decode(0x1000, &stub[..9]), None);
        let plain = [0xff, 0x25, 0xfa, 0xff, 0xff, 0xff, 0x68, 0, 0, 0, 0];
        assert_eq!(decode(0x1000, &plain), Some(StubCode::Linkage(0x1000)));
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x01, 0, 0, 0];
        assert_eq!(decode(0x1000, &marked), Some(StubCode::Linkage(0x100c)));
        assert_eq!(decode(0x1000, &[0x90; 11]), None);
        assert_eq!(decode(0x1000, &[]), None);
    }
}
