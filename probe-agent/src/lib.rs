#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod start;
