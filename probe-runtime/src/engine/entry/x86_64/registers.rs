//! The registers at a site of C, for values that its code passes to nobody.
//!
//! ```text
//!  frame - 8   the address after the site        frame - 48  rdx    frame - 72  r9
//!  frame - 16  rdi                               frame - 56  rsi    frame - 80  r10
//!  frame - 24  rax    frame - 32  rcx            frame - 64  r8     frame - 88  r11
//!  frame - 40  rbp    frame       rsp
//! ```
//! The way in ([`enter`](super::enter)) has stored these, as each C function's caller would. The
//! others are still those of the site when it calls the hook's function: neither the way in nor
//! [`vectors`](super::vectors) changes them before. Hooks whose hits need values name
//! [`capture`] or [`capture_for`] in place of that function. It stores `rbx`, `r12` to `r15` and
//! `xmm0` to `xmm7`, and continues in `delivery`. Hooks whose values are all in registers that the
//! way in has stored do without.
//!
//! Cost: none for other hooks; 20 instructions.

// Safety: relies on the way in, whose layout is above, and which calls `capture` as a function that
// a hook names.
#![expect(unsafe_code, reason = "see above")]

use std::arch::naked_asm;
use std::mem::offset_of;

use crate::engine::dispatch::{
    Hook, Listener, Subscription, ThreadSlot, deliver_captured, deliver_captured_to, dispatch_captured,
};
use probe_core::abi::{Definition, Value};

/// The registers that the way in does not store.
#[repr(C, align(16))]
pub(crate) struct Captured {
    vectors: [[u64; 2]; 8],
    /// `rbx`, `r12` to `r15`.
    saved: [u64; 5],
}

// The numbers in the assembly.
const _: () = {
    assert!(offset_of!(Captured, vectors) == 0 && offset_of!(Captured, saved) == 128);
    assert!(size_of::<Captured>() == 176);
};

/// The place of a register of the site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoredRegister {
    /// This far from the frame.
    Frame(i16),
    /// This far from the start of [`Captured`].
    Captured(u16),
    /// It is the frame's address itself.
    StackPointer,
}

impl StoredRegister {
    /// Returns where the register with this number in DWARF is stored. Of a vector register, the
    /// lower half is meant.
    pub(crate) fn of(number: u8) -> Option<Self> {
        const FRAME: [i16; 12] = [-24, -48, -32, 0, -56, -16, -40, 0, -64, -72, -80, -88];
        match number {
            3 => Some(Self::Captured(128)),
            7 => Some(Self::StackPointer),
            0..=11 => Some(Self::Frame(FRAME[usize::from(number)])),
            12..=15 => Some(Self::Captured(136 + 8 * (u16::from(number) - 12))),
            17..=24 => Some(Self::Captured(16 * (u16::from(number) - 17))),
            _ => None,
        }
    }

    /// Returns whether [`capture`] stores the register.
    pub(crate) fn is_captured(self) -> bool {
        matches!(self, Self::Captured(_))
    }

    /// Returns the register's value at the site; `None` if nothing has stored it.
    ///
    /// # Safety
    /// Both must be what the way in and `capture` have passed, of a hit that has not returned.
    /// `captured` may be null instead.
    #[inline(always)]
    pub(crate) unsafe fn read(self, frame: *const Value<'_>, captured: *const Captured) -> Option<u64> {
        // SAFETY: the caller's promise, and the layouts above.
        unsafe {
            match self {
                Self::Frame(offset) => Some(*frame.byte_offset(offset.into()).cast()),
                Self::Captured(_) if captured.is_null() => None,
                Self::Captured(offset) => Some(*captured.byte_add(offset.into()).cast()),
                Self::StackPointer => Some(frame.addr() as u64),
            }
        }
    }
}

/// Returns the address after the site of a hit; of a cold block, the address after its call.
///
/// # Safety
/// `frame` must be what the way in has passed, of a hit that has not returned.
#[inline(always)]
pub(crate) unsafe fn after_site(frame: *const Value<'_>) -> usize {
    // SAFETY: the caller's promise.
    unsafe { *frame.byte_sub(8).cast() }
}

/// Returns `rbp` at the site of a hit.
///
/// # Safety
/// `frame` must be what the way in has passed, of a hit that has not returned.
#[inline(always)]
pub(crate) unsafe fn frame_pointer(frame: *const Value<'_>) -> usize {
    // SAFETY: the caller's promise, and the layout above.
    unsafe { *frame.byte_sub(40).cast() }
}

/// Stores the registers, and calls a function with their address as its third parameter.
macro_rules! capture {
    ($(#[$doc:meta])* $name:ident $([$listener:ident])?, $then:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name$(<$listener: Listener>)?(
            _: &Definition,
            _: *const Value<'static>,
            _: usize,
            _: *const Subscription,
            _: *const ThreadSlot,
            _: *const Hook,
        ) {
            naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, 176",
                ".irp n, 0, 1, 2, 3, 4, 5, 6, 7\nmovaps [rsp + 16 * \\n], xmm\\n\n.endr",
                "mov [rsp + 128], rbx",
                "mov [rsp + 136], r12",
                "mov [rsp + 144], r13",
                "mov [rsp + 152], r14",
                "mov [rsp + 160], r15",
                "mov rdx, rsp",
                "call {then}",
                "leave",
                ".cfi_def_cfa rsp, 8",
                ".cfi_restore rbp",
                "ret",
                ".cfi_endproc",
                then = sym $then,
            )
        }
    };
}

capture! {
    /// The function of hooks with several members, of which some need values.
    capture, deliver_captured
}

capture! {
    /// The function of hooks whose only member needs such values, and has a consumer of this type.
    capture_for[L], deliver_captured_to::<L>
}

capture! {
    /// The function for hits whose thread's slot is not marked.
    capture_unmarked, dispatch_captured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_has_a_place_of_its_own() {
        let stored: Vec<_> = (0..=32).filter_map(StoredRegister::of).collect();
        assert_eq!(stored.len(), 24);
        for (at, register) in stored.iter().enumerate() {
            assert!(!stored[..at].contains(register), "{register:?}");
        }
        assert_eq!([16, 25, 32].map(StoredRegister::of), [None; 3]);
    }
}
