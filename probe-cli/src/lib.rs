#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod args;
pub mod audit;
mod call_stats;
#[expect(non_camel_case_types, reason = "see `output::object`")]
pub mod commands;
pub mod elf;
pub mod hook_probes;
#[cfg(target_os = "linux")]
mod inject;
#[cfg(target_os = "linux")]
mod live;
pub mod output;
#[cfg(target_os = "linux")]
mod preload;
pub mod probe_tables;
pub mod proc_files;
mod progress;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod ptrace_count;
mod site_list;
pub mod sled_probes;
mod terminal_width;
pub mod text;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod watch;
