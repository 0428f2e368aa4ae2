//! Signatures of functions that compilers of this machine have compiled.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod compiled;
mod damaged;
