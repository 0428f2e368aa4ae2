//! **wordpatch**: replacing one instruction of up to 8 bytes, wherever it lies, while all threads
//! run.
//!
//! "Living on the edge", sections 4 and 5.
//!
//! # The protocol
//! One locked write of an aligned 8-byte word replaces an instruction that lies in it. An
//! instruction that lies across two words (a *straddler*) goes through `int3`, and with
//! [`WordOptions::strict`] every instruction does:
//!
//! ```text
//!  e8 11 | 22 33 44     call            the word boundary is at |
//!  cc 11 | 22 33 44     1. lock         compare and exchange: what is there must be as expected
//!                       2. sync         from here on every thread sees `int3`
//!  cc 1f | 44 00 00     3. rest         no thread executes these bytes
//!                       4. sync         from here on every thread sees them
//!  0f 1f | 44 00 00     5. first        nopl 0(%rax,%rax,1)
//! ```
//! A thread that arrives between 1 and 5 gets `SIGTRAP`. The handler waits until the patch is over,
//! or takes the patch's remaining steps itself. Then the thread executes the instruction that is
//! there.
//!
//! # Why no thread executes a third instruction
//! - Up to the end of step 2, threads see the old rest, and the old first byte or `int3`: the old
//!   instruction, or a trap.
//! - From there to the end of step 4, all threads see `int3` as the first byte: a trap, whatever
//!   follows.
//! - After that, all threads see the new rest, and `int3` or the new first byte: a trap, or the new
//!   instruction.
//! - No thread can be between two bytes of the instruction: they are one instruction before, and
//!   one afterwards.
//! - A byte is written whole, so no thread sees a byte that was never written.
//!
//! # Basis of each step
//! | step | rests on | where it does not hold |
//! |---|---|---|
//! | one write of an aligned word | AMD APM vol. 2, 7.6.1 (cross-modifying code): a naturally aligned quadword may be changed while others execute it. Intel SDM vol. 3, 9.1.3 (8.1.3 in older editions) promises nothing for unsynchronised changes; "Living on the edge", 3 and 8.1, measures that aligned stores within a cache line are seen whole | [`WordOptions::strict`] |
//! | 1, 5: one byte | the smallest unit of memory there is; the same path as the Linux kernel's `text_poke_bp` and every debugger's breakpoints | – |
//! | 2, 4 with [`Wait::Barrier`] | membarrier(2), `PRIVATE_EXPEDITED_SYNC_CORE`: when it returns, every running thread of the process has executed a serialising instruction, and a thread that was not running executes one before it returns to user mode. A serialising instruction discards all bytes that were fetched before (SDM vol. 3, 9.3; APM vol. 2, 7.6.4) | without the system call (before Linux 4.16, or forbidden) a page's rights are changed instead, which interrupts the processors; best effort |
//! | 2, 4 with [`Wait::Tmax`] | no manual: staleness of the instruction fetch is bounded, measured by "Living on the edge", 8.1, and by the example `tmax` | [`Wait::Barrier`] |
//! | the handler | the thread fetches the instruction anew; one that still sees `int3` comes again | – |
//!
//! # Requirements on callers
//! - One instruction lies at the address, and the value is one instruction of the same length. The
//!   program may execute either of them there. No control flow leads between their bytes.
//! - Patches under way do not overlap, except those of the very same instruction. At least one of
//!   these succeeds. The others get [`PatchError::Busy`], or [`PatchError::Foreign`] if they name
//!   the bytes that they replace and these are gone.
//! - The text stays mapped until the patch is over.
//! - No thread that may execute the instruction blocks `SIGTRAP`, not even during a signal handler
//!   whose mask holds it. The kernel kills a process that can't take a trap. A patch [looks for
//!   such threads first](self#before-a-trap).
//! - The handler does not execute the instruction itself. It calls the C library's `syscall`,
//!   `sched_yield` and `sigaction`, and for [`TextPolicy::Alias`](crate::TextPolicy::Alias) also
//!   `fstat`, `getpid` and `mmap`.
//! - No thread switches a site of [`call`](super::call) there at the same time. Such a switch does
//!   not look for `int3` in the word that it does not write.
//! - No debugger keeps `SIGTRAP` to itself: [see below](self#debuggers).
//! - No debugger puts a breakpoint on the very byte while it is `int3` (between 1 and 5). The
//!   debugger would take that `int3` for the program's, and would put it back. A breakpoint on an
//!   instruction that is not being patched is reported, and left alone.
//! - In a shared mapping of text, a forked child also ends patches that its parent has under way.
//!
//! If a process has two copies of this crate, each passes the other's traps on. But the copy that
//! installed its handler first finds the other one's on top, and refuses further patches through
//! traps.
//!
//! # Before a trap
//! Each batch of sites and each patch that goes through `int3` first looks for whatever could kill
//! the process. It refuses, and names its finding ([`PatchError::Signal`]), if there is
//! - a thread that blocks `SIGTRAP`; the error names its number and name. Threads that are being
//!   created block all signals for a moment. The check waits for these, up to ten seconds if the
//!   machine is too busy to run them;
//! - a handler whose `sa_mask` holds `SIGTRAP`; the error names its signal. It can't be known
//!   whether the handler executes the instruction;
//! - a handler that was installed over this crate's;
//! - a debugger that does not pass `SIGTRAP` on; the error names its process;
//! - no readable `/proc/self/task`: then the threads' masks are unknown.
//!
//! The check misses a thread that begins to block `SIGTRAP` between the check and the end of the
//! patch, and a handler with such a mask that is installed in that time. That time is microseconds
//! for one instruction and milliseconds for thousands. Patches of this module trust a check for up
//! to ten milliseconds more. So if you must block the signal, do so before sites are switched, or
//! where no patched instruction is executed.
//!
//! # Debuggers
//! A debugger stops at each `int3` of a thread that it traces. gdb and lldb take it for a
//! breakpoint in the program. Unless they are told otherwise, `continue` drops the signal, and the
//! thread continues at the instruction's second byte. The bytes from there on are part of an
//! instruction: `1f 44 00 08` of a NOP, or a displacement. No order of writes makes them an
//! instruction that is right to execute.
//!
//! So a traced program first executes a harmless `int3`, in `debugger_must_pass_on_sigtrap`. It
//! refuses to patch if its handler does not get that signal, and tries again after a second.
//! - gdb: `handle SIGTRAP nostop noprint pass`, when the program has come there. gdb then passes on
//!   the signals of its own breakpoints, too, which ends the program: have no breakpoints
//!   meanwhile.
//! - lldb: `process handle SIGTRAP -s false -n false -p true`.
//! - strace and rr pass the signal on.
//!
//! One danger remains. A debugger that is attached while patches are under way may stop a thread at
//! one of their `int3`s, and `continue` then kills the program.
//!
//! Under valgrind, `--smc-check=all` makes it notice patched code. valgrind does not tell which
//! threads of its program block a signal, so there a patch does not look for these.
//!
//! # Cost
//! - A check: 40 µs, and 10 to 14 µs a thread (one file of `/proc` each; AMD EPYC).
//! - One write: one locked instruction.
//! - A patch through a trap: four locked writes, ten locked instructions of bookkeeping, and two
//!   waits, which asynchronous patches share. A thread that runs into it pays 2 µs for the signal.
//! - [`TextPolicy::Sealed`](crate::TextPolicy::Sealed) adds two system calls.
//! - Memory: 64 bytes for each instruction that was ever patched through a trap.
//!
//! ```
//! use probe_patch::PatchError;
//! use probe_patch::word::{finish_patch, is_straddler, patch, start_patch};
//!
//! std::arch::global_asm! {
//!     ".p2align 3, 0x90",
//!     "number:", ".fill 6, 1, 0x90",
//!     "number_mov: mov eax, 1", // 5 bytes, of which 2 are in the first word
//!     "ret",
//! }
//! unsafe extern "C" {
//!     safe fn number() -> u32;
//!     static number_mov: u8;
//! }
//!
//! fn main() -> Result<(), PatchError> {
//!     let at = (&raw const number_mov) as usize;
//!     assert!(is_straddler(at, 5));
//!     // SAFETY: `mov eax, imm32`, for another one.
//!     unsafe { patch(at, [0xb8, 2, 0, 0, 0].into()) }?;
//!     assert_eq!(number(), 2);
//!
//!     // Asynchronously: two steps are left. A thread that runs into the trap takes them.
//!     // SAFETY: as above.
//!     let mut under_way = unsafe { start_patch(at, [0xb8, 3, 0, 0, 0].into()) }?;
//!     assert!(!finish_patch(&mut under_way));
//!     assert!(finish_patch(&mut under_way));
//!     assert_eq!(number(), 3);
//!     Ok(())
//! }
//! ```

// Safety: this module's two functions hand on what their callers promise.
#![expect(unsafe_code, reason = "see above")]

pub(crate) mod nonblocking;
pub(crate) mod options;
pub(crate) mod pending;
pub(crate) mod trap;

pub use crate::arch::INT3;
pub use crate::engine::poke::Write;
pub use crate::engine::protocol::{Plan, Step, Ticks, Wait, is_straddler};
pub use options::WordOptions;
pub use pending::Pending;
pub use trap::traps;

use crate::engine::bytes::Bytes;
use crate::engine::error::PatchError;

/// Replaces the instruction at `addr` by `value`, an instruction of the same length, and returns
/// when the write is done. Other threads execute the new instruction soon afterwards;
/// [`synchronize`](super::synchronize) waits until they do.
///
/// # Safety
/// See the [requirements on callers](self#requirements-on-callers).
///
/// # Errors
/// [`PatchError::Busy`] while another patch of the instruction is under way;
/// [`PatchError::Foreign`] for a breakpoint; [`PatchError::Trap`] for a value that begins with
/// `int3`; [`PatchError::Text`] where the text can't be made writable; [`PatchError::Signal`] where
/// traps can't be handled; [`PatchError::Memory`]. The instruction is as it was then.
///
/// ```
/// use probe_patch::PatchError;
/// use probe_patch::word::patch;
///
/// #[unsafe(naked)]
/// extern "C" fn limit() -> u32 {
///     std::arch::naked_asm!("mov eax, 10", "ret")
/// }
///
/// assert_eq!(limit(), 10);
/// // SAFETY: `mov eax, imm32` becomes another one.
/// unsafe { patch(limit as *const () as usize, [0xb8, 20, 0, 0, 0].into()) }?;
/// assert_eq!(limit(), 20);
/// # Ok::<(), PatchError>(())
/// ```
pub unsafe fn patch(addr: usize, value: Bytes) -> Result<(), PatchError> {
    // SAFETY: as the caller says.
    unsafe { WordOptions::new().patch(addr, value) }
}

/// Begins to replace the instruction at `addr`, and returns at once. One thread may have thousands
/// of patches under way.
///
/// # Safety
/// As for [`patch`], until the patch is over.
///
/// # Errors
/// As for [`patch`].
///
/// ```
/// use probe_patch::PatchError;
/// use probe_patch::word::{finish_patch, start_patch};
///
/// #[unsafe(naked)]
/// extern "C" fn low() -> u32 {
///     std::arch::naked_asm!("mov eax, 1", "ret")
/// }
///
/// #[unsafe(naked)]
/// extern "C" fn high() -> u32 {
///     std::arch::naked_asm!("mov eax, 8", "ret")
/// }
///
/// // Both are under way at once, so that they share their barriers.
/// let mut patches = Vec::new();
/// for function in [low as *const () as usize, high as *const () as usize] {
///     // SAFETY: `mov eax, imm32` becomes another one.
///     patches.push(unsafe { start_patch(function, [0xb8, 4, 0, 0, 0].into()) }?);
/// }
/// while !patches.is_empty() {
///     patches.retain_mut(|patch| !finish_patch(patch));
/// }
/// assert_eq!((low(), high()), (4, 4));
/// # Ok::<(), PatchError>(())
/// ```
pub unsafe fn start_patch(addr: usize, value: Bytes) -> Result<Pending, PatchError> {
    // SAFETY: as the caller says.
    unsafe { WordOptions::new().start(addr, value) }
}

/// Takes the next step of a patch, and tells whether it is over: [`Pending::finish`].
///
/// ```
/// use probe_patch::PatchError;
/// use probe_patch::word::{finish_patch, start_patch};
///
/// #[unsafe(naked)]
/// extern "C" fn colour() -> u32 {
///     std::arch::naked_asm!("mov eax, 1", "ret")
/// }
///
/// // SAFETY: `mov eax, imm32` becomes another one.
/// let mut patch = unsafe { start_patch(colour as *const () as usize, [0xb8, 2, 0, 0, 0].into()) }?;
/// while !finish_patch(&mut patch) {
///     // Other work could be done here.
/// }
/// assert_eq!(colour(), 2);
/// # Ok::<(), PatchError>(())
/// ```
pub fn finish_patch(patch: &mut Pending) -> bool {
    patch.finish()
}
