//! Integration tests live in `tests/`, one process for each scenario of global state; what several of them share
//! is here.

pub mod code;
pub mod fixture;
pub mod text;
