#![cfg_attr(all(target_os = "linux", target_arch = "x86_64"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    doc = "Calls functions in other processes, on x86-64 Linux alone."
)]
#![deny(unsafe_code)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod call;
mod error;
mod halt;
mod process;

pub use call::{CallResult, CriticalCode, MemoryFile, Process, RemoteCall};
pub use error::InjectError;
pub use halt::{Halted, ThreadRegisters};
pub use process::{Mapping, Memory, maps};
