//! The door to an architecture. Only this room knows instructions, registers and processors.
//!
//! An architecture is a folder. `probe-target` decides whether the target's code is patched, and
//! this file hands on the folder's items. A new architecture is a folder with these files, a line
//! here and one in `probe-target`:
//!
//! | file | provides | for |
//! |---|---|---|
//! | `instruction` | [`Instruction`], [`Rel32`], [`SiteAddr`], [`SITE_LEN`], [`TextWord`]: the instructions of a probe's site, the distance of a branch, and the aligned word that holds an instruction. Pure, and on every target: tools read the files of other machines | `poke`, `call`, `probe-runtime` |
//! | `call_plan` | `call_plan`: from the words of a call site to the one write that switches it, or an error. `Words`, `Wanted`, `Opcode`, `CallPlan`; `Trampolines`, which the plan asks for a function that returns at once. Pure, with its truth table | `call` |
//! | `cpu` | `BREAKPOINT` and `has_breakpoint`: an instruction's first bytes while the rest of it is being replaced | `protocol`, `word` |
//! | | `timestamp`, `timestamp_after_writes`, `this_thread`, `is_valgrind` | `protocol`, `word` |
//! | | `BRANCH_REACH`, `PAGE_SIZE`; `return_at_once`, and `fill_return_page` for a copy of it | `code_pages`, `call`, `os` |
//! | | `Registers`: where an interrupted thread continues, and the breakpoint that it has executed; `debugger_must_pass_on_sigtrap`, the check that a debugger passes `SIGTRAP` on | `os::trap` |
//! | | `scan_text` and `fault_addresses`: a read that may fault, and where to continue then | `os::guarded_read` |
//! | `self_test` | two functions that return a number, whose first instruction lies in one word in the one, and in two in the other; that instruction for each of two numbers | `self_test` |
//! | `model` (tests) | the effect of the bytes at a site, for the model that tries every mix of old and new bytes | – |
//!
//! The engine relies on this:
//! - An instruction has at most eight bytes, and words are little-endian.
//! - Instruction fetch sees an aligned write of eight bytes as a whole, or the breakpoint's bytes,
//!   if all patches are [strict](crate::word::WordOptions::strict).
//! - The breakpoint's bytes lie in one word. The kernel raises `SIGTRAP` for it.
//! - membarrier(2) with `PRIVATE_EXPEDITED_SYNC_CORE` discards all that processors have fetched
//!   ahead.

mod x86_64;

pub use x86_64::instruction::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};

#[cfg(probe_backend = "patched")]
pub use x86_64::cpu::INT3;
#[cfg(probe_backend = "patched")]
pub(crate) use x86_64::{
    call_plan::{CallPlan, Opcode, Trampolines, Wanted, Words, call_plan, reaches, site_range},
    cpu::{
        BRANCH_REACH, BREAKPOINT, PAGE_SIZE, Registers, debugger_must_pass_on_sigtrap, fault_addresses,
        fill_return_page, has_breakpoint, is_valgrind, return_at_once, scan_text, this_thread, timestamp,
        timestamp_after_writes,
    },
    self_test,
};
