//! The instructions of a program that are counted: latent sites, and calls of hooks.
//!
//! | in the program | while it is counted | the stub, once it has counted |
//! |---|---|---|
//! | a site's NOP | `jmp stub` | `jmp` behind the site |
//! | `call hook` | `call stub` | `jmp hook` |
//! | `call *hook@GOTPCREL(%rip)` | `call *stub's pointer(%rip)` | `jmp *hook@GOTPCREL(%rip)` |
//! | `jmp hook` | `jmp stub` | `jmp hook` |
//! | `jmp *hook@GOTPCREL(%rip)` | `jmp *stub's pointer(%rip)` | `jmp *hook@GOTPCREL(%rip)` |
//!
//! So a hook has its calls as before, and returns to where it would have returned. Calls and jumps
//! keep their first byte, so a uprobe may come and go. At a site it may not: the kernel writes the
//! NOP's first byte when it goes. The stubs:
//!
//! ```text
//! of a site: lea rsp, [rsp - 128]      of a hook: pushfq
//!          5 pushfq                             1 lock inc qword [counter]
//!          6 lock inc qword [counter]           9 popfq
//!         14 popfq                             10 jmp …
//!         15 lea rsp, [rsp + 128]
//!         23 jmp …                             24 its pointer: the address of the stub
//! ```
//! A site may lie in a function that uses the red zone. Nothing lives below the stack pointer where
//! a function calls another one, or ends with a jump to it. A stub changes no register but the
//! flags, which it restores.

use std::io;

use probe_coldpatch::Way;
use probe_inject::Memory;

use crate::probe_tables::NOP;

/// Bytes of a JMP or a CALL.
const JUMP_LEN: usize = 5;
/// The longest instruction that is counted: a call through a pointer, with a prefix.
const MAX_LEN: usize = 7;
/// Bytes from one stub to the next.
pub const STUB_LEN: u64 = STUB_SIZE as u64;
const STUB_SIZE: usize = 32;
/// The prefix for addresses of 32 bits.
const ADDRESS_SIZE: u8 = 0x67;
/// The offset of a stub's own address, for calls through pointers.
const POINTER: usize = STUB_SIZE - 8;
const RED_ZONE: u64 = 128;
const JMP: u8 = 0xe9;
const CALL: u8 = 0xe8;

/// The bytes of an instruction, behind their number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Code([u8; 1 + MAX_LEN]);

/// An instruction that is counted, as it is while nobody counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Counted {
    /// Its address.
    pub addr: u64,
    /// Its bytes.
    pub code: Code,
}

/// The way behind a stub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// The instruction behind the site.
    Behind,
    Hook(Way),
}

impl Code {
    /// Makes an instruction of these bytes; `None` if they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut code = [0; 1 + MAX_LEN];
        code[0] = u8::try_from(bytes.len()).ok()?;
        code.get_mut(1..=bytes.len())?.copy_from_slice(bytes);
        Some(Self(code))
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.get(1..=self.0[0].into()).unwrap_or_default()
    }
}

impl Counted {
    /// Bytes of one in a region's header.
    pub const LEN: u64 = 16;

    /// Makes the latent site at an address.
    pub const fn site(addr: u64) -> Self {
        let mut code = [0; 1 + MAX_LEN];
        let mut at = 0;
        while at < NOP.len() {
            code[0] += 1;
            code[1 + at] = NOP[at];
            at += 1;
        }
        Self { addr, code: Code(code) }
    }

    /// Makes a call of a hook, or a jump to one, of its bytes; `None` if they are none.
    pub fn hook(addr: u64, bytes: &[u8]) -> Option<Self> {
        let (_, way) = Way::of(addr, bytes)?;
        // With this prefix, no pointer above 4 GiB can be reached.
        let is_near = matches!(way, Way::Through(_)) && bytes.first() == Some(&ADDRESS_SIZE);
        (!is_near).then(|| Code::new(bytes).map(|code| Self { addr, code }))?
    }

    /// Returns the bytes that stand for it in a region's header.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.addr.to_le_bytes());
        bytes[8..].copy_from_slice(&self.code.0);
        bytes
    }

    /// Reads one from a region's header; `None` if it is another instruction.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        let (addr, code) = bytes.split_first_chunk::<8>()?;
        let it = Self { addr: u64::from_le_bytes(*addr), code: Code(code.try_into().ok()?) };
        it.next().map(|_| it)
    }

    /// Returns whether it is a jump, and what follows once it is counted.
    fn decoded(&self) -> Option<(bool, Next)> {
        if self.code.bytes() == NOP {
            return Some((true, Next::Behind));
        }
        let (is_jump, way) = Way::of(self.addr, self.code.bytes())?;
        Some((is_jump, Next::Hook(way)))
    }

    fn next(&self) -> Option<Next> {
        self.decoded().map(|(_, next)| next)
    }

    /// Returns the address behind it.
    pub fn end(&self) -> u64 {
        self.addr.wrapping_add(self.code.bytes().len() as u64)
    }

    /// Returns the instruction in its place that leads to a stub; `None` if that is too far away.
    pub fn active(&self, stub: u64) -> Option<Code> {
        let (is_jump, next) = self.decoded()?;
        let mut code = self.code.bytes().to_vec();
        let at = code.len().checked_sub(JUMP_LEN)?;
        let to = if let Next::Hook(Way::Through(_)) = next {
            stub.wrapping_add(POINTER as u64)
        } else {
            code[at] = if is_jump { JMP } else { CALL };
            stub
        };
        code[at + 1..].copy_from_slice(&distance(self.end(), to)?);
        Code::new(&code)
    }

    /// Returns the code of its stub; `None` if the counter or the rest of the way is too far away.
    pub fn stub(&self, at: u64, counter: u64) -> Option<[u8; STUB_SIZE]> {
        let mut code = vec![];
        let next = self.next()?;
        let is_site = next == Next::Behind;
        if is_site {
            code.extend([0x48, 0x8d, 0x64, 0x24, 0x80]);
        }
        code.extend([0x9c, 0xf0, 0x48, 0xff, 0x05]);
        code.extend(distance(at + code.len() as u64 + 4, counter)?);
        code.push(0x9d);
        if is_site {
            code.extend([0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]);
        }
        let (opcode, to): (&[u8], u64) = match next {
            Next::Behind => (&[JMP], self.end()),
            Next::Hook(Way::To(to)) => (&[JMP], to),
            Next::Hook(Way::Through(pointer)) => (&[0xff, 0x25], pointer),
        };
        code.extend(opcode);
        code.extend(distance(at + code.len() as u64 + 4, to)?);
        code.resize(STUB_SIZE, 0xcc);
        if let Next::Hook(Way::Through(_)) = next {
            code[POINTER..].copy_from_slice(&at.to_le_bytes());
        }
        code.try_into().ok()
    }

    /// Returns the work that remains at this offset of its stub; `None` if no instruction begins
    /// there.
    pub fn remainder(&self, place: u64) -> Option<Remainder> {
        let of_site = [(0, true, false, 0), (15, false, false, RED_ZONE), (23, false, false, 0)];
        let of_hook = [(10, false, false, 0)];
        let (counting, red_zone, others) = match self.next()? {
            Next::Behind => (5, RED_ZONE, &of_site[..]),
            Next::Hook(_) => (0, 0, &of_hook[..]),
        };
        let pushed = red_zone + 8;
        let places = [
            (counting, true, false, red_zone),
            (counting + 1, true, true, pushed),
            (counting + 9, false, true, pushed),
        ];
        let (_, counts, has_flags, stack) =
            places.iter().chain(others).find(|(offset, ..)| *offset == place).copied()?;
        Some(Remainder { counts, has_flags, stack })
    }

    /// Returns the address that follows the stub.
    ///
    /// # Errors
    /// The system's, if the pointer to the hook can't be read.
    pub fn goes_to(&self, memory: &Memory) -> io::Result<u64> {
        match self.next() {
            Some(Next::Hook(Way::To(to))) => Ok(to),
            Some(Next::Hook(Way::Through(pointer))) => memory.word(pointer),
            Some(Next::Behind) | None => Ok(self.end()),
        }
    }
}

/// The part of a stub that a thread has not executed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remainder {
    /// Whether the thread's hit is still to be counted.
    pub counts: bool,
    /// Whether the thread's flags lie on the stack.
    pub has_flags: bool,
    /// Bytes to add to the stack pointer, those of the flags included.
    pub stack: u64,
}

fn distance(from: u64, to: u64) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(from).cast_signed()).ok().map(i32::to_le_bytes)
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

    use super::*;

    const AT: u64 = 0x50_0000;
    const COUNTER: u64 = 0x50_1000;
    const ADDR: u64 = 0x40_1238;

    fn decoded(code: &[u8], at: u64) -> Vec<Instruction> {
        let all = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
        all.into_iter().take_while(|it| it.mnemonic() != Mnemonic::Int3).collect()
    }

    /// Checks that work remains exactly where an instruction of a stub begins. Returns its
    /// instructions.
    fn stub(counted: &Counted) -> Vec<Instruction> {
        let all = decoded(&counted.stub(AT, COUNTER).unwrap(), AT);
        let places: Vec<_> = all.iter().map(|it| it.ip() - AT).collect();
        let known: Vec<_> = (0..STUB_LEN).filter(|it| counted.remainder(*it).is_some()).collect();
        assert_eq!(places, known);
        let inc = all.iter().find(|it| it.mnemonic() == Mnemonic::Inc).unwrap();
        assert!(inc.has_lock_prefix() && inc.ip_rel_memory_address() == COUNTER);
        all
    }

    #[test]
    fn a_site_is_counted_behind_the_red_zone() {
        let site = Counted::site(ADDR);
        let all = stub(&site);
        let names: Vec<_> = all.iter().map(Instruction::mnemonic).collect();
        let expected =
            [Mnemonic::Lea, Mnemonic::Pushfq, Mnemonic::Inc, Mnemonic::Popfq, Mnemonic::Lea, Mnemonic::Jmp];
        assert_eq!(names, expected);
        assert_eq!(all[5].near_branch_target(), ADDR + 5);
        let to = decoded(site.active(AT).unwrap().bytes(), ADDR);
        assert_eq!((to.len(), to[0].mnemonic(), to[0].near_branch_target()), (1, Mnemonic::Jmp, AT));
    }

    #[test]
    fn a_hook_is_called_as_before() {
        for (bytes, is_jump, is_through) in [
            (&[0xe8, 1, 2, 3, 0][..], false, false),
            (&[0x67, 0xe8, 1, 2, 3, 0], false, false),
            (&[0xff, 0x15, 1, 2, 3, 0], false, true),
            (&[0xe9, 1, 2, 3, 0], true, false),
            (&[0xff, 0x25, 1, 2, 3, 0], true, true),
            (&[0x3e, 0xff, 0x25, 1, 2, 3, 0], true, true),
        ] {
            let hook = Counted::hook(ADDR, bytes).unwrap();
            let all = stub(&hook);
            let names: Vec<_> = all.iter().map(Instruction::mnemonic).collect();
            assert_eq!(names, [Mnemonic::Pushfq, Mnemonic::Inc, Mnemonic::Popfq, Mnemonic::Jmp]);
            let there = ADDR + bytes.len() as u64 + 0x3_0201;
            let last = all[3];
            let to = if is_through { last.ip_rel_memory_address() } else { last.near_branch_target() };
            assert_eq!((to, last.is_ip_rel_memory_operand()), (there, is_through));
            // A return leads behind the call that was there.
            let active = hook.active(AT).unwrap();
            let led = decoded(active.bytes(), ADDR);
            assert_eq!((led.len(), led[0].len(), active.bytes()[0]), (1, bytes.len(), bytes[0]));
            if is_through {
                let pointer = usize::try_from(led[0].ip_rel_memory_address() - AT).unwrap();
                let stub = hook.stub(AT, COUNTER).unwrap();
                assert_eq!(stub[pointer..pointer + 8], AT.to_le_bytes());
            } else {
                assert_eq!(led[0].near_branch_target(), AT);
            }
            assert_eq!(led[0].mnemonic(), if is_jump { Mnemonic::Jmp } else { Mnemonic::Call });
            assert_eq!(Counted::from_bytes(hook.to_bytes()), Some(hook));
        }
        assert_eq!(Counted::from_bytes(Counted::site(ADDR).to_bytes()), Some(Counted::site(ADDR)));
    }

    #[test]
    fn other_instructions_are_not_counted() {
        for bytes in [
            &[0x90; 5][..],
            &[0xe8, 1, 2, 3],
            &[0x41, 0xff, 0xd4],
            &[0x2e, 0x3e, 0xff, 0x15, 0, 0, 0, 0],
            &[0x67, 0xff, 0x15, 0, 0, 0, 0],
        ] {
            assert_eq!(Counted::hook(ADDR, bytes), None, "{bytes:x?}");
        }
        let mut bytes = Counted::site(ADDR).to_bytes();
        for len in (0..=u8::MAX).filter(|it| *it != 5) {
            bytes[8] = len;
            assert_eq!(Counted::from_bytes(bytes), None, "{len}");
        }
    }

    #[test]
    fn distances_beyond_a_jump_are_refused() {
        assert_eq!(Counted::site(0x1000).active(0x1000 + (1 << 32)), None);
        assert_eq!(Counted::site(1 << 33).stub(0x1000, 0x2000), None);
        assert_eq!(Counted::site(0x2000).stub(0x1000, 1 << 33), None);
    }
}
