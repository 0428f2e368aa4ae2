//! Switching CALLs and JMPs of five bytes, wherever they lie, without a pause, a barrier or a lock.
//!
//! A site that lies in one aligned word is switched by writing that word. A
//! straddling site lies in two words. "Living on the edge", section 6, shows that changing one of
//! them can switch a CALL. A *split* tells how many of a site's bytes lie in the first of its two
//! aligned 8-byte words:
//!
//! ```text
//!  split            active                       deactivated                       written
//!  none             e8 a b c d   CALL            0f 1f 44 00 08   NOP5             the word
//!  2|3, 3|2, 4|1    e8 a|b c d   CALL            eb 03|b c d      over b c d       the first word: its bytes e8 a
//!  1|4              e8|a b c d   CALL            e8|p q r s       CALL of a `ret`  the second word: the distance
//!  1|4              e9|a b c d   JMP             e9|0 0 0 0       JMP to the next  the second word: the distance
//! ```
//! The other rows hold for JMP, `e9`, too. Splits 3|2 and 4|1 leave `b`, or `b c`, in the first
//! word unchanged.
//!
//! Consequences:
//! - A site in one word may become anything: a CALL, a JMP, with any target, or a NOP.
//! - A site split 1|4 may lead anywhere at any time, but a CALL stays a CALL and a JMP a JMP
//!   ([`PatchError::Opcode`]).
//! - Sites split 2|3, 3|2 and 4|1 keep their last three bytes. So they lead to the same target, or
//!   to one within the same 256 bytes ([`PatchError::Tail`]). To lead such a site elsewhere,
//!   replace the whole instruction by a [word patch](super::word), which waits.
//! - A straddling NOP of five bytes can't be activated.
//!
//! # Life of a switch
//! 1. [`TextPolicy::Sealed`] opens the site's pages.
//! 2. The site's words are read.
//! 3. A pure function plans from these: the word to write, that the site already is as wanted, or
//!    an error.
//! 4. One `lock cmpxchg` writes that word, expecting the value that was read. If other code has
//!    written to it meanwhile, the switch starts again at step 2.
//! 5. `Sealed` seals the pages.
//!
//! Cost: the locked instruction and a few dozen others. With [`TextPolicy::Open`] there is no
//! system call, except for the first site that needs a `ret`, and for the first one in each region
//! that needs a `ret` of its own. `Sealed` adds two system calls.
//!
//! Other threads execute the new instruction a moment later. To know that all of them do, call
//! [`synchronize`](super::synchronize), once for any number of sites.
//!
//! # Why it is safe while threads execute the site
//! - *No third instruction.* Each switch changes one aligned word by one aligned write, and leaves
//!   the site's other word as it is. A thread may fetch the two words at different moments. It sees
//!   the unchanged word, and the old or the new value of the changed one, never a mix. Several
//!   switches in a row change the same word: the first one by 2|3 to 4|1, the second one by 1|4. So
//!   a thread sees one of their instructions.
//! - *No thread is in between.* All of these instructions begin at the site's first byte. They are
//!   five bytes long, or `eb 03`, which jumps over the other three bytes. So no thread's next
//!   instruction is ever inside the site, and no interrupt, signal or preemption leaves a thread
//!   there.
//! - *Inside the callee.* A thread that called before the site was deactivated returns to the
//!   address after the site, where the same instruction begins as ever. So does a thread in the
//!   `ret` of a deactivated CALL; that `ret` is never freed. The code that a JMP led to stays where
//!   it is.
//! - *Stack and registers.* A deactivated CALL of a `ret` writes its return address below the stack
//!   pointer, as the active CALL does. It changes nothing else, not even flags.
//! - *Others' patches.* A breakpoint or any other foreign byte in the word makes the comparison
//!   fail. The word is then read again, and refused. Neighbours in the word are written back as
//!   they were compared.
//!
//! It rests on naturally aligned quadwords being written and fetched as a whole (AMD APM vol. 2,
//! 7.6.1, "cross-modifying code"). Intel's SDM vol. 3, 9.1.3 (8.1.3 in older editions) promises
//! that only if the executing processor executes a serialising instruction next, and calls the rest
//! model-specific. "Living on the edge", sections 3 and 8.1, measures that it holds, even for whole
//! cache lines. A thread may see the change arbitrarily late.
//!
//! Do *not* patch the same instruction by a [word patch](super::word) at the same time: that
//! changes both words, in steps. Of two copies of this crate in one process, each takes the `ret`
//! of the other for a callee. It deactivates such a CALL once more, with a `ret` of its own.
//!
//! ```
//! use probe_patch::{PatchError, call};
//!
//! std::arch::global_asm! {
//!     ".p2align 3",
//!     "asked: xor eax, eax",     // 2 bytes
//!     "nop dword ptr [rax + 8]", // 4 bytes, so that the CALL is split 2|3
//!     "asked_site: call answer",
//!     "ret",
//!     "answer: mov eax, 42",
//!     "ret",
//! }
//! unsafe extern "C" {
//!     safe fn asked() -> u32;
//!     safe fn answer() -> u32;
//!     static asked_site: u8;
//! }
//!
//! fn main() -> Result<(), PatchError> {
//!     let site = (&raw const asked_site) as usize;
//!     assert_eq!(asked(), 42);
//!     // SAFETY: a CALL whose result the caller can do without.
//!     assert!(unsafe { call::deactivate_call(site) }?);
//!     assert_eq!(asked(), 0);
//!     // SAFETY: the function that it has called before.
//!     assert!(unsafe { call::activate_call(site, answer as *const () as usize) }?);
//!     assert_eq!(asked(), 42);
//!     Ok(())
//! }
//! ```

// Safety: relies on the callers' promises, which are handed on.
#![expect(unsafe_code, reason = "see above")]

mod options;
mod trampolines;

pub use options::CallOptions;

use crate::engine::error::PatchError;
#[cfg(doc)]
use crate::{engine::error::TextError, text::TextPolicy};

/// Makes a site of five bytes a CALL of `target`. Returns whether that took a write: `false` if the
/// site was that CALL already.
///
/// The site may be a CALL or a JMP, active or deactivated, or a NOP of five bytes within one
/// aligned word. The text is opened for this switch only; [`CallOptions`] has other ways. Threads
/// that execute the site meanwhile execute the old instruction or the CALL.
///
/// # Errors
/// [`PatchError::NotACall`], [`PatchError::Tail`], [`PatchError::Opcode`],
/// [`PatchError::OutOfReach`], and [`PatchError::Text`] if the system does not let the text be
/// written. The site is then as it was. After [`TextError::Unrestored`], however, the site is the
/// CALL, and its text could not be sealed.
///
/// # Safety
/// - `addr` is the first of five bytes of code: one instruction, or the bytes that
///   [`deactivate_call`] has made of one. Nothing jumps between them.
/// - The program may execute a CALL of `target` there, any number of times, before and after this
///   returns. `target` is code within 2 GiB that returns, and preserves whatever the code around
///   the site relies on.
/// - Meanwhile the bytes stay mapped, and only this module's functions change them.
///
/// ```
/// use probe_patch::{PatchError, call};
///
/// #[unsafe(naked)]
/// extern "C" fn seven() -> u32 {
///     std::arch::naked_asm!("mov eax, 7", "ret")
/// }
///
/// #[unsafe(naked)]
/// extern "C" fn caller() -> u32 {
///     // The CALL is at the fourth byte.
///     std::arch::naked_asm!("push rcx", "xor eax, eax", "call {}", "pop rcx", "ret", sym seven)
/// }
///
/// let site = caller as *const () as usize + 3;
/// let target = seven as *const () as usize;
/// // SAFETY: a CALL whose result the function can do without.
/// unsafe { call::deactivate_call(site) }?;
/// assert_eq!(caller(), 0);
/// // SAFETY: the function that the CALL led to before.
/// assert!(unsafe { call::activate_call(site, target) }?);
/// assert_eq!(caller(), 7);
/// # Ok::<(), PatchError>(())
/// ```
#[inline]
pub unsafe fn activate_call(addr: usize, target: usize) -> Result<bool, PatchError> {
    // SAFETY: the caller's promise.
    unsafe { CallOptions::new().activate_call(addr, target) }
}

/// Makes a site of five bytes a JMP to `target`. Returns whether that took a write: `false` if the
/// site was that JMP already.
///
/// The site may be the same as for [`activate_call`]. A JMP that is split 1|4 and leads to the next
/// instruction is the same as a deactivated one.
///
/// # Errors
/// The same as those of [`activate_call`].
///
/// # Safety
/// The same as for [`activate_call`], but with a JMP: the code at `target` continues as the code
/// around the site expects.
///
/// ```
/// use probe_patch::{PatchError, call};
///
/// #[unsafe(naked)]
/// extern "C" fn short_way() -> u32 {
///     std::arch::naked_asm!("mov eax, 1", "ret")
/// }
///
/// #[unsafe(naked)]
/// extern "C" fn way() -> u32 {
///     std::arch::naked_asm!("jmp {}", "mov eax, 2", "ret", sym short_way)
/// }
///
/// let (site, target) = (way as *const () as usize, short_way as *const () as usize);
/// // SAFETY: what follows the JMP returns, too.
/// unsafe { call::deactivate_call(site) }?;
/// assert_eq!(way(), 2);
/// // SAFETY: where the JMP led before.
/// assert!(unsafe { call::activate_jump(site, target) }?);
/// assert_eq!(way(), 1);
/// # Ok::<(), PatchError>(())
/// ```
#[inline]
pub unsafe fn activate_jump(addr: usize, target: usize) -> Result<bool, PatchError> {
    // SAFETY: the caller's promise.
    unsafe { CallOptions::new().activate_jump(addr, target) }
}

/// Makes a CALL or JMP of five bytes an instruction without effect. Returns whether that took a
/// write: `false` if the site was deactivated already.
///
/// # Errors
/// [`PatchError::NotACall`]; [`PatchError::Text`] if the system does not let the text be written;
/// [`PatchError::Trampoline`] if no `ret` is within 2 GiB of a CALL that is split 1|4. The site is
/// then as it was, except after [`TextError::Unrestored`], as for [`activate_call`].
///
/// # Safety
/// The same as for [`activate_call`], but the program must work without the callee, or without the
/// jump: it continues after the site.
///
/// ```
/// use probe_patch::{PatchError, call};
///
/// #[unsafe(naked)]
/// extern "C" fn nine() -> u32 {
///     std::arch::naked_asm!("mov eax, 9", "ret")
/// }
///
/// #[unsafe(naked)]
/// extern "C" fn asks() -> u32 {
///     std::arch::naked_asm!("push rcx", "xor eax, eax", "call {}", "pop rcx", "ret", sym nine)
/// }
///
/// assert_eq!(asks(), 9);
/// let site = asks as *const () as usize + 3;
/// // SAFETY: a CALL whose result the function can do without.
/// assert!(unsafe { call::deactivate_call(site) }?);
/// assert_eq!(asks(), 0);
/// # Ok::<(), PatchError>(())
/// ```
#[inline]
pub unsafe fn deactivate_call(addr: usize) -> Result<bool, PatchError> {
    // SAFETY: the caller's promise.
    unsafe { CallOptions::new().deactivate_call(addr) }
}
