//! The instructions of each architecture.

mod x86_64;

pub use x86_64::instruction::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};

#[cfg(probe_backend = "patched")]
pub use x86_64::cpu::INT3;
#[cfg(probe_backend = "patched")]
pub(crate) use x86_64::{
    call_plan::{CallPlan, Opcode, Trampolines, Wanted, call_plan},
    call_site::{Words, site_range},
    cpu::{
        BRANCH_REACH, BREAKPOINT, PAGE_SIZE, Registers, debugger_must_pass_on_sigtrap, fault_addresses,
        fill_return_page, has_breakpoint, is_valgrind, return_at_once, scan_text, this_thread, timestamp,
        timestamp_after_writes,
    },
    self_test,
};
