//! Modules: functions of libraries, which programs call that nobody prepared. The programs of these
//! tests count their own calls.
#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_env = "gnu",
    not(probe_portable),
    not(probe_off)
))]

mod calls;
mod held;
mod linking;
mod parallel;
mod program;
mod texts;
mod while_running;
