//! Integration tests live in `tests/`, one process for each scenario of global state; what several of them share
//! is here.

pub mod fixture;
#[cfg(target_os = "linux")]
pub mod pages;
pub mod text;
