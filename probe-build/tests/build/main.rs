//! `probe_build::Build` outside of a build script: what it makes of C and C++ with each compiler, what it leaves to cc
//! and says about it, and the commands that it runs.
//!
//! Whatever looks at the environment runs in a process of its own (`environment.rs`).
#![cfg(target_os = "linux")]

mod assembly;
mod delegation;
mod environment;
mod exclusions;
mod fallbacks;
mod mistakes;
mod mitigations;
mod objects;
mod place;
mod programs;
mod shim;
