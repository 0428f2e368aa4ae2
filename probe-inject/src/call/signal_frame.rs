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
//! The called function returns to the restorer, which makes the system call `rt_sigreturn`. The
//! kernel restores all that the frame holds, as after any handler. Layout: Linux,
//! `arch/x86/include/uapi/asm/{sigcontext,ucontext}.h` and
//! `arch/x86/kernel/{signal_64,fpu/signal}.c`.

use crate::process::Registers;

/// The bytes below the stack pointer that belong to the running function (System V ABI, 3.2.2).
const RED_ZONE_BYTES: u64 = 128;
/// `UC_FP_XSTATE`, `UC_SIGCONTEXT_SS` and `UC_STRICT_RESTORE_SS`.
const UC_FLAGS: u64 = 1 | 2 | 4;
/// Invalid flags of an alternative stack, with which the kernel keeps the thread's own one.
const SS_FLAGS: u32 = 3;
/// Mark the begin and the end of the extended state.
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// Offsets in the extended state: of the words that are the kernel's own (`sw_reserved`), and of
/// the mask of components in use (`XSTATE_BV`).
const SW_RESERVED: usize = 464;
const XSTATE_BV: usize = 512;
/// The bytes of the legacy region and the header.
pub const MIN_XSTATE_BYTES: usize = 576;
/// The component of AMX's tile data. A frame has it only if the thread uses it.
const XTILE_DATA: u64 = 1 << 18;
/// The bytes of the restorer's address and `struct ucontext`, and the offset of the registers
/// there.
const HEAD_BYTES: usize = 8 + 304;
const REGISTERS: usize = 8 + 40;
/// The most bytes of a frame, the red zone included.
pub const MAX_FRAME_BYTES: u64 = 16 << 10;

/// Bytes to write to a thread's stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignalFrame {
    /// The address of the first byte.
    pub address: u64,
    pub bytes: Vec<u8>,
}

impl SignalFrame {
    /// Makes the frame from which the kernel restores these registers, this mask and this extended
    /// state. `xstate_bytes` returns the size of an extended state with some components. `None` if
    /// the extended state does not have the layout that the processor describes.
    pub fn new(
        registers: &Registers,
        mask: u64,
        mut xstate: Vec<u8>,
        restorer: u64,
        xstate_bytes: impl Fn(u64) -> usize,
    ) -> Option<Self> {
        let word =
            |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let in_use = word(&xstate, XSTATE_BV)?;
        let mut components = word(&xstate, SW_RESERVED)?;
        if in_use & XTILE_DATA == 0 {
            // The kernel refuses a frame that is larger than its own would be.
            components &= !XTILE_DATA;
        }
        let size = xstate_bytes(components).max(MIN_XSTATE_BYTES);
        if size > xstate.len() || in_use & !components != 0 {
            return None;
        }
        xstate.truncate(size);
        let mut sw_reserved = [0_u8; 48];
        sw_reserved[..4].copy_from_slice(&FP_XSTATE_MAGIC1.to_le_bytes());
        sw_reserved[4..8].copy_from_slice(&u32::try_from(size + 4).ok()?.to_le_bytes());
        sw_reserved[8..16].copy_from_slice(&components.to_le_bytes());
        sw_reserved[16..20].copy_from_slice(&u32::try_from(size).ok()?.to_le_bytes());
        xstate[SW_RESERVED..XSTATE_BV].copy_from_slice(&sw_reserved);
        xstate.extend(FP_XSTATE_MAGIC2.to_le_bytes());

        let xstate_at = registers.rsp.checked_sub(RED_ZONE_BYTES + xstate.len() as u64)? & !63;
        let address = (xstate_at.checked_sub(HEAD_BYTES as u64)? & !15) - 8;
        let mut bytes = vec![0; usize::try_from(xstate_at - address).ok()?];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(0, restorer);
        put(8, UC_FLAGS);
        put(8 + 24, SS_FLAGS.into());
        let r = registers;
        let general = [
            r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
            r.rcx, r.rsp, r.rip, r.eflags,
        ];
        let segments = (r.cs & 0xffff) | (r.ss & 0xffff) << 48;
        for (at, value) in general.into_iter().chain([segments]).enumerate() {
            put(REGISTERS + at * 8, value);
        }
        // Before these, an error code, a trap, an old mask and an address stay 0.
        put(REGISTERS + 23 * 8, xstate_at);
        put(REGISTERS + 32 * 8, mask);
        bytes.extend(xstate);
        Some(Self { address, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two components, the second one behind the header, and a third one of tiles.
    fn xstate_bytes(components: u64) -> usize {
        if components & XTILE_DATA == 0 { 832 } else { 11008 }
    }

    fn xstate(in_use: u64) -> Vec<u8> {
        let mut xstate: Vec<u8> = (0..11008_usize).map(|at| u8::try_from(at % 255).unwrap()).collect();
        xstate[SW_RESERVED..][..8].copy_from_slice(&(7 | XTILE_DATA).to_le_bytes());
        xstate[XSTATE_BV..][..8].copy_from_slice(&in_use.to_le_bytes());
        xstate
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

    fn word(frame: &SignalFrame, at: usize) -> u64 {
        u64::from_le_bytes(frame.bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn a_frame_holds_all_registers_in_the_kernels_layout() {
        let frame = SignalFrame::new(&registers(), 0xfeed, xstate(3), 0xabc, xstate_bytes).unwrap();
        assert_eq!(frame.address % 16, 8);
        let end = frame.address + frame.bytes.len() as u64;
        assert!(end <= 0x7fff_1234 - RED_ZONE_BYTES && end > 0x7fff_1234 - RED_ZONE_BYTES - 128);
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
        assert_eq!((&state[..464], &state[520..832]), (&xstate(3)[..464], &xstate(3)[520..832]));
        assert_eq!(&state[464..472], [0x53, 0x58, 0x50, 0x46, 0x44, 3, 0, 0]);
        assert_eq!(&state[472..484], [7, 0, 0, 0, 0, 0, 0, 0, 0x40, 3, 0, 0]);
        assert_eq!(&state[832..], [0x45, 0x58, 0x50, 0x46]);
    }

    #[test]
    fn tiles_are_in_the_frame_if_they_are_in_use() {
        let frame_of = |in_use, length| {
            let mut xstate = xstate(in_use);
            xstate.truncate(length);
            SignalFrame::new(&registers(), 0, xstate, 0, xstate_bytes)
        };
        let long = frame_of(3 | XTILE_DATA, 11008).unwrap();
        assert!(long.bytes.len() > 11008 && (long.bytes.len() as u64) + RED_ZONE_BYTES < MAX_FRAME_BYTES);
        assert_eq!(frame_of(3 | XTILE_DATA, 11007), None);
        assert_eq!(frame_of(3, 831), None);
        assert_eq!(frame_of(3, 100), None);
        assert_eq!(frame_of(8, 11008), None, "an unknown component");
    }
}
