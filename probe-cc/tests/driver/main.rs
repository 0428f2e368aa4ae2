//! `probe-cc` in place of the real compiler: each command line does what the compiler does, and
//! objects have sites.

#![cfg(all(target_os = "linux", target_arch = "x86_64", not(probe_portable), not(probe_off)))]

mod builds;
mod kinds;
mod matrix;
mod objects;
mod place;
mod settings;
