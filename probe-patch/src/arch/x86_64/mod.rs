//! x86-64.

#[cfg(probe_backend = "patched")]
pub(crate) mod call_plan;
#[cfg(probe_backend = "patched")]
pub(crate) mod call_site;
#[cfg(probe_backend = "patched")]
pub(crate) mod cpu;
pub(crate) mod instruction;
#[cfg(all(test, probe_backend = "patched", not(loom)))]
pub(crate) mod model;
#[cfg(probe_backend = "patched")]
pub(crate) mod self_test;
