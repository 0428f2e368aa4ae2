//! The call that has reached a hook.
//!
//! | bytes before the return address | meaning |
//! |---|---|
//! | `e8 rel32` | a call, direct or through a linkage table |
//! | `67 e8 rel32` | a call through a pointer that the linker made direct; as above |
//! | `ff 15 rel32` | a call through a pointer (`-fno-plt`) |
//! | anything else | not ours to patch: a call through a register, or a jump to the hook ([`tail_jumps`](super::super::tail_jumps)), whose caller's caller this is |
//!
//! Calls within an aligned word end in a site of five bytes. Other calls are switched in place
//! ([`CallPatch`](super::call_patch::CallPatch)). The sixth byte of a call through a pointer
//! becomes a `67`: an address-size prefix, which changes neither the NOP nor the CALL behind it.

// Safety: relies on callers. They name the return address of a call, or the target of a jump, in
// text that stays mapped: a hook's own call's, or that of an object that can't be unloaded
// meanwhile.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;

use crate::engine::os::text::page_size;
use crate::engine::os::thread::errno;
use crate::engine::sites::{Bytes, Instruction, Rel32, SITE_LEN, SiteAddr, read_word};
use probe_hooks::{MAX_LINKAGE_ENTRY_LEN, Target, linkage_word};

/// The length of the longest call that is understood, in bytes.
pub(in super::super) const MAX_CALL_LEN: usize = 6;

const CALL: u8 = 0xe8;
const CALL_AT_RIP: [u8; 2] = [0xff, 0x15];
const ADDRESS_SIZE: u8 = 0x67;

/// A call that ends at a return address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Call {
    returns: usize,
    bytes: [u8; MAX_CALL_LEN],
    pub(in super::super) target: Target,
}

impl Call {
    /// Returns the call that ends at `returns`, behind these bytes.
    pub(in super::super) fn before(returns: usize, bytes: [u8; MAX_CALL_LEN]) -> Option<Self> {
        let [a, b, distance @ ..] = bytes;
        let there = returns.wrapping_add_signed(i32::from_le_bytes(distance) as isize);
        let target = match [a, b] {
            [_, CALL] => Target::Direct(there),
            CALL_AT_RIP => Target::Through(there),
            _ => return None,
        };
        Some(Self { returns, bytes, target })
    }

    /// Returns the address that it returns to.
    pub(in super::super) fn returns(self) -> usize {
        self.returns
    }

    /// Returns the address of the site's five bytes.
    pub(in super::super) fn site(self) -> SiteAddr {
        site(self.returns)
    }

    /// Returns the bytes before the return address.
    pub(in super::super) fn bytes(self) -> [u8; MAX_CALL_LEN] {
        self.bytes
    }

    /// Returns the last five bytes before the return address.
    pub(in super::super) fn site_bytes(self) -> [u8; SITE_LEN] {
        let [_, call @ ..] = self.bytes;
        call
    }

    /// Returns the instruction's address and bytes, without a prefix.
    pub(in super::super) fn instruction(self) -> (usize, Bytes) {
        match self.target {
            Target::Direct(_) => (self.site().0, self.site_bytes().into()),
            Target::Through(_) => (self.site().0 - 1, self.bytes.into()),
        }
    }

    /// Returns the instruction's address, its bytes, and its bytes with this instruction at the
    /// site.
    pub(in super::super) fn rewritten(self, site: Instruction) -> (usize, Bytes, Bytes) {
        let (at, old) = self.instruction();
        let new = match self.target {
            Target::Direct(_) => site.bytes().into(),
            Target::Through(_) => {
                let mut bytes = [ADDRESS_SIZE; MAX_CALL_LEN];
                bytes[1..].copy_from_slice(&site.bytes());
                bytes.into()
            }
        };
        (at, old, new)
    }
}

/// Returns the site of the call that returns to this address.
pub(in super::super) fn site(returns: usize) -> SiteAddr {
    SiteAddr(returns.wrapping_sub(SITE_LEN))
}

/// Returns the CALL of `target` at a site; `None` if it is out of reach.
pub(in super::super) fn call(site: SiteAddr, target: usize) -> Option<Instruction> {
    Rel32::between(site, target).map(Instruction::call)
}

/// Returns the call of the hook that returns to this address, if it is understood.
///
/// # Safety
/// The byte before the address is in text that stays mapped.
pub(in super::super) unsafe fn read_call(returns: usize, hook: usize) -> Option<Call> {
    let start = returns.checked_sub(MAX_CALL_LEN)?;
    // The call's own bytes can be read. The page before them may not be mapped.
    if start / page_size() != (returns - 1) / page_size() && !is_readable(start) {
        return None;
    }
    // Each aligned word is read at once, so that its bytes are of one moment. Switching a call
    // changes one word.
    // SAFETY: the words that hold readable bytes, and so are in the same pages, which stay mapped:
    // the caller's promise.
    let words = unsafe { [read_word(start & !7), read_word((returns - 1) & !7)] };
    let mut bytes = [0; MAX_CALL_LEN];
    for (at, byte) in (start..returns).zip(&mut bytes) {
        let [first, second] = words.map(u64::to_le_bytes);
        *byte = if at & !7 == start & !7 { first[at % 8] } else { second[at % 8] };
    }
    Call::before(returns, bytes).filter(|call| {
        // SAFETY: of a call in mapped text.
        unsafe { leads_to(call.target, hook) }
    })
}

/// Returns whether a call or a jump leads to the hook, perhaps through a linkage table.
///
/// # Safety
/// It is an instruction of text that stays mapped, with the linkage table of the same object.
pub(in super::super) unsafe fn leads_to(target: Target, hook: usize) -> bool {
    let through = |pointer: usize| {
        // SAFETY: readable, and of the object whose text stays mapped.
        is_readable(pointer) && unsafe { ptr::read_unaligned(pointer as *const usize) } == hook
    };
    match target {
        Target::Direct(there) if there == hook => true,
        Target::Direct(there)
            if is_readable(there) && is_readable(there.wrapping_add(MAX_LINKAGE_ENTRY_LEN - 1)) =>
        {
            // SAFETY: readable, as above.
            let bytes = unsafe { ptr::read_volatile(there as *const [u8; MAX_LINKAGE_ENTRY_LEN]) };
            linkage_word(there, &bytes).is_some_and(through)
        }
        Target::Direct(_) => false,
        Target::Through(pointer) => through(pointer),
    }
}

/// Returns whether an address can be read. The bytes before a return address need not be the call
/// that was executed. Asks the kernel, which does not fault: sigprocmask(2) reads a signal set
/// there before it refuses its invalid operation. Costs some 0.1 µs.
fn is_readable(addr: usize) -> bool {
    const NO_SUCH: libc::c_int = -1;
    let word = addr & !7;
    // SAFETY: reads a word, or fails; changes nothing, as there is no such change.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH, word, 0, 8) };
    errno() == libc::EINVAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_call_is_replaced_by_five_bytes() {
        let call = Call::before(0x1005, [0x90, 0xe8, 0x10, 0, 0, 0]).unwrap();
        assert_eq!(call.target, Target::Direct(0x1015));
        let (at, old, new) = call.rewritten(Instruction::NOP5);
        assert_eq!((at, &*old, &*new), (0x1000, &[0xe8, 0x10, 0, 0, 0][..], &[0x0f, 0x1f, 0x44, 0, 8][..]));
        let relaxed = Call::before(0x1005, [0x67, 0xe8, 0xf0, 0xff, 0xff, 0xff]).unwrap();
        assert_eq!((relaxed.target, relaxed.site()), (Target::Direct(0xff5), SiteAddr(0x1000)));
    }

    #[test]
    fn a_call_through_a_pointer_keeps_its_length() {
        let call = Call::before(0x1006, [0xff, 0x15, 0x10, 0, 0, 0]).unwrap();
        assert_eq!((call.target, call.site()), (Target::Through(0x1016), SiteAddr(0x1001)));
        let (at, old, new) = call.rewritten(Instruction::NOP5);
        assert_eq!((at, &*old), (0x1000, &[0xff, 0x15, 0x10, 0, 0, 0][..]));
        assert_eq!(&*new, &[0x67, 0x0f, 0x1f, 0x44, 0, 8][..]);
    }

    #[test]
    fn calls_through_registers_are_none() {
        for bytes in [[0x90, 0x90, 0x90, 0x90, 0xff, 0xd0], [0; 6], [0x41, 0xff, 0x15, 0, 0, 0xff]] {
            assert_eq!(Call::before(0x1006, bytes), None);
        }
    }

    proptest! {
        #[test]
        fn a_call_made_is_read_again(at in 0x1000_usize..1 << 46, distance: i32) {
            let site = SiteAddr(at);
            let target = (at + SITE_LEN).wrapping_add_signed(distance as isize);
            let made = call(site, target).unwrap();
            let mut bytes = [0x90; MAX_CALL_LEN];
            bytes[1..].copy_from_slice(&made.bytes());
            let read = Call::before(at + SITE_LEN, bytes).unwrap();
            prop_assert_eq!((read.target, read.site()), (Target::Direct(target), site));
        }

        #[test]
        fn never_panics(returns: usize, bytes: [u8; MAX_CALL_LEN]) {
            if let Some(call) = Call::before(returns, bytes) {
                let _ = call.site();
            }
        }
    }
}
