//! The frame of a signal that the kernel did not send (pure).
//!
//! ```text
//! a stopped thread's stack      higher addresses
//!   its frames
//!   the red zone, 128 bytes     ◀─ its stack pointer
//!   extended state              aligned to 64; ends with a magic number
//!   ucontext                    registers, mask, address of the extended state
//!   the restorer's address      ◀─ the stack pointer during the call; 8 below a multiple of 16
//! ```
//! The function that is called returns to the restorer, whose one instruction is `rt_sigreturn`.
//! The kernel gives back all that the frame holds, as after any handler. Layout: Linux,
//! `arch/x86/include/uapi/asm/{sigcontext,ucontext}.h` and
//! `arch/x86/kernel/{signal_64,fpu/signal}.c`.

use crate::process::Registers;

/// Bytes below the stack pointer that belong to the function that runs (System V ABI, 3.2.2).
const RED_ZONE: u64 = 128;
/// The extended state is there; the stack segment is there, and is to be restored strictly.
const FLAGS: u64 = 1 | 2 | 4;
/// Flags of an alternative stack that are none. The kernel keeps the thread's own stack then.
const NO_STACK: u32 = 3;
/// Marks the begin and the end of the extended state.
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// Places in the extended state: the kernel's own words, and the mask of parts that are in use.
const OWN_WORDS: usize = 464;
const IN_USE: usize = 512;
/// Bytes of the oldest part and the header.
pub const LEAST: usize = 576;
/// The tiles of AMX: in a frame only if a thread has them in use.
const TILES: u64 = 1 << 18;
/// Bytes of the restorer's address and of `struct ucontext`, and of the registers' place in it.
const HEAD: usize = 8 + 304;
const REGISTERS: usize = 8 + 40;
/// A bound of a frame's bytes, with the red zone.
pub const MOST: u64 = 16 << 10;

/// Bytes to write to a thread's stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The address of its first byte.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Makes the frame that gives back these registers, this extended state and this mask. `size_of`
/// tells the bytes of an extended state with some parts. `None` if the extended state is not in the
/// layout that a processor gives.
pub fn frame(
    registers: &Registers,
    mask: u64,
    mut extended: Vec<u8>,
    restorer: u64,
    size_of: impl Fn(u64) -> usize,
) -> Option<Frame> {
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let in_use = word(&extended, IN_USE)?;
    let mut parts = word(&extended, OWN_WORDS)?;
    if in_use & TILES == 0 {
        // The kernel takes no frame that is larger than its own would be.
        parts &= !TILES;
    }
    let size = size_of(parts).max(LEAST);
    if size > extended.len() || in_use & !parts != 0 {
        return None;
    }
    extended.truncate(size);
    let mut own = [0_u8; 48];
    own[..4].copy_from_slice(&MAGIC_1.to_le_bytes());
    own[4..8].copy_from_slice(&u32::try_from(size + 4).ok()?.to_le_bytes());
    own[8..16].copy_from_slice(&parts.to_le_bytes());
    own[16..20].copy_from_slice(&u32::try_from(size).ok()?.to_le_bytes());
    extended[OWN_WORDS..IN_USE].copy_from_slice(&own);
    extended.extend(MAGIC_2.to_le_bytes());

    let extended_at = registers.rsp.checked_sub(RED_ZONE + extended.len() as u64)? & !63;
    let address = (extended_at.checked_sub(HEAD as u64)? & !15) - 8;
    let mut bytes = vec![0; usize::try_from(extended_at - address).ok()?];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, restorer);
    put(8, FLAGS);
    put(8 + 24, NO_STACK.into());
    let r = registers;
    let general = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
        r.rcx, r.rsp, r.rip, r.eflags,
    ];
    let segments = (r.cs & 0xffff) | (r.ss & 0xffff) << 48;
    for (at, value) in general.into_iter().chain([segments]).enumerate() {
        put(REGISTERS + at * 8, value);
    }
    // Behind an error code, a trap, an old mask and an address.
    put(REGISTERS + 23 * 8, extended_at);
    put(REGISTERS + 32 * 8, mask);
    bytes.extend(extended);
    Some(Frame { address, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parts, the second one behind the header, and a third one of tiles.
    fn sizes(parts: u64) -> usize {
        if parts & TILES == 0 { 832 } else { 11008 }
    }

    fn extended(in_use: u64) -> Vec<u8> {
        let mut extended: Vec<u8> = (0..11008_usize).map(|at| u8::try_from(at % 255).unwrap()).collect();
        extended[OWN_WORDS..][..8].copy_from_slice(&(7 | TILES).to_le_bytes());
        extended[IN_USE..][..8].copy_from_slice(&in_use.to_le_bytes());
        extended
    }

    fn registers() -> Registers {
        Registers {
            r15: 15,
            r14: 14,
            r13: 13,
            r12: 12,
            rbp: 5,
            rbx: 3,
            r11: 11,
            r10: 10,
            r9: 9,
            r8: 8,
            rax: 1,
            rcx: 2,
            rdx: 4,
            rsi: 6,
            rdi: 7,
            orig_rax: 0,
            rip: 0x4000,
            cs: 0x33,
            eflags: 0x202,
            rsp: 0x7fff_1234,
            ss: 0x2b,
            fs_base: 0,
            gs_base: 0,
            ds: 0,
            es: 0,
            fs: 0,
            gs: 0,
        }
    }

    fn word(frame: &Frame, at: usize) -> u64 {
        u64::from_le_bytes(frame.bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn a_frame_holds_all_registers_in_the_kernels_layout() {
        let frame = frame(&registers(), 0xfeed, extended(3), 0xabc, sizes).unwrap();
        assert_eq!(frame.address % 16, 8);
        let end = frame.address + frame.bytes.len() as u64;
        assert!(end <= 0x7fff_1234 - RED_ZONE && end > 0x7fff_1234 - RED_ZONE - 128);
        assert_eq!([word(&frame, 0), word(&frame, 8), word(&frame, 8 + 24)], [0xabc, 7, 3]);
        let general: Vec<_> = (0..18).map(|at| word(&frame, 48 + at * 8)).collect();
        let expected = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 4, 1, 2, 0x7fff_1234, 0x4000, 0x202];
        assert_eq!(general, expected);
        assert_eq!(word(&frame, 48 + 18 * 8), 0x33 | 0x2b << 48);
        assert_eq!(word(&frame, 48 + 32 * 8), 0xfeed);
        let at = word(&frame, 48 + 23 * 8);
        assert_eq!(at % 64, 0);
        let state = &frame.bytes[usize::try_from(at - frame.address).unwrap()..];
        assert_eq!(state.len(), 832 + 4);
        assert_eq!((&state[..464], &state[520..832]), (&extended(3)[..464], &extended(3)[520..832]));
        assert_eq!(&state[464..472], [0x53, 0x58, 0x50, 0x46, 0x44, 3, 0, 0]);
        assert_eq!(&state[472..484], [7, 0, 0, 0, 0, 0, 0, 0, 0x40, 3, 0, 0]);
        assert_eq!(&state[832..], [0x45, 0x58, 0x50, 0x46]);
    }

    #[test]
    fn tiles_are_in_the_frame_if_they_are_in_use() {
        let frame_of = |in_use, length| {
            let mut extended = extended(in_use);
            extended.truncate(length);
            frame(&registers(), 0, extended, 0, sizes)
        };
        let long = frame_of(3 | TILES, 11008).unwrap();
        assert!(long.bytes.len() > 11008 && (long.bytes.len() as u64) + RED_ZONE < MOST);
        assert_eq!(frame_of(3 | TILES, 11007), None);
        assert_eq!(frame_of(3, 831), None);
        assert_eq!(frame_of(3, 100), None);
        assert_eq!(frame_of(8, 11008), None, "a part that is not told");
    }
}
