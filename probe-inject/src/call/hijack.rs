//! Hijacking a stopped thread: it runs other code, from which it returns by itself.
//!
//! The thread's stack gets the frame of a signal that the kernel did not send:
//!
//! ```text
//! a stopped thread's stack      higher addresses
//!   its frames
//!   the red zone, 128 bytes     ◀─ its stack pointer
//!   extended state              aligned to 64; ends with a magic number
//!   ucontext                    registers, mask, address of the extended state
//!   the restorer's address      ◀─ the stack pointer during the call; 8 below a multiple of 16
//! ```
//! The called function returns to the restorer, which makes the system call `rt_sigreturn`. A
//! program that is linked statically, and handles no signal, has no restorer. Its ends of functions
//! load the call's number then, by words below these. The kernel restores all that the frame holds,
//! as after any handler. Layout: Linux, `arch/x86/include/uapi/asm/{sigcontext,ucontext}.h` and
//! `arch/x86/kernel/{signal_64,fpu/signal}.c`.

// Safety: relies on the processor having `cpuid`, as every one of 64 bits.
#![expect(unsafe_code, reason = "see above")]

use std::arch::x86_64::__cpuid_count;

use super::safe_point::{Inspector, Unsuitable, prepare_detach};
use crate::error::InjectError;
use crate::process::{Mapping, Memory, Registers, Tracee};

/// Signals that stay unblocked during the call: those that an instruction raises, which would end
/// the process if they were blocked, and the one by which the C library changes the user of all
/// threads (33), which waits for each of them. The one that cancels a thread (32) is blocked: its
/// sender does not wait, and a cancelled thread would leave the call halfway.
const UNBLOCKED_SIGNALS: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30 | 1 << 32;
/// Trap after each instruction, direction, resume, alignment check: clear when a function is
/// called.
const CLEARED_FLAGS: u64 = 1 << 8 | 1 << 10 | 1 << 16 | 1 << 18;

/// Stops a thread, and hijacks it if it is at a safe point. `set_call` sets the registers of the
/// other code, which returns to `ending`. `busy` is the address of a word that tells the
/// thread's id from then on. The inner error is the reason why the thread was not hijacked.
pub fn hijack(
    inspector: &Inspector<'_>,
    tracee: &Tracee,
    ending: Ending,
    busy: Option<u64>,
    set_call: &(dyn Fn(&mut Registers) + Sync),
) -> Result<Result<(), &'static str>, InjectError> {
    let (pid, memory) = (inspector.pid, inspector.memory);
    let hijacked = match inspector.stop(tracee) {
        Ok(point) => {
            let frame =
                SignalFrame::new(&point.registers, point.mask, point.xstate, ending.restorer, xstate_bytes);
            let Some(frame) = frame else {
                let problem = "has an extended state that this processor does not explain".to_owned();
                return Err(InjectError::Unable { pid, problem });
            };
            let mut registers = Registers { orig_rax: u64::MAX, rsp: frame.address, ..point.registers };
            registers.eflags &= !CLEARED_FLAGS;
            set_call(&mut registers);
            let ahead = ending.lead(&mut registers);
            let set = || {
                memory.write(frame.address, &frame.bytes)?;
                memory.write(registers.rsp, &ahead)?;
                if let Some(busy) = busy {
                    memory.write(busy, &u64::from(inspector.id).to_le_bytes())?;
                }
                tracee.set_registers(&registers)
            };
            if let Err(error) = set() {
                if let Some(busy) = busy {
                    // Nothing has happened, so the memory is free.
                    let _ = memory.write(busy, &0_u64.to_le_bytes());
                }
                return Err(InjectError::System { pid, step: "a thread can't be changed", error });
            }
            // If this fails, a handler may run meanwhile, as during any call.
            let _ = tracee.set_mask(point.mask | !UNBLOCKED_SIGNALS);
            Ok(())
        }
        Err(Unsuitable { why, is_stopped: true }) => {
            prepare_detach(pid, inspector.id, tracee);
            Err(why)
        }
        // The kernel detaches it when this thread ends.
        Err(Unsuitable { why, is_stopped: false }) => return Ok(Err(why)),
    };
    // It fails for a thread that has ended.
    let _ = tracee.detach();
    Ok(hijacked)
}

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
const MIN_XSTATE_BYTES: usize = 576;
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
struct SignalFrame {
    /// The address of the first byte.
    address: u64,
    bytes: Vec<u8>,
}

impl SignalFrame {
    /// Makes the frame from which the kernel restores these registers, this mask and this extended
    /// state. `xstate_bytes` returns the size of an extended state with some components. `None` if
    /// the extended state does not have the layout that the processor describes.
    fn new(
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

/// Returns the bytes of an extended state with these components in the standard layout (Intel SDM
/// 1, 13.4.3).
fn xstate_bytes(components: u64) -> usize {
    const XSTATE_LEAF: u32 = 0xd;
    let end = |component: u32| {
        // SAFETY: each processor of 64 bits has the instruction, which reads registers only.
        #[allow(unused_unsafe, reason = "it is safe in later versions of Rust")]
        let described = unsafe { __cpuid_count(XSTATE_LEAF, component) };
        described.eax as usize + described.ebx as usize
    };
    let ends = (2..63).filter(|component| components >> component & 1 == 1).map(end);
    ends.max().unwrap_or(0).max(MIN_XSTATE_BYTES)
}

/// The way from the end of a call to `rt_sigreturn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// The address in the frame's first word.
    restorer: u64,
    /// Code ahead of a restorer that does not load the number of its system call.
    loader: Option<Loader>,
}

/// Code that loads a register into `rax`, pops registers, and returns. Each program has some at the
/// end of a function. A call from outside keeps the register, as each call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Loader {
    address: u64,
    register: KeptRegister,
    pops: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeptRegister {
    Rbx,
    Rbp,
    R12,
    R14,
    R15,
}

impl Ending {
    /// Makes the end of a call that returns to code which loads the number of `rt_sigreturn`, and
    /// makes the system call.
    pub fn at(restorer: u64) -> Self {
        Self { restorer, loader: None }
    }

    /// Sets the registers, whose stack pointer is at the frame, such that a `ret` begins the way.
    /// Returns the bytes between the stack pointer and the frame.
    fn lead(self, registers: &mut Registers) -> Vec<u8> {
        let Some(Loader { address, register, pops }) = self.loader else { return Vec::new() };
        *match register {
            KeptRegister::Rbx => &mut registers.rbx,
            KeptRegister::Rbp => &mut registers.rbp,
            KeptRegister::R12 => &mut registers.r12,
            KeptRegister::R14 => &mut registers.r14,
            KeptRegister::R15 => &mut registers.r15,
        } = RT_SIGRETURN;
        let mut words = vec![0; 1 + pops];
        words[0] = address;
        registers.rsp -= 8 * words.len() as u64;
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

impl Loader {
    /// Decodes the code at an address.
    fn of(address: u64, code: &[u8]) -> Option<Self> {
        let (register, mut rest) = match code {
            [0x89, 0xd8, rest @ ..] => (KeptRegister::Rbx, rest),
            [0x89, 0xe8, rest @ ..] => (KeptRegister::Rbp, rest),
            [0x44, 0x89, 0xe0, rest @ ..] => (KeptRegister::R12, rest),
            [0x44, 0x89, 0xf0, rest @ ..] => (KeptRegister::R14, rest),
            [0x44, 0x89, 0xf8, rest @ ..] => (KeptRegister::R15, rest),
            _ => return None,
        };
        for pops in 0..=MAX_POPS {
            rest = match rest {
                [0xc3, ..] => return Some(Self { address, register, pops }),
                [0x5b | 0x5d, rest @ ..] | [0x41, 0x5c..=0x5f, rest @ ..] => rest,
                _ => return None,
            };
        }
        None
    }
}

/// Functions save six registers at most.
const MAX_POPS: usize = 6;
/// The number of the system call.
const RT_SIGRETURN: u64 = 15;

/// Short pieces of code, by which a thread makes a system call, and returns from being hijacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gadgets {
    /// To `mov rax, 15; syscall`, which any program has that handles signals; else to the system
    /// call below, by a [`Loader`].
    pub ending: Ending,
    /// `syscall; ret`.
    pub syscall: u64,
}

/// The bytes of one read.
const BLOCK_BYTES: u64 = 1 << 20;
const RESTORER: &[u8] = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05";
const SYSCALL: &[u8] = b"\x0f\x05\xc3";
/// The most bytes of a piece.
const MAX_PIECE: u64 = 16;

impl Gadgets {
    /// Finds them in the executable mappings of a process's files, a block at a time. A place
    /// inside of another instruction will do.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Option<Self> {
        let (mut restorer, mut syscall, mut loader) = (None, None, None);
        let mut parts: Vec<_> = maps.iter().filter(|it| it.is_executable && it.file.1 != 0).collect();
        parts.sort_by_key(|it| !it.name.contains("/libc"));
        for part in parts {
            let mut start = part.start;
            while start < part.end {
                let length = BLOCK_BYTES.min(part.end - start);
                let Ok(bytes) = memory.bytes(start, usize::try_from(length).ok()?) else { break };
                let at = |pattern| find_pattern(&bytes, pattern).map(|at| start + at as u64);
                restorer = restorer.or_else(|| at(RESTORER));
                syscall = syscall.or_else(|| at(SYSCALL));
                if let (Some(restorer), Some(syscall)) = (restorer, syscall) {
                    return Some(Self { ending: Ending::at(restorer), syscall });
                }
                loader = loader.or_else(|| {
                    (start..).zip(0..bytes.len()).find_map(|(addr, at)| Loader::of(addr, &bytes[at..]))
                });
                if length < BLOCK_BYTES {
                    break;
                }
                // A piece may lie across the end of a block.
                start += BLOCK_BYTES - MAX_PIECE;
            }
        }
        let syscall = syscall?;
        Some(Self { ending: Ending { restorer: syscall, loader: Some(loader?) }, syscall })
    }
}

fn find_pattern(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|it| it == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::zeroed_registers;

    /// Two components, the second one behind the header, and a third one of tiles.
    fn size_of_some(components: u64) -> usize {
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
            rip: 0x4000,
            cs: 0x33,
            eflags: 0x202,
            rsp: 0x7fff_1234,
            ss: 0x2b,
            ..zeroed_registers()
        }
    }

    fn word(frame: &SignalFrame, at: usize) -> u64 {
        u64::from_le_bytes(frame.bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn a_frame_holds_all_registers_in_the_kernels_layout() {
        let frame = SignalFrame::new(&registers(), 0xfeed, xstate(3), 0xabc, size_of_some).unwrap();
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
            SignalFrame::new(&registers(), 0, xstate, 0, size_of_some)
        };
        let long = frame_of(3 | XTILE_DATA, 11008).unwrap();
        assert!(long.bytes.len() > 11008 && (long.bytes.len() as u64) + RED_ZONE_BYTES < MAX_FRAME_BYTES);
        assert_eq!(frame_of(3 | XTILE_DATA, 11007), None);
        assert_eq!(frame_of(3, 831), None);
        assert_eq!(frame_of(3, 100), None);
        assert_eq!(frame_of(8, 11008), None, "an unknown component");
    }

    #[test]
    fn more_components_need_no_fewer_bytes() {
        assert_eq!(xstate_bytes(3), MIN_XSTATE_BYTES);
        assert!(xstate_bytes(7) >= xstate_bytes(3));
    }

    #[test]
    fn the_end_of_a_function_loads_the_number_of_a_call() {
        let of = |code: &[u8]| Loader::of(0x1000, code).map(|it| (it.register, it.pops));
        assert_eq!(of(&[0x89, 0xd8, 0xc3]), Some((KeptRegister::Rbx, 0)));
        assert_eq!(of(&[0x89, 0xe8, 0x5b, 0x5d, 0xc3]), Some((KeptRegister::Rbp, 2)));
        assert_eq!(of(&[0x44, 0x89, 0xe0, 0x5b, 0x5d, 0x41, 0x5c, 0xc3]), Some((KeptRegister::R12, 3)));
        for none in [
            &[0x89, 0xd8][..],
            &[0x89, 0xe0, 0xc3],
            &[0x89, 0xd8, 0x90, 0xc3],
            &[0x89, 0xd8, 0x41, 0x58, 0xc3],
        ] {
            assert_eq!(of(none), None, "{none:x?}");
        }
        assert_eq!(of(&[&[0x89, 0xd8][..], &[0x5b; MAX_POPS + 1], &[0xc3]].concat()), None);
        let loader = Loader { address: 0x1234, register: KeptRegister::R12, pops: 2 };
        let mut after = Registers { rsp: 0x8000, ..registers() };
        let words = Ending { restorer: 0, loader: Some(loader) }.lead(&mut after);
        assert_eq!((after.rsp, after.r12, after.rbx), (0x8000 - 24, 15, 3));
        assert_eq!(words, [0x1234_u64, 0, 0].map(u64::to_le_bytes).concat());
        assert_eq!(Ending::at(7).lead(&mut after), []);
    }

    #[test]
    fn a_pattern_is_found_anywhere() {
        assert_eq!(find_pattern(b"\x0f\x05\xc3", SYSCALL), Some(0));
        assert_eq!(find_pattern(b"\x0f\x0f\x05\xc2\x0f\x05\xc3", SYSCALL), Some(4));
        assert_eq!(find_pattern(b"\x0f\x05", SYSCALL), None);
        assert_eq!(find_pattern(b"", SYSCALL), None);
        assert_eq!(find_pattern(b"\x0f\x05\x48\xc7\xc0\x0f\0\0\0\x0f\x05", RESTORER), Some(2));
        assert_eq!(find_pattern(b"\x0f\0\0\0\x0f\x05", RESTORER), None);
    }
}
