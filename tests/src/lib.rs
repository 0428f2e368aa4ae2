//! Integration tests live in `tests/`, one process for each scenario of global state; what several of them share
//! is here.

#[cfg(not(any(probe_portable, probe_off)))]
pub mod call_sites;
pub mod fixture;
pub mod text;
