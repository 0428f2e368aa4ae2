//! Switching CALLs and JMPs of five bytes that lie anywhere, also across two aligned words: without a pause, a barrier or a
//! lock.
//!
//! A site's word is written whole (see [`patch`](super)), but a straddling site has two. "Living on the edge", section 6,
//! shows that a CALL can be switched by changing one of them only. Sites are told by how many of their bytes lie in
//! the first of the two aligned 8-byte words:
//!
//! ```text
//!  split            active                       deactivated                       written
//!  none             e8 a b c d   CALL            0f 1f 44 00 08   NOP5             the word
//!  2|3, 3|2, 4|1    e8 a|b c d   CALL            eb 03|b c d      over b c d       the first word: its bytes e8 a
//!  1|4              e8|a b c d   CALL            e8|p q r s       CALL of a `ret`  the second word: the distance
//!  1|4              e9|a b c d   JMP             e9|0 0 0 0       JMP to the next  the second word: the distance
//! ```
//! (With JMP, `e9`, in place of CALL elsewhere; 3|2 and 4|1 keep `b` and `b c` in the first word, unchanged.)
//!
//! What follows from it:
//! - In one word, everything may become everything: CALL, JMP, any target, NOP.
//! - 1|4 may lead anywhere at any time, but a CALL stays a CALL and a JMP a JMP ([`PatchError::Opcode`]).
//! - 2|3, 3|2 and 4|1 keep the last three bytes, so they lead where they led, or within the same 256 bytes
//!   ([`PatchError::Tail`]). To re-target those, replace the whole instruction by a word patch, which waits.
//! - A straddling NOP of five bytes can't be activated.
//!
//! # Life of a switch
//! [`TextPolicy::Sealed`] opens the site's pages ▸ its words are read ▸ a plan is made, purely, from what is there: the word to
//! write, or that the site is as wanted, or why not ▸ one `lock cmpxchg` of that word, expecting what was read; if somebody
//! wrote to it meanwhile, from the second step on again ▸ the pages are sealed.
//!
//! Cost: with [`TextPolicy::Open`], the locked instruction and a few dozen others, and no system call but for the first site
//! that needs a `ret`, and the first in each region that needs one of its own. With `Sealed`, two system calls.
//!
//! Other threads execute the new instruction a moment later, as with [`Visibility::Eventual`](super::Visibility::Eventual). Whoever has to
//! know that all of them do calls [`synchronize`](super::synchronize), once for any number of sites.
//!
//! # Why it is safe while threads execute the site
//! - *No third instruction.* Each switch changes one aligned word, by one aligned write, and leaves the site's other word as it
//!   is. A thread that fetches the two words at different moments sees the unchanged one and either value of the changed one: the
//!   old bytes or the new bytes, nothing mixed. Of several switches in a row it sees one of their instructions, for the
//!   same reason: by 2|3 to 4|1 only the first word ever changes, by 1|4 only the second.
//! - *Nobody is in between.* The instructions begin at the site's first byte. All but `eb 03` are five bytes long, and
//!   after that one, execution goes on at the fifth, too: its tail is not executed. So no thread's next instruction is
//!   ever at the bytes inside, where interrupts, signals and preemption would leave it.
//! - *Inside the callee.* A thread that has called before the site was deactivated comes back to the address after the site,
//!   which begins the same instruction as ever, whatever the site is by then. One that is in the `ret` of a deactivated
//!   CALL does too: that `ret` is never freed. After a JMP, the code that it led to stays where it is.
//! - *Stack and registers.* A deactivated CALL of a `ret` writes its return address below the stack pointer, as the active
//!   one does, and changes nothing else, not even flags.
//! - *Others' patches.* A breakpoint or any other foreign byte in the word that is to be written makes the comparison fail; what
//!   is then there is looked at again, and refused. Neighbours in the word are written back as they were compared.
//!
//! What it rests on: a naturally aligned quadword is written, and fetched, as a whole (AMD APM vol. 2, 7.6.1, "cross-modifying
//! code"). Intel's SDM vol. 3, 9.1.3 (8.1.3 in older editions) promises only what is followed by a serialising instruction on
//! the executing processor, and calls the rest model-specific; that it holds, even for whole cache lines, was measured
//! ("Living on the edge", sections 3 and 8.1). No bound is needed on how late a thread sees the change.
//!
//! It does *not* go together with a word patch of the same instruction at the same time: that one changes both words, in
//! steps. Of two copies of this crate in one process, each takes the `ret` of the other for a callee, and deactivates such a
//! CALL once more, with a `ret` of its own.
//!
//! ```
//! use probe_runtime::patch::{PatchError, call};
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

mod gaps;
#[cfg(all(test, not(loom)))]
mod model;
mod options;
mod page;
mod plan;
mod site;
#[cfg(test)]
mod table;
mod trampolines;

pub use options::Options;

use super::PatchError;
#[cfg(doc)]
use super::{TextError, TextPolicy};

/// Makes a site of five bytes a CALL of `target`. Returns whether that took a write: `false` if it was one already.
///
/// Found may be a CALL or a JMP, active or deactivated, or a NOP of five bytes within one aligned word. Text is opened for the
/// moment; [`Options`] has other ways. Threads that execute the site meanwhile execute what was there or the CALL.
///
/// # Errors
/// [`PatchError::NotACall`], [`PatchError::Tail`], [`PatchError::Opcode`], [`PatchError::OutOfReach`], and
/// [`PatchError::Text`] where the system does not let the text be written. The site is then as it was. Only with
/// [`TextError::Unrestored`] in it, it is as was asked for, and what could not be done is to seal its text.
///
/// # Safety
/// - `addr` is the first of five bytes of code that are one instruction, or what [`deactivate_call`] has left of one. Nothing
///   jumps between them, and what executes them may as well execute a CALL of `target`, any number of times, before and
///   after this returns: it is code within 2 GiB that returns, and keeps what the code around the site relies on.
/// - The bytes stay mapped meanwhile, and nobody changes them meanwhile by other means than this module's functions.
///
/// ```
/// use probe_runtime::patch::{PatchError, call};
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
    unsafe { Options::new().activate_call(addr, target) }
}

/// Makes a site of five bytes a JMP to `target`. Returns whether that took a write: `false` if it was one already.
///
/// As [`activate_call`]. Split 1|4, a JMP to the instruction after it is the same as a deactivated one.
///
/// # Errors
/// As for [`activate_call`].
///
/// # Safety
/// As for [`activate_call`], with a JMP to `target`: code that goes on as the code around the site expects.
///
/// ```
/// use probe_runtime::patch::{PatchError, call};
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
    unsafe { Options::new().activate_jump(addr, target) }
}

/// Makes a CALL or JMP of five bytes one that does nothing. Returns whether that took a write: `false` if it did nothing
/// already.
///
/// # Errors
/// [`PatchError::NotACall`]; [`PatchError::Text`] where the system does not let the text be written;
/// [`PatchError::Trampoline`] where a CALL that is split 1|4 has no `ret` within 2 GiB. The site is then as it was, but for
/// [`TextError::Unrestored`], as in [`activate_call`].
///
/// # Safety
/// As for [`activate_call`]; what executes the site does without the callee, or what was jumped to: goes on after it.
///
/// ```
/// use probe_runtime::patch::{PatchError, call};
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
    unsafe { Options::new().deactivate_call(addr) }
}
