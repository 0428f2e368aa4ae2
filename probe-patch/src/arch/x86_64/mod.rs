//! x86-64: instructions of any length at any address, of which five bytes make a CALL, a JMP or a
//! NOP.

pub mod instruction;

#[cfg(probe_backend = "patched")]
pub(crate) mod call_plan;
#[cfg(probe_backend = "patched")]
pub(crate) mod cpu;
#[cfg(all(test, probe_backend = "patched", not(loom)))]
pub(crate) mod model;
#[cfg(probe_backend = "patched")]
pub(crate) mod self_test;
