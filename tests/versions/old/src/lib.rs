//! A library that ships probes through the version of the runtime that the program has.

#![no_std]
#![forbid(unsafe_code)]

use probe_runtime::probe;

/// Doubles it.
#[probe]
#[inline(never)]
pub fn double(x: u64) -> u64 {
    probe!("doubling", x);
    core::hint::black_box(x) * 2
}

/// Compiled where it is used, for its type.
#[probe]
#[inline(never)]
pub fn keep<T: Copy>(x: T) -> T {
    core::hint::black_box(x)
}
