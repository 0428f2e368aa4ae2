//! The effect of the bytes at a call site.

/// The effect of five fetched bytes at a call site.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Effect {
    /// Calls.
    Call(usize),
    /// Jumps somewhere else.
    Jump(usize),
    /// Continues behind the five bytes.
    Skip,
    /// Traps, and waits for the end of the patch.
    Trap,
    /// Anything else: undefined behaviour.
    Wild,
}

/// Decodes five bytes.
pub(crate) fn effect(addr: usize, bytes: [u8; 5]) -> Effect {
    let target = || {
        let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        (addr + 5).wrapping_add_signed(isize::try_from(distance).expect("64 bits"))
    };
    match bytes {
        [0xe8, ..] => Effect::Call(target()),
        [0xe9, ..] => Effect::Jump(target()),
        // A short jump skips the bytes behind it, whatever they are.
        [0xeb, 0x03, ..] | [0x0f, 0x1f, 0x44, 0x00, _] => Effect::Skip,
        [0xcc, ..] => Effect::Trap,
        _ => Effect::Wild,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_the_truth_table() {
        assert_eq!(effect(0x1000, [0xe8, 0, 0, 0, 0]), Effect::Call(0x1005));
        assert_eq!(effect(0x1000, [0xe9, 0xfb, 0xff, 0xff, 0xff]), Effect::Jump(0x1000));
        assert_eq!(effect(0x1000, [0xeb, 0x03, 1, 2, 3]), Effect::Skip);
        assert_eq!(effect(0x1000, [0xeb, 0x04, 1, 2, 3]), Effect::Wild);
        assert_eq!(effect(0x1000, [0x0f, 0x1f, 0x44, 0x00, 0x08]), Effect::Skip);
        assert_eq!(effect(0x1000, [0x0f, 0x1f, 0x44, 0x01, 0x08]), Effect::Wild);
        assert_eq!(effect(0x1000, [0xcc, 1, 2, 3, 4]), Effect::Trap);
    }
}
