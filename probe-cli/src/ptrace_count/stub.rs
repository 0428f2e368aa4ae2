//! The code that counts a site's hits in a program without a runtime. Pure.
//!
//! ```text
//! site: jmp stub          stub: lea rsp, [rsp - 128]      behind the red zone
//!                           5   pushfq
//!                           6   lock inc qword [counter]
//!                          14   popfq
//!                          15   lea rsp, [rsp + 128]
//!                          23   jmp site + 5
//! ```
//! No register changes but the flags, which come back. The increment has a lock: nobody knows how a
//! program without a runtime tells its threads apart.
//!
//! A stub has no call, and no address of it is anywhere but in the site: a thread that is in it
//! stands at one of six places, and [`remainder`] tells the work that remains.

/// Bytes of a site's instruction.
pub const SITE_LEN: u64 = 5;
/// Bytes from one stub to the next.
pub const STUB_LEN: u64 = STUB_SIZE as u64;
const STUB_SIZE: usize = 32;
const RED_ZONE: u64 = 128;

/// Returns the JMP that leads from an address to another; `None` if it is too far.
pub fn jump(from: u64, to: u64) -> Option<[u8; 5]> {
    let [a, b, c, d] = distance(from.wrapping_add(SITE_LEN), to)?;
    Some([0xe9, a, b, c, d])
}

fn distance(from: u64, to: u64) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(from).cast_signed()).ok().map(i32::to_le_bytes)
}

/// Returns the code of a stub; `None` if counter or site are too far.
pub fn stub(at: u64, counter: u64, site: u64) -> Option<[u8; STUB_SIZE]> {
    let mut code = [0xcc; STUB_SIZE];
    code[..5].copy_from_slice(&[0x48, 0x8d, 0x64, 0x24, 0x80]);
    code[5] = 0x9c;
    code[6..10].copy_from_slice(&[0xf0, 0x48, 0xff, 0x05]);
    code[10..14].copy_from_slice(&distance(at + 14, counter)?);
    code[14] = 0x9d;
    code[15..23].copy_from_slice(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]);
    code[23..28].copy_from_slice(&jump(at + 23, site.wrapping_add(SITE_LEN))?);
    Some(code)
}

/// The rest of a stub for a thread in it, before the thread goes on behind the site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remainder {
    /// Whether its hit is not counted.
    pub counts: bool,
    /// Whether its flags lie on the stack.
    pub has_flags: bool,
    /// Bytes to add to the stack pointer, the flags' included.
    pub stack: u64,
}

/// Returns the work that remains at this place of a stub; `None` if no instruction begins there.
pub fn remainder(place: u64) -> Option<Remainder> {
    let (counts, has_flags, stack) = match place {
        0 => (true, false, 0),
        5 => (true, false, RED_ZONE),
        6 => (true, true, RED_ZONE + 8),
        14 => (false, true, RED_ZONE + 8),
        15 => (false, false, RED_ZONE),
        23 => (false, false, 0),
        _ => return None,
    };
    Some(Remainder { counts, has_flags, stack })
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    use super::*;

    #[test]
    fn a_stub_counts_and_goes_back() {
        let (at, counter, site) = (0x50_0000, 0x50_1000, 0x40_1238);
        let code = stub(at, counter, site).unwrap();
        let all: Vec<_> = Decoder::with_ip(64, &code[..28], at, DecoderOptions::NONE).into_iter().collect();
        let places: Vec<_> = all.iter().map(|it| it.ip() - at).collect();
        assert_eq!(places, [0, 5, 6, 14, 15, 23]);
        assert!(places.iter().all(|it| remainder(*it).is_some()));
        assert_eq!((0..STUB_LEN).filter(|it| remainder(*it).is_some()).count(), places.len());
        let names: Vec<_> = all.iter().map(iced_x86::Instruction::mnemonic).collect();
        let expected =
            [Mnemonic::Lea, Mnemonic::Pushfq, Mnemonic::Inc, Mnemonic::Popfq, Mnemonic::Lea, Mnemonic::Jmp];
        assert_eq!(names, expected);
        assert_eq!(all[2].ip_rel_memory_address(), counter);
        assert!(all[2].has_lock_prefix());
        assert_eq!(all[5].near_branch_target(), site + SITE_LEN);
        let to = Decoder::with_ip(64, &jump(site, at).unwrap(), site, DecoderOptions::NONE).decode();
        assert_eq!(to.near_branch_target(), at);
    }

    #[test]
    fn too_far_is_told() {
        assert_eq!(jump(0x1000, 0x1000 + (1 << 32)), None);
        assert_eq!(stub(0x1000, 0x2000, 1 << 33), None);
        assert_eq!(stub(0x1000, 1 << 33, 0x2000), None);
    }
}
