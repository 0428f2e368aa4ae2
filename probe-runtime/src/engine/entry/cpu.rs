//! The processor's counters, for clocks and measurements. This follows the target's architecture,
//! whatever the backend is: an architecture that is not listed here has no counters.
//!
//! - `time_stamp()`: a counter that runs at one rate, in one or a few instructions that touch no
//!   memory; 0 where there is none.
//! - `has_steady_time_stamp()`: whether that counter runs at one rate, in all states of the
//!   machine.
//! - `await_time_stamp()`: no later instruction begins before an earlier reading is done.
//! - `performance_counter(number)`: a counter of the processor's, if the kernel allows to read it.

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "x86_64/cpu.rs"]
mod known;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use known::*;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod unknown {
    pub(crate) fn time_stamp() -> u64 {
        0
    }

    pub(crate) fn has_steady_time_stamp() -> bool {
        false
    }

    pub(crate) fn await_time_stamp() {}

    /// # Safety
    /// None.
    #[cfg(all(feature = "perf", target_os = "linux", target_arch = "aarch64", not(miri)))]
    #[expect(unsafe_code, reason = "the same as where there are some")]
    pub(crate) unsafe fn performance_counter(_number: u32) -> u64 {
        0
    }
}
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use unknown::*;
