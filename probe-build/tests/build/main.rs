//! Tests `probe_build::Build` outside build scripts: the objects of C and C++ with each compiler,
//! the fallbacks to cc with their reasons, and the commands.
//!
//! Tests of the environment run in processes of their own (`environment.rs`).
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
