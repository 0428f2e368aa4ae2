//! A library with probes of its own, `no_std`, with no feature of the runtime.
#![no_std]

use probe_runtime::probe;

/// Compiled here.
#[probe]
#[inline(never)]
pub fn area(width: u64, height: u64) -> u64 {
    width * height
}

/// Compiled where it is used.
#[probe]
pub fn scaled<T: Copy>(value: T) -> T {
    probe!("factor");
    value
}

/// Compiled here, removed by the linker.
#[probe]
#[inline(never)]
pub fn never_called(value: u64) -> u64 {
    value + 1
}

pub mod inner {
    //! A longer path.

    use probe_runtime::probe;

    /// Compiled where it is used.
    #[probe]
    #[inline]
    pub fn doubled(value: u64) -> u64 {
        value * 2
    }
}
